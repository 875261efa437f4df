"""Which URLs and addresses of a peer's are refused."""

import contextlib
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.auth import url_guard
from dovetail.auth.errors import Untrusted
from dovetail.auth.url_guard import address_kind, allowed_addresses, check_url, redirect_target, refusal_reason

CLOUD = "169.254.169.254"


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "HTTPS://Example.COM:8443/a/b?c=d",
        "https://example.com./",
        "https://_x.example-a.com",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]/",
        "https://xn--bcher-kva.example/",
        "http://localhost:3000/cb",
        "http://LOCALHOST",
        "http://app.localhost/",
        "http://127.0.0.1:1",
        "http://127.8.8.8",
        "http://[::1]:80/x",
    ],
)
def test_allowed_urls_are_accepted(url: str) -> None:
    assert check_url(url, "It").hostname


@pytest.mark.parametrize(
    "url",
    [
        *("", "x", "//example.com", "/a", "example.com", "https:", "https://", "https:///a", "https:example.com"),
        *("javascript:alert(1)", "JavaScript://example.com/%0aalert(1)", "file:///etc/passwd", "data:text/html,x"),
        *("ftp://example.com", "ws://example.com", "vbscript:x", "ms-settings:x", "mailto:a@example.com"),
        *("http://example.com", "http://10.0.0.1", "http://169.254.169.254/latest", "http://[::2]/"),
        *("http://localhost.example.com", "http://localhost@example.com", "http://127.0.0.1.example.com"),
        *("https://u@example.com", "https://u:p@example.com", "https://@example.com", "https://example.com#f"),
        *("https://example.com/#", "https://example.com\\@evil.com", "https://exa mple.com", "https://example.com/\n"),
        *("https://exam\tple.com", "https://bücher.example", "https://example.com/é", "https://exa%6dple.com"),
        *("https://127.1", "https://2130706433", "https://0x7f000001", "https://0x7f.1", "https://1.2.3.4.5"),
        *(
            "https://0177.0.0.1",
            "https://1.2.3.4.:x",
            "https://example.com:99999",
            "https://example.com:0",
            "https://a..b",
        ),
        *("https://[fe80::1%25eth0]/", "https://[::1", "https://[1.2.3.4]/", "https://[v1.x]/", "https://-a.com"),
        *(
            "https://a;b.com",
            "https://a$(x).com",
            "https://" + "a" * 254,
            "https://e.com/" + "x" * 3000,
            "https://*.com",
        ),
        *("\x00https://example.com", "https://example.com/a\\b", "https://example.com\\.evil.com"),
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(Untrusted, match=r"^It "):
        check_url(url, "It")


def test_only_a_loopback_peer_may_name_a_loopback_url() -> None:
    check_url("http://127.0.0.1:1/a", "It", source="http://localhost:2/mcp")
    for url in ("http://127.0.0.1:1/a", "https://localhost/a", "https://[::1]/", "https://[::ffff:127.0.0.1]/"):
        with pytest.raises(Untrusted, match="on a loopback host"):
            check_url(url, "It", source="https://example.com/mcp")


def test_a_password_in_a_url_is_not_told_on() -> None:
    with pytest.raises(Untrusted) as caught:
        check_url("https://u:hunter2@example.com/", "It")
    assert "hunter2" not in str(caught.value)


@given(st.text())
def test_any_text_is_taken_or_refused(text: str) -> None:
    with contextlib.suppress(Untrusted):
        assert check_url(text, "It").scheme in ("http", "https")


@given(st.text(alphabet="htps:/@[]%.#?\\019axf", max_size=40))
def test_any_text_that_looks_like_a_url_is_taken_or_refused(text: str) -> None:
    with contextlib.suppress(Untrusted):
        assert check_url("https://" + text, "It").hostname


def inside(address: str) -> list[str]:
    """Every IPv6 spelling of an IPv4 address, those that something on the way takes apart."""
    bits = int(IPv4Address(address))
    return [
        str(IPv6Address(number))
        for number in (
            0x0064_FF9B << 96 | bits,  # NAT64
            0x2002 << 112 | bits << 80 | 1,  # 6to4
            0x2001_0000 << 96 | bits << 64 | 0x0808_0808 ^ 0xFFFF_FFFF,  # Teredo, as its server
            0x2001_0000 << 96 | 0x0808_0808 << 64 | bits ^ 0xFFFF_FFFF,  # Teredo, as its client
            0xFFFF_0000 << 32 | bits,  # SIIT
            bits,  # IPv4-compatible
            0x2606_4700 << 96 | 0x0000_5EFE << 32 | bits,  # ISATAP
            0x2606_4700 << 96 | 0x0200_5EFE << 32 | bits,
        )
    ]


SPECIAL = [
    *[("0.0.0.0", "unspecified"), ("0.1.2.3", "unspecified"), ("::", "unspecified")],
    *[
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
    ],
    *[("10.0.0.1", "private"), ("172.16.0.1", "private"), ("172.31.255.255", "private"), ("192.168.1.1", "private")],
    *[("fc00::1", "private"), ("fd12:3456::1", "private"), ("::ffff:10.1.2.3", "private")],
    *[("169.254.1.1", "link-local"), ("fe80::1", "link-local"), ("febf::1", "link-local"), ("fec0::1", "site-local")],
    *[("100.64.0.1", "shared"), ("100.127.255.255", "shared")],
    *[
        ("224.0.0.1", "multicast"),
        ("239.1.1.1", "multicast"),
        ("ff02::1", "multicast"),
        ("255.255.255.255", "reserved"),
    ],
    *[
        ("240.0.0.1", "reserved"),
        ("192.0.0.1", "reserved"),
        ("198.18.0.1", "benchmarking"),
        ("192.0.2.1", "documentation"),
    ],
    *[
        ("2001:db8::1", "documentation"),
        ("3fff::1", "documentation"),
        ("2001:2::1", "reserved"),
        ("100::1", "reserved"),
    ],
    *[("4000::1", "reserved"), ("64:ff9b:1::808:808", "translated"), ("64:ff9b:1:a9fe:a9:fe00::", "translated")],
    *[(CLOUD, "metadata"), ("::ffff:169.254.169.254", "metadata"), ("fd00:ec2::254", "metadata")],
    *[("100.100.100.200", "metadata"), ("168.63.129.16", "metadata"), ("169.254.170.2", "metadata")],
    *[
        (each, "embedded")
        for inner in (CLOUD, "127.0.0.1", "10.0.0.1", "100.64.0.1", "0.0.0.9")
        for each in inside(inner)
    ],
]


@pytest.mark.parametrize(("address", "expected"), SPECIAL)
def test_special_addresses_are_refused(address: str, expected: str) -> None:
    assert address_kind(ip_address(address)) == expected
    assert refusal_reason(address) == f"it is a {expected} address"


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.32.0.1", "192.167.255.255"),
        *("223.255.255.255", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8", "2003::1"),
        *inside("8.8.8.8"),
    ],
)
def test_public_addresses_are_not(address: str) -> None:
    assert address_kind(ip_address(address)) is None
    assert refusal_reason(address) is None


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "fe80::1%eth0", "1.2.3.4/8", "0x7f.0.0.1"])
def test_texts_that_are_no_addresses_are_refused(text: str) -> None:
    assert refusal_reason(text) == "it is not an address"


@given(st.ip_addresses())
def test_python_agrees_on_what_is_not_global(address: IPv4Address | IPv6Address) -> None:
    # What it calls global may still be refused, never the other way round; NAT64 is public if what is inside is.
    if not address.is_global and not url_guard._embedded(
        address if isinstance(address, IPv6Address) else IPv6Address("::1")
    ):
        assert refusal_reason(str(address)) is not None


@pytest.mark.parametrize(
    ("address", "home", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "127.0.0.1", True),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("::ffff:127.0.0.2", "::1", True),
        ("127.0.0.1", "8.8.8.8", False),
        ("127.0.0.1", "10.0.0.1", False),
        ("10.0.0.1", "127.0.0.1", False),
        ("10.0.0.1", "192.168.0.1", True),
        ("100.64.0.1", "10.0.0.1", False),
        ("169.254.3.3", "169.254.3.3", True),
        ("169.254.3.4", "169.254.3.3", False),
        (CLOUD, CLOUD, False),
        (CLOUD, "169.254.3.3", False),
        ("fd00:ec2::254", "fd00::1", False),
        ("100.100.100.200", "100.64.0.1", False),
        ("0.0.0.0", "127.0.0.1", False),
        ("64:ff9b::7f00:1", "127.0.0.1", False),
        ("10.0.0.1", "nonsense", False),
    ],
)
def test_a_server_may_name_its_neighbours(address: str, home: str, allowed: bool) -> None:
    assert (refusal_reason(address, [home]) is None) is allowed


def test_only_allowed_addresses_of_a_host_are_returned() -> None:
    parts = check_url("https://example.com/x", "It")
    assert allowed_addresses(parts, ["10.0.0.1", "8.8.8.8", CLOUD]) == ["8.8.8.8"]
    with pytest.raises(
        Untrusted, match=r"example\.com is not allowed as a target \(10\.0\.0\.1: it is a private address"
    ):
        allowed_addresses(parts, ["10.0.0.1", CLOUD])
    with pytest.raises(Untrusted, match="no address"):
        allowed_addresses(parts, [])


def test_without_tls_a_name_must_lead_to_this_machine() -> None:
    parts = check_url("http://app.localhost/x", "It")
    assert allowed_addresses(parts, ["8.8.8.8", "127.0.0.1", "::1"], ["127.0.0.1"]) == ["127.0.0.1", "::1"]
    for addresses in (["8.8.8.8"], ["10.0.0.1"]):
        with pytest.raises(Untrusted, match=r"not a loopback address|private"):
            allowed_addresses(parts, addresses, ["127.0.0.1"])
    with pytest.raises(Untrusted, match="loopback"):
        allowed_addresses(parts, ["127.0.0.1"], ["8.8.8.8"])


@pytest.mark.attack("L14")
def test_redirects_stay_within_the_origin() -> None:
    assert redirect_target("https://a.com/x", "/y", "It") == "https://a.com/y"
    assert redirect_target("https://a.com/x", "https://A.com:443/y?z", "It") == "https://A.com:443/y?z"
    for location in (
        *("https://b.com/y", "//b.com/y", "http://a.com/y", "https://a.com:444/", "javascript:x", "http://127.0.0.1/"),
        *("https://a.com@b.com/", "https://a.com/\r\nx", "https://[", "//[", "https://[::1", "http://a.com]/"),
    ):
        with pytest.raises(Untrusted):
            redirect_target("https://a.com/x", location, "It")
