"""The clients of the official SDKs with three replicas behind nginx in plain round robin, over one Redis.

Sessions, questions, subscriptions, and a stream that breaks and is resumed at another replica.
"""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.peers import ENVELOPE, HANDSHAKE, ROOT, node_program, python_program
from tests.support.nginx import needs_nginx
from tests.support.redis_server import needs_redis, shared_redis
from tests.support.replicas import Replicas

pytestmark = [pytest.mark.interop, needs_nginx, needs_redis]

RECORDING = ROOT / "tests" / "replicas" / "servers" / "recording.py"
CLIENTS = {
    "python": lambda: python_program("mcp", "mcp_replicas.py"),
    "typescript": lambda: node_program("typescript_replicas.mjs"),
}


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    folder = tmp_path_factory.mktemp("replicas")
    record = {"RECORD": str(folder)}
    with Replicas(RECORDING, folder / "nginx", shared_redis().url, environment=record) as replicas:
        yield replicas


@pytest.mark.parametrize("mode", ["legacy", ENVELOPE])
@pytest.mark.parametrize("kind", CLIENTS)
async def test_their_client_notices_no_replicas(kind: str, mode: str, replicas: Replicas) -> None:
    folder = Path(replicas.environment["RECORD"])
    (folder / "release-held").unlink(missing_ok=True)
    process = await asyncio.create_subprocess_exec(*CLIENTS[kind](), mode, replicas.url, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        if mode == "legacy":
            assert await process.stdout.readline() == b"holding\n", replicas.stderr
            await asyncio.to_thread(replicas.nginx.restart)
            (folder / "release-held").touch()
        got = json.loads(await process.stdout.read())
        assert await process.wait() == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    assert got["revision"] == (HANDSHAKE[-1] if mode == "legacy" else ENVELOPE)
    assert set(map(int, got["processes"])) == {replica.pid for replica in replicas.all}
    keys = [f"ask{number}" for number in range(4)]
    assert got["ask"] == [f"{key} {len(f'A number for {key}' + f'Another number for {key}')}" for key in keys]
    assert got["updates"] == ["counter://value"] * 4
    if mode == "legacy":
        assert got["hold"] == {"text": "held", "heard": [[1, 2, "holding"], [2, 2, "released"]]}
    assert "Traceback" not in replicas.stderr
