"""URLs of Redis servers, without a server."""

import pytest

from dovetail.storage.contract import StoreError
from dovetail.storage.redis.address import parse_address


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis://localhost", "redis://localhost:6379/0"),
        ("redis://10.0.0.1:7000/3", "redis://10.0.0.1:7000/3"),
        ("redis://[::1]:7000", "redis://[::1]:7000/0"),
        ("redis://user:p%40ss@redis.example/", "redis://redis.example:6379/0"),
        ("rediss://:pw@redis.example/1?ssl_ca_certs=/ca.pem", "rediss://redis.example:6379/1"),
        ("redis+sentinel://a,b:7000/main", "redis+sentinel://a:26379,b:7000/main/0"),
        ("redis+sentinel://user:pw@a/main/2", "redis+sentinel://a:26379/main/2"),
        ("redis+cluster://a:7000,b,[::1]:7001", "redis+cluster://a:7000,b:6379,[::1]:7001"),
        ("rediss+cluster://u:p@a", "rediss+cluster://a:6379"),
    ],
)
def test_an_address_shows_its_servers_and_no_credentials(url: str, text: str) -> None:
    address = parse_address(url, {})
    assert str(address) == text
    assert "pw" not in repr(address) and "p@ss" not in repr(address)


def test_credentials_are_decoded() -> None:
    address = parse_address("redis://us%3Aer:p%40%2F%2C%23@host", {"DOVETAIL_REDIS_PASSWORD": "other"})
    assert (address.username, address.password) == ("us:er", "p@/,#")


def test_credentials_that_the_url_lacks_come_from_the_environment() -> None:
    environment = {"DOVETAIL_REDIS_USERNAME": "someone", "DOVETAIL_REDIS_PASSWORD": "secret"}
    assert parse_address("redis://host", environment).username == "someone"
    assert parse_address("redis://host", environment).password == "secret"
    assert parse_address("redis://me@host", environment).username == "me"
    assert parse_address("redis://me@host", environment).password == "secret"
    assert parse_address("redis://host", {}).password is None


def test_certificates_are_checked_unless_the_url_says_otherwise() -> None:
    assert parse_address("rediss://host", {}).tls_options == {"ssl_check_hostname": True}
    relaxed = parse_address("rediss://host?ssl_check_hostname=false&ssl_cert_reqs=none", {})
    assert relaxed.tls_options == {"ssl_check_hostname": False, "ssl_cert_reqs": "none"}


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("http://host", "starts with redis://"),
        ("redis+other://host", "starts with redis://"),
        ("redis+://host", "starts with redis://"),
        ("redis://", "no host"),
        ("redis://:secret@", "no host"),
        ("redis://host:secret", "port"),
        ("redis://host:99999", "port"),
        ("redis://:sec/ret@host", "port"),
        ("redis://:secret#1@host", "%23"),
        ("redis://host/secret", "path"),
        ("redis://host/1/2", "path"),
        ("redis+cluster://host/1", "path"),
        ("redis+sentinel://host", "names no service"),
        ("redis://host?ssl_ca_certs=x", "need rediss://"),
        ("rediss://host?ssl_ca=x", "ssl_ca_certs"),
        ("rediss://host?ssl_cert_reqs=perhaps", "required, optional, none"),
        ("redis://[::1", "cannot be parsed"),
    ],
)
def test_an_address_that_is_wrong_says_how_without_quoting_it(url: str, hint: str) -> None:
    with pytest.raises(StoreError) as caught:
        parse_address(url, {})
    assert hint in str(caught.value)
    assert "secret" not in str(caught.value)
