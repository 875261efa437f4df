"""Addresses that servers send a person to."""

import pytest

from dovetail.policy.inspection.url_checks import url_concerns, url_problem


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt://example.com/%0aalert(1)",
        "data:text/html,<script>",
        "file:///etc/passwd",
        "vscode://install?x",
        "https://",
        "https:///path",
        "//example.com",
        "",
        "https://[::1",
        "https://example.com:port/",
        "https://good.example\\@evil.example/",
        "https://good.example/ https://evil.example",
        "https://good.example/\n",
        "https://good.example/\x1b[2J",
    ],
)
def test_what_is_no_page(url: str) -> None:
    assert url_problem(url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://bank.example@evil.example/", "begins with 'bank.example', but leads to 'evil.example'"),
        ("https://bank.example:443@evil.example/", "leads to 'evil.example'"),
        ("https://раураl.com/", "not ASCII"),
        ("https://xn--l-7sba6dbr.com/", "not ASCII"),
        ("https://paypа\u200bl.com/", "invisible"),
        ("https://example.com/\u202egpj.exe", "direction"),
        ("http://example.com/", "not encrypted"),
        ("http://127.0.0.1:8000/", "on this machine"),
        ("http://localhost/", "on this machine"),
        ("http://[::1]/", "on this machine"),
        ("https://192.168.1.1/reboot", "in this network"),
        ("http://169.254.169.254/latest", "in this network"),
    ],
)
def test_what_to_warn_of(url: str, words: str) -> None:
    assert url_problem(url) is None
    assert any(words in concern for concern in url_concerns(url)), url_concerns(url)


@pytest.mark.parametrize("url", ["https://example.com/sign-in?a=1#b", "https://sub.example.com:8443/a%20b"])
def test_ordinary_ones_are_let_be(url: str) -> None:
    assert url_problem(url) is None
    assert url_concerns(url) == ()
