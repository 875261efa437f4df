"""Proof that a code is exchanged by who asked for it."""

import os
import re

from dovetail.auth import pkce


def test_the_example_of_the_rfc() -> None:
    assert (
        pkce.challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )


def test_a_verifier_is_long_enough_and_never_the_same() -> None:
    one, other = pkce.new_verifier(os.urandom), pkce.new_verifier(os.urandom)
    assert one != other
    assert re.fullmatch(r"[A-Za-z0-9._~-]{43,128}", one)
