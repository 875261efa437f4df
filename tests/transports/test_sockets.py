"""Lines over real sockets: the same order, limits, back-pressure and end whatever kind of socket it is."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Self

import pytest

from dovetail import ConnectionLost
from dovetail.transports import line_sink, sockets
from dovetail.transports.base import HIGH_WATER
from dovetail.transports.sockets import SocketChannel, connect_tcp, connect_unix
from dovetail.wire.lines import TooLong
from tests.support.raw import PATIENCE
from tests.support.tidy import nothing_left_on_the_loop
from tests.support.waiting import settled
from tests.transports.collector import Collector

LIMIT = 1000
FLOOD = 64 * 1024 * 1024
"""More than all buffers of a socket hold together."""


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1 that nobody signed but itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM
    secret = key.private_bytes(form, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(secret + made.public_bytes(form))
    return path


class Place:
    """Somewhere to connect to; whoever arrives there is one channel after another."""

    def __init__(self, kind: str, folder: Path, certificate: Path | None = None, *, only_json: bool = False) -> None:
        self.kind = kind
        self.path = folder / "s"
        self.port = 0
        self.trust: ssl.SSLContext | None = None
        self._certificate = certificate
        self._only_json = only_json
        self._arrived: asyncio.Queue[SocketChannel] = asyncio.Queue()
        self._server: asyncio.Server

    def _make(self) -> SocketChannel:
        return SocketChannel(LIMIT, only_json=self._only_json, connected=self._arrived.put_nowait)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if self.kind == "unix":
            self._server = await loop.create_unix_server(self._make, self.path)
            return self
        context: ssl.SSLContext | None = None
        if self.kind == "tls":
            assert self._certificate is not None
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._certificate)
            self.trust = ssl.create_default_context(cafile=str(self._certificate))
        self._server = await loop.create_server(self._make, "127.0.0.1", 0, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def channel(self) -> SocketChannel:
        """A client's channel."""
        if self.kind == "unix":
            return await connect_unix(self.path)
        return await connect_tcp("127.0.0.1", self.port, ssl=self.trust)

    async def streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client by hand."""
        if self.kind == "unix":
            return await asyncio.open_unix_connection(self.path)
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust)

    async def arrived(self) -> SocketChannel:
        return await asyncio.wait_for(self._arrived.get(), PATIENCE)


@pytest.fixture(params=["unix", "tcp", "tls"])
def place(request: pytest.FixtureRequest, tmp_path: Path, certificate: Path) -> Place:
    return Place(request.param, tmp_path, certificate)


@pytest.fixture(params=["unix", "tcp"])
def plain(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place where a client can end its side alone."""
    return Place(request.param, tmp_path)


@contextlib.asynccontextmanager
async def by_hand(
    place: Place,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, SocketChannel, Collector]]:
    """A client by hand, the channel that serves it, and who listens there."""
    async with place:
        reader, writer = await place.streams()
        channel, seen = await place.arrived(), Collector()
        channel.open(seen)
        try:
            yield reader, writer, channel, seen
        finally:
            writer.transport.abort()
            await channel.close()
            await settled()


async def flood(channel: SocketChannel) -> int:
    """Send until the channel is congested, obeying it; how many lines that took."""
    count = 0
    async with asyncio.timeout(PATIENCE):
        while not channel.congested:
            channel.send(b"x" * 9999)
            count += 1
            await asyncio.sleep(0)
    return count


async def test_lines_go_both_ways_in_order(place: Place) -> None:
    async with nothing_left_on_the_loop(), place:
        ours = await place.channel()
        theirs = await place.arrived()
        seen, back = Collector(), Collector()
        ours.open(back)
        theirs.open(seen)
        for n in range(1000):
            ours.send(b"%d" % n)
        theirs.send(b"hello")
        await seen.count(1000)
        await back.count(1)
        assert seen.lines == [b"%d" % n for n in range(1000)]
        assert back.lines == [b"hello"]
        await ours.close()
        await seen.end()
        await theirs.close()
        assert not back.ends, "who closes is not told of it"


async def test_lines_that_arrive_before_a_receiver_is_set_are_delivered_then(place: Place) -> None:
    async with place:
        ours = await place.channel()
        theirs = await place.arrived()
        ours.send(b"early")
        await settled()
        seen = Collector()
        theirs.open(seen)
        await seen.count(1)
        assert seen.lines == [b"early"]
        await asyncio.gather(ours.close(), theirs.close())


async def test_a_line_above_the_limit_is_reported_and_the_next_one_is_received(place: Place) -> None:
    async with by_hand(place) as (_, writer, _, seen):
        writer.write(b"a" * 5000 + b"\n" + b"next\r\n\n")
        await seen.count(2)
        long, after = seen.lines
        assert isinstance(long, TooLong)
        assert long.size == 5000
        assert after == b"next"


async def test_a_client_that_ends_its_side_still_reads(plain: Place) -> None:
    async with by_hand(plain) as (reader, writer, channel, seen):
        writer.write(b"question")
        writer.write_eof()
        await seen.end()
        assert (seen.lines, seen.ends) == ([b"question"], [None])
        channel.send(b"answer")
        assert await reader.readline() == b"answer\n"
        await channel.close()
        assert await reader.read() == b""


async def test_the_end_of_one_side_ends_a_connection_over_tls(tmp_path: Path, certificate: Path) -> None:
    async with by_hand(Place("tls", tmp_path, certificate)) as (_, writer, _, seen):
        writer.close()
        await seen.end()
        assert seen.ends == ["the peer closed the connection"]


async def test_a_peer_that_does_not_read_congests_the_channel_until_it_does(place: Place) -> None:
    async with by_hand(place) as (reader, _, channel, _):
        sent = await flood(channel)
        assert sent * 10_000 < FLOOD
        waiting = asyncio.create_task(channel.drained())
        await settled()
        assert not waiting.done()
        got = 0
        while not waiting.done():
            got += len(await reader.read(1 << 20))
        assert not channel.congested
        await asyncio.wait_for(reader.readexactly(sent * 10_000 - got), PATIENCE)


async def test_a_waiting_sender_goes_on_when_the_connection_breaks(plain: Place) -> None:
    async with by_hand(plain) as (_, writer, channel, seen):
        await flood(channel)
        channel.pause()
        waiting = asyncio.create_task(channel.drained())
        await settled()
        writer.transport.abort()
        await asyncio.wait_for(waiting, PATIENCE)
        assert not channel.congested
        await settled()
        assert not seen.ends, "it is paused"
        channel.resume()
        await seen.end()
        assert "the connection broke" in str(seen.ends[0])


async def test_a_paused_channel_makes_the_peer_wait_and_loses_nothing(place: Place) -> None:
    line = b"x" * 999 + b"\n"
    async with by_hand(place) as (_, writer, channel, seen):
        seen.on_line = lambda _: channel.pause() if len(seen.lines) == 2 else None

        async def fill() -> None:
            for _ in range(FLOOD // len(line)):
                writer.write(line)
                await writer.drain()

        filling = asyncio.create_task(fill())
        await seen.count(2)
        await asyncio.wait({filling}, timeout=0.2)
        assert not filling.done(), "the peer has to wait"
        assert len(seen.lines) == 2, "obeyed between two lines of a chunk"
        channel.resume()
        await filling
        await seen.count(FLOOD // len(line))
        assert set(seen.lines) == {line[:-1]}


async def test_closing_writes_what_was_sent_before(place: Place) -> None:
    async with by_hand(place) as (reader, _, channel, _):
        for _ in range(500):
            channel.send(b"x" * 9999)
        closing = asyncio.create_task(channel.close())
        got = await reader.read()
        assert len(got) == 500 * 10_000
        await closing


async def test_closing_is_bounded_when_the_peer_neither_reads_nor_ends(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_sink, "_CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(sockets, "_LINGER_SECONDS", 0.1)
    monkeypatch.setattr(sockets, "_TLS_END_SECONDS", 0.1)
    async with by_hand(place) as (reader, _, channel, _):
        await flood(channel)
        begun, below = time.monotonic(), channel.socket
        await channel.close()
        assert time.monotonic() - begun < 5
        assert below.fileno() == -1
        channel.send(b"to nobody")
        await channel.close()
        with contextlib.suppress(ConnectionError):
            await reader.read()


async def test_the_last_messages_arrive_although_input_was_left_unread(tmp_path: Path) -> None:
    """A socket that is closed with unread bytes in it would take back what it has sent."""
    async with by_hand(Place("tcp", tmp_path)) as (reader, writer, channel, _):
        channel.pause()
        writer.write(b"unread\n" * 1000)
        await writer.drain()
        for _ in range(100):
            channel.send(b"x" * 9999)
        closing = asyncio.create_task(channel.close())
        assert len(await reader.read()) == 100 * 10_000
        writer.close()
        await closing


async def test_a_connection_reset_disconnects_with_a_reason(tmp_path: Path) -> None:
    async with by_hand(Place("tcp", tmp_path)) as (_, writer, _, seen):
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        await seen.end()
        assert seen.ends == ["the connection broke: Connection reset by peer"]


async def test_a_cancelled_close_releases_the_socket(plain: Place) -> None:
    async with nothing_left_on_the_loop(), by_hand(plain) as (_, _, channel, _):
        await flood(channel)
        closing = asyncio.create_task(channel.close())
        await settled()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing


@pytest.mark.parametrize(
    "first",
    [
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"OPTIONS ",
        b"\r\n \nP",
        b"\x16\x03\x01",
        b"\x00\x14",
    ],
)
async def test_a_request_of_a_browser_ends_the_connection_at_once(first: bytes, tmp_path: Path) -> None:
    async with by_hand(Place("tcp", tmp_path, only_json=True)) as (reader, writer, _, seen):
        writer.write(first + b'\n{"jsonrpc": "2.0"}\n')
        await seen.end()
        assert seen.lines == []
        assert "no JSON" in str(seen.ends[0])
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""


async def test_json_may_come_in_pieces_and_after_blank_lines(tmp_path: Path) -> None:
    async with by_hand(Place("tcp", tmp_path, only_json=True)) as (_, writer, _, seen):
        for piece in (b"\n", b"\r\n", b"  ", b"{", b"}\nnonsense\n"):
            writer.write(piece)
            await settled()
        await seen.count(2)
        assert seen.lines == [b"  {}", b"nonsense"], "only the first thing is looked at"


async def test_many_short_lines_leave_the_loop_its_turns(tmp_path: Path) -> None:
    async with by_hand(Place("unix", tmp_path)) as (_, writer, _, seen):
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while len(seen.lines) < 100_000:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        writer.write(b"1\n" * 100_000)
        await counting
        assert turns > 50


async def no_socket(folder: Path) -> None:
    await connect_unix(folder / "nothing")


async def no_directory(folder: Path) -> None:
    await connect_unix(folder / "a" / "b")


async def nobody(folder: Path) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        await connect_tcp("127.0.0.1", bound.getsockname()[1])


async def no_port(folder: Path) -> None:
    await connect_tcp("127.0.0.1", 99999)


async def silent_tls(folder: Path) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        await connect_tcp("127.0.0.1", bound.getsockname()[1], ssl=ssl.create_default_context(), timeout=0.1)


async def unknown_certificate(folder: Path) -> None:
    async with Place("tls", folder, folder / "both.pem") as place:
        # The server's side of a handshake that its client gave up is reported to the loop.
        asyncio.get_running_loop().set_exception_handler(lambda _, __: None)
        await connect_tcp("127.0.0.1", place.port, ssl=ssl.create_default_context())


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (no_socket, "Could not connect to the socket .*/nothing: No such file or directory"),
        (no_directory, "No such file or directory"),
        (nobody, "Could not connect to 127.0.0.1 port .*"),
        (no_port, "Could not connect to 127.0.0.1 port 99999: .*port"),
        (silent_tls, "did not answer within 0.1 s"),
        (unknown_certificate, "certificate"),
    ],
)
async def test_a_failed_connection_attempt_raises_with_the_reason(
    attempt: Callable[[Path], Awaitable[None]], sentence: str, tmp_path: Path, certificate: Path
) -> None:
    (tmp_path / "both.pem").write_bytes(certificate.read_bytes())
    async with nothing_left_on_the_loop():
        with pytest.raises(ConnectionLost, match=sentence):
            await attempt(tmp_path)
        await settled()


async def test_a_server_that_accepts_no_more_connections_is_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound, contextlib.ExitStack() as waiting:
        bound.bind(str(tmp_path / "s"))
        bound.listen(0)
        while True:
            one = waiting.enter_context(socket.socket(socket.AF_UNIX))
            one.setblocking(False)
            try:
                one.connect(str(tmp_path / "s"))
            except BlockingIOError:
                break
        with pytest.raises(ConnectionLost, match="takes no more connections now"):
            await connect_unix(tmp_path / "s")


@pytest.mark.parametrize("kind", ["unix", "tcp", "tls"])
def test_a_socket_channel_works_on_uvloop(kind: str, tmp_path: Path, certificate: Path) -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed")

    async def scenario() -> None:
        async with asyncio.timeout(PATIENCE):
            async with by_hand(Place(kind, tmp_path, certificate)) as (reader, writer, channel, seen):
                writer.write(b"one\ntwo\n")
                await seen.count(2)
                sent = await flood(channel)
                assert HIGH_WATER < sent * 10_000 < FLOOD
                assert len(await reader.readexactly(sent * 10_000)) == sent * 10_000
                await channel.drained()
                channel.pause()
                writer.write(b"three\n" * 1000)
                await settled()
                assert len(seen.lines) == 2
                channel.resume()
                await seen.count(1002)
                if kind != "tls":
                    writer.write_eof()
                    await seen.end()
                    channel.send(b"answer")
                    assert await reader.readline() == b"answer\n"

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
