"""Runs a server over stdio and notes each cancellation that reaches it: `tap.py FILE COMMAND...`.

For servers that do not show that a call was cancelled. Everything else passes through unchanged.
"""

import subprocess
import sys
import threading
from pathlib import Path


def main(log: Path, command: list[str]) -> int:
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None

    def answers() -> None:
        assert server.stdout is not None
        for line in server.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    reader = threading.Thread(target=answers, daemon=True)
    reader.start()
    for line in sys.stdin.buffer:
        if b'"notifications/cancelled"' in line:
            with log.open("ab") as file:
                file.write(line)
        server.stdin.write(line)
        server.stdin.flush()
    server.stdin.close()
    reader.join()
    return server.wait()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
