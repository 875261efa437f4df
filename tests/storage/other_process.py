"""A program with a store of its own: it reads orders from standard input and answers each with a line."""

import asyncio
import sys

from dovetail.storage.contract import LogEntries
from dovetail.storage.sqlite import SqliteStore


async def flood(store: SqliteStore) -> None:
    """Write until killed, and say after each that it was acknowledged."""
    n = 0
    while True:
        n += 1
        await asyncio.gather(store.append("flood", [b"%d" % n]), store.put(f"flood:{n}", bytes(300), 600))
        sys.stdout.write(f"{n}\n")
        sys.stdout.flush()


async def obey(store: SqliteStore, order: str, *words: str) -> object:
    match order:
        case "get":
            return (await store.get(words[0]) or b"").decode()
        case "put":
            return await store.put(words[0], words[1].encode(), 60)
        case "add":
            return await store.add(words[0], words[1].encode(), 60)
        case "append":
            return await store.append(words[0], [words[1].encode()], 60)
        case "join":
            return await store.join(words[0], words[1], 60, int(words[2]))
        case "leave":
            return await store.leave(words[0], words[1])
        case "take":
            return await store.take(words[0], 0.001, 1)
        case "race":
            return " ".join([str(n) for n in range(int(words[0])) if await store.add(f"race:{n}", b"them", 60)])
        case "echo":
            return await echo(store, words[0], " ".join(words[1:]))
        case "flood":
            return await flood(store)
        case _:
            raise ValueError(order)


async def echo(store: SqliteStore, log: str, back: str) -> None:
    """Append the entries of one log to another, in order."""
    waiting: asyncio.Queue[LogEntries] = asyncio.Queue()

    async def answer() -> None:
        while True:
            await store.append(back, [entry for _, entry in await waiting.get()])

    ECHOES.append(asyncio.ensure_future(answer()))
    await store.follow(log, 0, waiting.put_nowait)


ECHOES: list[asyncio.Future[None]] = []


async def main() -> None:
    store = SqliteStore(sys.argv[1])
    await store.get("")
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(await obey(store, *line.split()), flush=True)
    for task in ECHOES:
        task.cancel()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
