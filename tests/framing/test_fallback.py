"""A uvicorn whose private parts are gone or behave otherwise: h11 takes over with a warning, and no answer is wrong."""

from __future__ import annotations

import pytest
import uvicorn

from tests.framing.cases import CHUNKED, H2C, call, chunks
from tests.framing.raw_connection import RawConnection
from tests.framing.servers import serving

IMPORT = "import uvicorn.protocols.http.httptools_impl as impl\n"
CHANGED_CYCLE = """
original = impl.RequestResponseCycle.__init__

def changed(self, *args, **kwargs):
    original(self, *args, **kwargs)
    self.elsewhere = self.__dict__.pop({name!r})

impl.RequestResponseCycle.__init__ = changed
"""
CHANGES = {
    "RequestResponseCycle is gone": "del impl.RequestResponseCycle",
    "STATUS_LINE is gone": "del impl.STATUS_LINE",
    "HttpToolsProtocol is gone": "del impl.HttpToolsProtocol",
    "a timer has another name": "del impl.HttpToolsProtocol._unset_keepalive_if_required",
    "upgrades have another name": "del impl.HttpToolsProtocol._should_upgrade",
    "flow has another name": CHANGED_CYCLE.format(name="flow"),
    "default_headers has another name": CHANGED_CYCLE.format(name="default_headers"),
    "keep_alive has another name": CHANGED_CYCLE.format(name="keep_alive"),
    "more_body has another name": CHANGED_CYCLE.format(name="more_body"),
    "headers are kept elsewhere": """
def on_header(self, name, value):
    self.scope["headers"].append((name.lower(), value))

impl.HttpToolsProtocol.on_header = on_header
""",
    "bodies are kept elsewhere": "impl.HttpToolsProtocol.on_body = lambda self, body: None",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_uvicorn_that_has_changed_is_used_with_h11(change: str) -> None:
    with serving(before=IMPORT + change + "\n") as server:
        assert f"uvicorn {uvicorn.__version__} is not as Dovetail expects it" in server.stderr
        assert "h11, which is slower" in server.stderr
        with RawConnection(server.host, server.port) as connection:
            connection.send(
                CHUNKED + chunks("a", trailers=b"x-sum: 1\r\n") + call("b", *H2C) + call("c", "connection: close")
            )
            for text in ("a", "b", "c"):
                response = connection.response()
                assert response is not None and response.text == f"200 {text}"
            assert connection.is_closed()


def test_the_uvicorn_that_is_installed_needs_no_warning() -> None:
    with serving() as server:
        assert "uvicorn" not in server.stderr


def test_without_httptools_there_is_no_warning() -> None:
    with serving("h11") as server:
        assert "uvicorn" not in server.stderr
