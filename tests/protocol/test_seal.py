"""State that a client carries: sealed, bound, and opened with any key of the ring."""

import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.protocol.errors import INVALID_PARAMS, LocalError, ProtocolError
from dovetail.protocol.seal import MAX_SEALED, KeyRing

OLD, NEW, OTHER = b"o" * 16, b"n" * 32, b"x" * 16


def seal(ring: KeyRing, content: bytes = b"content", bound: bytes = b"bound") -> str:
    return ring.seal(content, bound, os.urandom(12))


def refuses(ring: KeyRing, text: str, bound: bytes = b"bound") -> bool:
    with pytest.raises(ProtocolError) as caught:
        ring.open(text, bound)
    return caught.value.code == INVALID_PARAMS


@given(st.binary(max_size=2000), st.binary(max_size=100))
def test_a_sealed_state_can_be_opened(content: bytes, bound: bytes) -> None:
    ring = KeyRing([OLD])
    assert ring.open(seal(ring, content, bound), bound) == content


def test_a_sealed_state_does_not_show_its_content() -> None:
    sealed = seal(KeyRing([OLD]), b"a secret that is easy to find")
    assert b"secret" not in base64.urlsafe_b64decode(sealed + "==")


def test_every_changed_bit_is_found() -> None:
    ring = KeyRing([OLD])
    raw = base64.urlsafe_b64decode(seal(ring) + "==")
    for place in range(len(raw) * 8):
        changed = bytearray(raw)
        changed[place // 8] ^= 1 << place % 8
        assert refuses(ring, base64.urlsafe_b64encode(changed).decode())


def test_a_truncated_state_is_refused() -> None:
    ring = KeyRing([OLD])
    sealed = seal(ring)
    for length in range(len(sealed)):
        assert refuses(ring, sealed[:length])


@given(st.one_of(st.text(), st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode())))
def test_anything_else_is_refused(text: str) -> None:
    assert refuses(KeyRing([OLD]), text)


def test_a_state_bound_to_another_request_is_refused() -> None:
    ring = KeyRing([OLD])
    assert refuses(ring, seal(ring, bound=b"one"), bound=b"another")


def test_one_that_is_too_long_is_not_even_looked_at() -> None:
    assert refuses(KeyRing([OLD]), "A" * (MAX_SEALED + 1))


def test_keys_rotate() -> None:
    before, during, after = KeyRing([OLD]), KeyRing([NEW, OLD]), KeyRing([NEW])
    assert during.open(seal(before), b"bound") == b"content"
    assert after.open(seal(during), b"bound") == b"content"
    assert refuses(before, seal(during))
    assert refuses(after, seal(before))


def test_a_foreign_key_opens_nothing() -> None:
    assert refuses(KeyRing([OTHER]), seal(KeyRing([OLD])))


def test_the_refusal_is_the_same_whatever_is_wrong() -> None:
    ring = KeyRing([OLD])
    texts = ["", "!", "A" * 100, seal(KeyRing([OTHER])), seal(ring, bound=b"another"), seal(ring)[:-4]]
    said: set[str] = set()
    for text in texts:
        with pytest.raises(ProtocolError) as caught:
            ring.open(text, b"bound")
        said.add(str(caught.value))
    assert len(said) == 1


@pytest.mark.parametrize("keys", [[], [b"short"], [OLD, b""]])
def test_keys_that_are_too_weak(keys: list[bytes]) -> None:
    with pytest.raises(LocalError, match="16 bytes"):
        KeyRing(keys)


def test_a_ring_says_if_it_has_the_key_of_a_state() -> None:
    assert KeyRing([NEW, OLD]).has_key_of(seal(KeyRing([OLD])))
    assert not KeyRing([NEW]).has_key_of(seal(KeyRing([OLD])))


@pytest.mark.parametrize("text", ["", "A", "!!!", "\u00e9" * 20, "A" * (MAX_SEALED + 1)])
def test_text_that_is_no_state_names_no_key(text: str) -> None:
    assert not KeyRing([OLD]).has_key_of(text)


def test_the_keys_of_a_ring_can_be_replaced() -> None:
    ring = KeyRing([OLD])
    sealed = seal(ring)
    ring.replace([NEW])
    assert refuses(ring, sealed)
    ring.replace([NEW, OLD])
    assert ring.open(sealed, b"bound") == b"content"
