"""A program that uses the blocking client, is interrupted with Ctrl-C, and waits for the end of its input."""

import sys

from dovetail import Client


def in_a_call(command: list[str]) -> None:
    with Client.blocking(command) as client:
        try:
            client.call("wait_for_ever", told=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        print(client.call("what_stopped").data, flush=True)


def while_opening(command: list[str]) -> None:
    try:
        Client.blocking(command).open()
    except KeyboardInterrupt:
        print("interrupted", flush=True)


if __name__ == "__main__":
    {"call": in_a_call, "open": while_opening}[sys.argv[1]](sys.argv[2:])
    print("done", flush=True)
    sys.stdin.read()
