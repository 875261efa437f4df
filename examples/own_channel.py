"""A channel of one's own: client and server talk through two queues, as through a message broker.

`Client` and `Server.serve` run over whatever has the methods of this class.
"""

import asyncio

from dovetail import Channel, Client, Receiver, Server

Messages = asyncio.Queue[bytes | None]
MANY = 100


class QueueChannel(Channel):
    """One end: every message is an item of a queue, and None is the end of them."""

    def __init__(self, incoming: Messages, outgoing: Messages) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._reading: asyncio.Task[None] | None = None

    def open(self, receiver: Receiver) -> None:
        self._reading = asyncio.create_task(self._read(receiver))

    async def _read(self, receiver: Receiver) -> None:
        while True:
            await self._may_read.wait()
            message = await self._incoming.get()
            self._incoming.task_done()
            if message is None:
                # With a reason: the other end has not only stopped writing, it reads no more either.
                return receiver.disconnected("the other end closed the channel")
            receiver.received(message)

    def send(self, line: bytes) -> None:
        self._outgoing.put_nowait(line)

    def flush(self) -> None: ...  # nothing is held back

    @property
    def congested(self) -> bool:
        return self._outgoing.qsize() > MANY

    async def drained(self) -> None:
        await self._outgoing.join()

    def pause(self) -> None:
        self._may_read.clear()

    def resume(self) -> None:
        self._may_read.set()

    async def close(self) -> None:
        self._outgoing.put_nowait(None)
        if self._reading is not None:
            self._reading.cancel()
        while not self._incoming.empty():  # the other end must not wait for us to read it
            self._incoming.get_nowait()
            self._incoming.task_done()


server = Server("desk")


@server.tool
def shout(text: str) -> str:
    return text.upper()


async def main() -> None:
    there, back = Messages(), Messages()
    serving = asyncio.create_task(server.serve(QueueChannel(there, back)))
    async with Client(QueueChannel(back, there)) as client:
        print((await client.call("shout", text="hello")).data)
    await serving


if __name__ == "__main__":
    asyncio.run(main())
