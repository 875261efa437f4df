"""Telemetry without OpenTelemetry: no cost, and words for who wants it all the same."""

import subprocess
import sys

from dovetail.types.errors import missing_extra

WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


def run(code: str) -> str:
    path = f"import sys; sys.path[:0] = {sys.path!r}\n"
    argv = [sys.executable, "-c", path + code]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def test_without_opentelemetry_it_says_what_to_install() -> None:
    code = """
from dovetail.protocol.errors import LocalError
from dovetail.middleware import Telemetry
try:
    Telemetry()
except LocalError as problem:
    print(problem)
"""
    assert run(WITHOUT + code) == str(missing_extra("otel", "Telemetry"))


def test_opentelemetry_is_imported_only_when_used() -> None:
    code = """
import asyncio
from dovetail import Client, Server

server = Server("plain")
server.tool(lambda: 1, name="one")

async def main():
    async with Client(server) as client:
        await client.call("one")

asyncio.run(main())
loaded = [name for name in sys.modules if "opentelemetry" in name or name.endswith((".telemetry", ".spans"))]
print(loaded)
"""
    assert run(code) == "[]"
