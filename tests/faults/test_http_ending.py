"""How a server over HTTP ends: by a signal, with clients in every state, within bounds and with exit code 0.

With DOVETAIL_REPLICAS it has a store in Redis; how its clients go on elsewhere is in tests/replicas/test_leaving.py.
"""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.faults.conftest import SERVERS
from tests.support.http_process import Answer, HttpProcess
from tests.support.raw import ENVELOPE, HANDSHAKE, eventually
from tests.support.redis_server import shared_redis
from tests.support.replica_group import REPLICAS

SIGNALS = [signal.SIGINT, signal.SIGTERM]
LINGERING = SERVERS / "lingering.py"
ROOM = 4.0
"""What a busy machine may add to a bound."""

Begin = Callable[..., HttpProcess]


@pytest.fixture
def begin() -> Iterator[Begin]:
    store = ("--store", shared_redis().url) if REPLICAS else ()
    with contextlib.ExitStack() as running:
        yield lambda grace, *options: running.enter_context(HttpProcess(LINGERING, "--grace", grace, *store, *options))


def end(server: HttpProcess, number: int, within: float) -> None:
    started = time.monotonic()
    server.signal(number)
    assert server.wait() == 0, server.stderr
    assert time.monotonic() - started < within + ROOM
    assert "Traceback" not in server.stderr, server.stderr


@pytest.mark.parametrize("number", SIGNALS)
class TestASignal:
    def test_a_signal_ends_an_idle_server(self, begin: Begin, number: int) -> None:
        server = begin("60")
        kept = server.connect()  # a connection that is kept alive is idle too
        kept.request("GET", "/health")
        assert kept.getresponse().read()
        end(server, number, 1)
        assert server.complaints == []
        kept.close()

    def test_a_signal_ends_idle_streams(self, begin: Begin, number: int) -> None:
        server = begin("60")
        streams = [server.client().stream() for _ in range(20)]
        old = server.client().get("/sse")
        assert old.line() == b"event: endpoint\n"
        end(server, number, 1)
        for stream in [*streams, old]:
            stream.rest()  # raises for a body that is cut short
        assert server.complaints == []

    def test_a_signal_ends_a_subscription_with_its_result(self, begin: Begin, number: int) -> None:
        server = begin("60")
        heard = server.client(ENVELOPE).ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert heard.message()["method"] == "notifications/subscriptions/acknowledged"
        end(server, number, 1)
        [last] = heard.messages()
        assert last["id"] == 1 and last["result"]["resultType"] == "complete"

    @pytest.mark.parametrize("revision", [HANDSHAKE, ENVELOPE])
    def test_lets_a_call_in_flight_finish(self, begin: Begin, number: int, revision: str) -> None:
        server = begin("60")
        call = server.client(revision).call("linger", seconds=0.5)
        assert call.message()["params"]["message"] == "begun"
        end(server, number, 1)
        [answer] = call.messages()
        assert answer["result"]["content"][0]["text"] == "done"
        assert server.complaints == ["cleaned up"]

    @pytest.mark.parametrize("revision", [HANDSHAKE, ENVELOPE])
    def test_stops_a_call_that_takes_too_long(self, begin: Begin, number: int, revision: str) -> None:
        server = begin("0.3")
        call = server.client(revision).call("linger", seconds=600)
        call.message()
        end(server, number, 0.3)
        assert all("result" not in message for message in call.messages())
        assert {"cancelled", "cleaned up"} <= set(server.complaints)

    def test_a_second_signal_ends_at_once(self, begin: Begin, number: int) -> None:
        server = begin("60")
        calls = [server.client(revision).call("linger", seconds=600) for revision in (HANDSHAKE, ENVELOPE)]
        for call in calls:
            call.message()
        server.signal(number)
        eventually(lambda: not can_connect(server), "the server takes no more connections")
        end(server, number, 2)
        for call in calls:
            call.close()

    def test_a_signal_ends_websockets(self, begin: Begin, number: int) -> None:
        from websockets.exceptions import ConnectionClosed
        from websockets.sync.client import connect

        server = begin("60")
        with connect(f"ws://{server.host}:{server.port}/mcp/ws", subprotocols=["mcp"]) as client:  # type: ignore[list-item]
            params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "w", "version": "1"}}
            client.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}))
            assert json.loads(client.recv())["id"] == 1
            client.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            call = {"name": "linger", "arguments": {"seconds": 0.5}, "_meta": {"progressToken": 1}}
            client.send(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}))
            assert json.loads(client.recv())["method"] == "notifications/progress"
            server.signal(number)
            answer = json.loads(client.recv())
            assert answer["result"]["content"][0]["text"] == "done"
            with pytest.raises(ConnectionClosed) as closed:
                client.recv()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001
        assert server.wait() == 0, server.stderr


def can_connect(server: HttpProcess) -> bool:
    connection = server.connect()
    try:
        connection.connect()
    except OSError:
        return False
    finally:
        connection.close()
    return True


class TestNobodyCanHoldItUp:
    def test_a_client_that_was_killed(self, begin: Begin) -> None:
        server = begin("60")
        session = server.client()
        program = (
            "import http.client, json, sys\n"
            f"c = http.client.HTTPConnection({server.host!r}, {server.port})\n"
            f"c.request('GET', '/mcp', headers={{**{session.headers()!r}, 'accept': 'text/event-stream'}})\n"
            "print(c.getresponse().status, flush=True)\n"
            "sys.stdin.read()\n"
        )
        client = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with client:
            assert client.stdout is not None
            assert client.stdout.readline() == "200\n"
            client.kill()
        end(server, signal.SIGTERM, 1)

    @pytest.mark.parametrize("revision", [HANDSHAKE, ENVELOPE])
    def test_a_client_that_reads_nothing(self, begin: Begin, revision: str) -> None:
        server = begin("0.3")
        call = server.client(revision).call("flood")
        call.message()
        end(server, signal.SIGTERM, 2)
        call.close()

    def test_a_handler_in_a_thread(self, begin: Begin) -> None:
        server = begin("0.3")
        session = server.client()
        connection = server.connect()
        body = {"jsonrpc": "2.0", "id": 9, "method": "tools/call"}
        body["params"] = {"name": "hold_a_thread", "arguments": {"seconds": 600}}
        connection.request("POST", server.path, json.dumps(body), session.headers())
        eventually(lambda: "begun" in server.complaints, "the handler runs")
        end(server, signal.SIGTERM, 2)
        connection.close()

    @pytest.mark.slow
    def test_a_handler_that_refuses_to_stop(self, begin: Begin) -> None:
        server = begin("0.3")
        call = server.client(ENVELOPE).call("refuse_to_stop")
        call.message()
        end(server, signal.SIGTERM, 0.3 + 5)
        call.close()

    @pytest.mark.slow
    @pytest.mark.parametrize("signals", [1, 2])
    def test_a_handler_that_holds_the_loop(self, begin: Begin, signals: int) -> None:
        server = begin("0.3")
        call = server.client().call("hold_the_loop", seconds=600)
        call.message()
        eventually(lambda: not answers(server), "the loop is held")
        if signals == 2:
            server.signal(signal.SIGTERM)
            time.sleep(0.2)  # two signals at once are one
        end(server, signal.SIGTERM, 0.3 + 5)
        assert "A handler does not stop; the server exits without waiting for it." in server.complaints
        call.close()


def answers(server: HttpProcess) -> bool:
    connection = server.connect()
    connection.timeout = 0.5
    try:
        connection.request("GET", "/health")
        return Answer(connection).status == 200
    except TimeoutError:
        return False
    finally:
        connection.close()
