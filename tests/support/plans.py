"""Handlers as data: a plan says what a handler asks and does, in what order and what at once.

`Teller` knows what must come of a plan. `build` makes a server with a tool that carries a plan out, and as a
script this file is that server: `plans.py JOURNAL KEY` writes every step that it takes to the journal.
"""

import asyncio
import json
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dovetail import Context, Server
from dovetail.protocol.errors import StepFailed

Plan = list[Any]
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def number(*parts: Any) -> int:
    """The same number for the same parts, in every process."""
    return zlib.crc32(json.dumps(parts).encode())


def elicited(message: str) -> dict[str, Any]:
    """What the person answers to a question."""
    seed = number("elicit", message)
    if seed % 5 == 0:
        return {"action": "decline"}
    return {"action": "accept", "content": {"n": seed}}


def answer(method: str, params: dict[str, Any] | None) -> dict[str, Any]:
    """The client's answer to any question of a plan."""
    if method == "elicitation/create":
        assert params is not None
        return elicited(params["message"])
    if method == "sampling/createMessage":
        assert params is not None
        text = f"said {params['messages'][0]['content']['text']}"
        return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "m"}
    return {"roots": [{"uri": "file:///"}]}


class Teller:
    """What a plan comes to, and the steps that are taken on the way, without any protocol."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def tell(self, plan: Plan) -> list[Any]:
        told: list[Any] = []
        for kind, *rest in plan:
            if kind == "ask":
                said = elicited(rest[0])
                told.append([said["action"], said.get("content", {}).get("n")])
            elif kind == "sample":
                told.append(f"said {rest[0]}")
            elif kind == "roots":
                told.append(["file:///"])
            elif kind == "step":
                self.steps.append(rest[1])
                told.append({"done": rest[1]})
            elif kind == "fail":
                self.steps.append(rest[1])
                told.append(f"The step {rest[0]!r} failed: ValueError: {rest[1]}")
            elif kind == "if":
                told.append(self.tell(rest[number(told) % 2]))
            elif kind in ("gather", "group"):
                told.append([self.tell(branch) for branch in rest[0]])
        return told


class Doer:
    """The same, by a handler that asks and does."""

    def __init__(self, ctx: Context, note: Callable[[str], None]) -> None:
        self._ctx = ctx
        self._note = note

    async def do(self, plan: Plan) -> list[Any]:
        done: list[Any] = []
        for kind, *rest in plan:
            if kind == "if":
                done.append(await self.do(rest[number(done) % 2]))
            elif kind == "gather":
                done.append(list(await asyncio.gather(*(self.do(branch) for branch in rest[0]))))
            elif kind == "group":
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(self.do(branch)) for branch in rest[0]]
                done.append([task.result() for task in tasks])
            elif kind == "pause":
                for _ in range(rest[0]):
                    await asyncio.sleep(0)
            else:
                done.append(await self._one(kind, *rest))
        return done

    async def _one(self, kind: str, what: Any = None, key: Any = None) -> Any:
        ctx = self._ctx
        if kind == "ask":
            answer = await ctx.elicit(what, FORM, key=key)
            return [answer.action, answer.data["n"] if answer.accepted else None]
        if kind == "sample":
            return (await ctx.sample(what, max_tokens=5, key=key)).text
        if kind == "roots":
            return [root.uri for root in await ctx.roots(key=key)]
        try:
            return await ctx.step(what, self._step if key[-1] in "02468" else self._slow_step, kind, key)
        except StepFailed as problem:
            return str(problem)

    def _step(self, kind: str, mark: str) -> dict[str, str]:
        self._note(mark)
        if kind == "fail":
            raise ValueError(mark)
        return {"done": mark}

    async def _slow_step(self, kind: str, mark: str) -> dict[str, str]:
        await asyncio.sleep(0)
        return self._step(kind, mark)


def build(note: Callable[[str], None], keys: list[bytes]) -> Server:
    """A server that carries plans out, and tells of each step that it takes and each run that it begins."""
    server = Server("plans", state_keys=keys)

    @server.tool
    async def carry_out(plan: list[Any], ctx: Context) -> list[Any]:
        note("run")
        return await Doer(ctx, note).do(plan)

    return server


def to_file(path: Path) -> Callable[[str], None]:
    """Notes that several processes write."""

    def note(mark: str) -> None:
        with path.open("a") as file:
            file.write(mark + "\n")

    return note


if __name__ == "__main__":
    build(to_file(Path(sys.argv[1])), [sys.argv[2].encode()]).run()
