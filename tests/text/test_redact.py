"""Taking secrets out, by name and by looks."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.text.redact import MAX_DEPTH, REDACTED, is_secret, redact, redact_text

KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc123\n-----END RSA PRIVATE KEY-----"
SECRETS = [
    "Authorization: Bearer abcdef0123456789",
    "basic dXNlcjpwYXNzd29yZA==",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "sk-proj-abcdefghijklmnop1234",
    "ghp_abcdefghijklmnopqrstuvwx",
    "github_pat_11ABCDEFG0abcdefghijkl",
    "glpat-abcdefghijklmnopqrst",
    "xoxb-1234567890-abcdef",
    "AKIAIOSFODNN7EXAMPLE",
    "postgres://app:hunter2@db.example.com/x",
    "password=hunter2",
    '{"client_secret": "hunter2"}',
    "api-key: hunter2",
    "DB_PASSWORD=hunter2",
    "PGPASSWORD=hunter2",
    "export GITHUB_TOKEN=hunter2",
    "AWS_SECRET_ACCESS_KEY=hunter2",
    "tool --token hunter2",
    "tool --api-key hunter2",
    "https://example.com/?a=1&key=hunter2",
    '{"password": "hunter2 and more"}',
    "Authorization: hunter2",
    KEY,
]
NAMES = (
    "password PASSWORD dbPassword api_key apiKey API-KEY x-api-key accessToken access_token secret Set-Cookie".split()
)
HARMLESS = "name tokens max_tokens passwords_checked key keyboard author secretary tokenizer count".split()


@pytest.mark.parametrize("text", SECRETS)
def test_texts_that_look_like_secrets_are_redacted(text: str):
    cleaned = redact_text(f"before {text} after")
    assert REDACTED in cleaned
    assert cleaned.startswith("before ")
    assert cleaned.endswith(" after")
    for part in ("hunter2", "abcdef", "dXNl", "eyJhb", "AKIAI", "MIIE"):
        assert part not in cleaned


@pytest.mark.parametrize("text", ["a basic idea", "the token of trust", "https://example.com/a:b@c", "sk-short"])
def test_ordinary_texts_are_not_redacted(text: str):
    assert redact_text(text) == text


@pytest.mark.parametrize("name", NAMES)
def test_fields_with_secret_names_are_redacted(name: str):
    assert is_secret(name)
    assert redact({name: "hunter2", "n": 1}) == {name: REDACTED, "n": 1}
    assert redact({name: {"deep": ["hunter2"]}}) == {name: REDACTED}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_name_that_only_sounds_like_one(name: str):
    assert not is_secret(name)


def test_empty_secret_fields_are_not_redacted():
    assert redact({"password": None, "token": True}) == {"password": None, "token": True}


def test_secrets_are_redacted_at_every_depth():
    value: Any = {"list": [{"inner": {"token": "abc", "text": "pwd=abc"}}], "n": 1.5, "ok": None}
    assert redact(value) == {
        "list": [{"inner": {"token": REDACTED, "text": f"pwd={REDACTED}"}}],
        "n": 1.5,
        "ok": None,
    }


def test_values_nested_too_deeply_are_redacted():
    value: Any = "password=hunter2"
    for _ in range(MAX_DEPTH + 5):
        value = [value]
    assert "hunter2" not in str(redact(value))


@pytest.mark.parametrize(
    "text", ["token " * 20_000, "://" * 50_000, "eyJ" * 50_000, "password" * 20_000, "-----BEGIN " * 9000]
)
def test_long_texts_take_time_in_proportion(text: str):
    began = time.process_time()
    redact_text(text)
    assert time.process_time() - began < 2


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)


@given(json_values)
def test_doing_it_twice_is_doing_it_once(value: Any):
    once = redact(value)
    assert redact(once) == once
