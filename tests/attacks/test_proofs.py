"""Attacks on tokens that are bound to a key (RFC 9449): the token, the proof or both were stolen."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail.auth.dpop import Prover
from dovetail.auth.jwk import SigningKey
from tests.support.http_process import BOTH, HttpProcess
from tests.support.raw_http import modern, modern_headers

SERVER = Path(__file__).parent / "servers" / "bound.py"
HOLDER = Prover(SigningKey.generate())
MANY = 12


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two workers"])
def server(request: pytest.FixtureRequest) -> Iterator[HttpProcess]:
    patch = pytest.MonkeyPatch()
    patch.setenv("THUMBPRINT", HOLDER.thumbprint)
    with patch.context(), HttpProcess(SERVER, "--workers", str(request.param)) as process:
        yield process
    patch.undo()


def proof(server: HttpProcess, prover: Prover = HOLDER, *, ago: float = 0.0, **changes: Any) -> str:
    given = {"method": "POST", "url": f"{server.url}/mcp", "token": "t", **changes}
    return prover.prove(**given, now=time.time() - ago, random=os.urandom)


def call(server: HttpProcess, shown: str | None, scheme: str = "DPoP") -> tuple[int, str]:
    """One request over a connection of its own, so that any worker may get it."""
    message = modern("tools/call", name="which", arguments={})
    headers = {**BOTH, **modern_headers(message), "authorization": f"{scheme} t"}
    if shown is not None:
        headers["dpop"] = shown
    connection = http.client.HTTPConnection(server.host, server.port, timeout=10)
    try:
        connection.request("POST", "/mcp", json.dumps(message), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_proof_is_good_once_whoever_gets_it(server: HttpProcess) -> None:
    shown = proof(server)
    answers = [call(server, shown) for _ in range(MANY)]
    assert [status for status, _ in answers] == [200] + [401] * (MANY - 1)
    assert all("structuredContent" not in body for _, body in answers[1:])
    fresh = [call(server, proof(server)) for _ in range(MANY)]
    assert {status for status, _ in fresh} == {200}


def test_both_workers_have_answered(server: HttpProcess, request: pytest.FixtureRequest) -> None:
    found = {call(server, proof(server))[1].partition('"structuredContent":')[2][:30] for _ in range(3 * MANY)}
    assert len(found) == (2 if "two" in request.node.callspec.id else 1)


def test_a_stolen_token_is_of_no_use_without_the_key(server: HttpProcess) -> None:
    thief = Prover(SigningKey.generate())
    tries = [
        (None, "DPoP"),
        (None, "Bearer"),
        (proof(server), "Bearer"),
        (proof(server, thief), "DPoP"),
        ("x.y.z", "DPoP"),
    ]
    assert [call(server, shown, scheme)[0] for shown, scheme in tries] == [401] * len(tries)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "GET"},
        {"url": "http://127.0.0.1/mcp"},
        {"url": "https://127.0.0.1/mcp"},
        {"url": "http://evil.example/mcp"},
        {"token": "another"},
        {"token": None},
        {"ago": 3600.0},
        {"ago": -3600.0},
    ],
    ids=str,
)
def test_a_proof_for_something_else(server: HttpProcess, changes: dict[str, Any]) -> None:
    assert call(server, proof(server, **changes))[0] == 401


def test_a_key_of_the_thiefs_own_beside_the_right_name(server: HttpProcess) -> None:
    """The proof shows the holder's public key, and is signed with another."""
    from dovetail.auth import jwt

    thief = SigningKey.generate()
    right = jwt.parse_unverified(proof(server))
    forged = jwt.sign(right.claims, thief, "dpop+jwt", {"jwk": HOLDER.key.public.jwk})
    assert call(server, forged)[0] == 401
