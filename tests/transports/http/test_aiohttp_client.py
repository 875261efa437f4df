"""HTTP through aiohttp: proxies, certificates, and clear words when there is no connection."""

import datetime as dt
import ipaddress
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dovetail.protocol.errors import ConnectionLost, LocalError
from dovetail.transports.http.aiohttp_client import AiohttpClient, find_proxy
from dovetail.transports.http.contract import HttpOptions
from dovetail.transports.http.requester import read_all
from tests.transports.http.handmade import RecordedRequest, ResponseWriter, ScriptedHttpServer


def certificate(folder: Path, name: str) -> Path:
    """A certificate for 127.0.0.1 that vouches for itself, in one file with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / f"{name}.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(*form))
    return path


async def hello(asked: RecordedRequest, line: ResponseWriter) -> None:
    await line.answer(200, b"hello")


async def fetch(url: str, **options: Any) -> bytes:
    client = AiohttpClient(HttpOptions(**options), url)
    try:
        answer = await client.request("GET", url, {}, None)
        return await read_all(answer, 1000)
    finally:
        await client.close()


class TestCertificates:
    async def test_one_that_cannot_be_trusted_is_refused(self, tmp_path: Path):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate(tmp_path, "server"))
        async with ScriptedHttpServer(hello, ssl=context) as server:
            with pytest.raises(ConnectionLost, match=r"No safe connection to https://.*certificate") as caught:
                await fetch(server.url)
            assert "see HttpOptions" in str(caught.value)
            assert await fetch(server.url, verify=False) == b"hello"
            assert await fetch(server.url, ca=tmp_path / "server.pem") == b"hello"

    async def test_the_client_may_show_one(self, tmp_path: Path):
        theirs, ours = certificate(tmp_path, "server"), certificate(tmp_path, "client")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(ours))
        context.load_cert_chain(theirs)
        context.verify_mode = ssl.CERT_REQUIRED
        async with ScriptedHttpServer(hello, ssl=context) as server:
            assert await fetch(server.url, ca=theirs, cert=str(ours)) == b"hello"
            assert await fetch(server.url, ca=theirs, cert=(str(ours), str(ours))) == b"hello"
            with pytest.raises(ConnectionLost):
                await fetch(server.url, ca=theirs)

    async def test_files_that_are_no_certificates(self, tmp_path: Path):
        with pytest.raises(LocalError, match="The certificates cannot be used"):
            await fetch("https://127.0.0.1:1", ca=tmp_path / "nothing.pem")

    async def test_a_plain_server_where_a_safe_one_was_meant(self):
        async with ScriptedHttpServer(hello, greeting=b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
            with pytest.raises(ConnectionLost, match=r"No safe connection to https://.*scheme"):
                await fetch(server.url.replace("http:", "https:"))


class TestProxies:
    async def test_requests_go_through_the_proxy_that_is_given(self):
        async with ScriptedHttpServer(hello) as proxy:
            assert await fetch("http://example.invalid/x", proxy=f"http://127.0.0.1:{proxy.port}") == b"hello"
        (asked,) = proxy.asked
        assert asked.path == "http://example.invalid/x"
        assert asked.headers["host"] == "example.invalid"

    async def test_a_proxy_that_refuses(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            assert asked.method == "CONNECT"
            await line.answer(407)

        async with ScriptedHttpServer(script) as proxy:
            with pytest.raises(ConnectionLost, match="the proxy answered 407") as caught:
                await fetch("https://example.invalid/x", proxy=f"http://me:secret@127.0.0.1:{proxy.port}")
        assert "secret" not in str(caught.value)

    def test_the_environment_may_name_one(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("http_proxy", "http://proxy:1")
        monkeypatch.setenv("https_proxy", "http://proxy:2")
        monkeypatch.setenv("no_proxy", "inside.example")
        assert find_proxy(None, "http://example.com/x") == "http://proxy:1"
        assert find_proxy(None, "https://example.com/x") == "http://proxy:2"
        assert find_proxy("http://other:3", "https://example.com/x") == "http://other:3"
        assert find_proxy("", "https://example.com/x") is None
        assert find_proxy(None, "https://inside.example/x") is None
        for own in ("http://127.0.0.1:8000", "http://localhost/x", "http://[::1]/", "http://a.localhost"):
            assert find_proxy(None, own) is None

    def test_other_kinds_are_not_known(self):
        with pytest.raises(LocalError, match="not as in 'socks5://h:1'"):
            find_proxy("socks5://me:secret@h:1", "http://x")


class TestFailing:
    async def test_a_host_that_does_not_exist(self):
        with pytest.raises(ConnectionLost, match=r"Could not reach http://nowhere\.invalid/"):
            await fetch("http://nowhere.invalid/")

    async def test_a_connection_that_takes_too_long(self):
        async with ScriptedHttpServer(hello) as server:
            with pytest.raises(ConnectionLost, match="no connection in time"):
                await fetch(server.url.replace("http:", "https:"), connect_timeout=0.05)
