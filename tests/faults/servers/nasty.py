"""A server whose handlers do everything that a handler should not."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time

from dovetail import Context, Server
from dovetail.protocol.deadline import Timeouts

server = Server("nasty")
raised = {
    kind.__name__: kind
    for kind in (BaseException, SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit)
}
raised["StopIteration"] = StopIteration
raised["RecursionError"] = RecursionError
gate = threading.Event()
stopped: list[str] = []


def fill_the_pipe(ctx: Context, size: int) -> None:
    connection = ctx._invocation.call.connection
    assert connection is not None
    connection.notify("notifications/message", {"level": "info", "data": "x" * size})


@server.tool
async def echo(text: str) -> str:
    return text


@server.tool
async def raise_in_async(kind: str) -> str:
    await asyncio.sleep(0)
    raise raised[kind]("from the handler")


@server.tool
def raise_in_sync(kind: str) -> str:
    raise raised[kind]("from the handler")


@server.resource("nasty://{kind}")
async def raise_in_resource(kind: str) -> str:
    raise raised[kind]("from the handler")


@server.prompt
def raise_in_prompt(kind: str) -> str:
    raise raised[kind]("from the handler")


@server.tool
async def cancel_itself() -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "not reached"


@server.tool
async def cancel_itself_and_return(ctx: Context, ballast: int = 0) -> str:
    if ballast:
        fill_the_pipe(ctx, ballast)
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return "done"


@server.tool
async def bad_text() -> str:
    return "\ud800"


@server.tool
async def unprintable_error() -> str:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    raise Unprintable


@server.tool
def block(seconds: float) -> str:
    """Hold a worker until somebody opens the gate."""
    return "opened" if gate.wait(seconds) else "nobody came"


@server.tool
async def open_gate() -> str:
    gate.set()
    return "open"


@server.tool
async def wait_for_ever(told: bool = False) -> str:
    if told:
        sys.stderr.write("waiting\n")
    try:
        await asyncio.Event().wait()
    finally:
        stopped.append("wait_for_ever")
    return "not reached"


@server.tool
async def refuse_to_stop() -> str:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append("refuse_to_stop")


@server.tool
async def what_stopped() -> list[str]:
    return list(stopped)


@server.tool
def say(text: str) -> str:
    """Print in every way there is."""
    print(f"print {text}")
    sys.stdout.write(f"write {text}\n")
    assert sys.__stdout__ is not None
    sys.__stdout__.write(f"original {text}\n")
    os.write(1, f"descriptor {text}\n".encode())
    subprocess.run(["/bin/sh", "-c", f"echo child {text}"], check=True)
    os.system(f"echo shell {text}")
    return "said"


@server.tool
def start_child() -> int:
    return subprocess.Popen(["/bin/sleep", "60"]).pid


@server.tool
def ask_for_input() -> str:
    try:
        return input("your name? ")
    except EOFError:
        return "nobody answers"


@server.tool
async def flood_progress(count: int, ctx: Context) -> int:
    for n in range(1, count + 1):
        await ctx.progress(n, count, "x" * 200)
    return count


@server.tool
async def flood_changes(count: int, ctx: Context, ballast: int = 0) -> int:
    """Change the list of tools again and again, perhaps behind a message that fills the pipe."""
    if ballast:
        fill_the_pipe(ctx, ballast)
    for n in range(count):
        ctx.server.tool(echo, name=f"extra{n % 2}")
        ctx.server.remove_tool(f"extra{n % 2}")
        await asyncio.sleep(0)
    return count


@server.tool
async def add_tool(name: str, size: int, ctx: Context) -> str:
    ctx.server.tool(echo, name=name, description="x" * size)
    return name


@server.tool
def log(size: int) -> str:
    sys.stderr.write("y" * size)
    sys.stderr.flush()
    return "logged"


@server.tool
async def large(size: int) -> str:
    return "x" * size


@server.tool
async def ping_the_client(ctx: Context, seconds: float = 30) -> str:
    """Send the client a request and tell what came of it."""
    connection = ctx._invocation.call.connection
    assert connection is not None
    try:
        return repr(await connection.pending.request("ping", None, Timeouts(seconds), id=77))
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"


@server.tool
async def slow(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slept"


@server.tool
async def hold_the_loop(seconds: float) -> str:
    """Block the event loop itself, as a careless author does."""
    sys.stderr.write("holding\n")
    sys.stderr.flush()
    time.sleep(seconds)
    return "held"


if __name__ == "__main__":
    server.run(grace=float(sys.argv[1]) if len(sys.argv) > 1 else 5.0)
