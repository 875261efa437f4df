"""Branches of a handler have the same names in each run, whichever comes first."""

import asyncio
import itertools

from dovetail.server.mrtr.branches import Branches


async def names(order: tuple[str, ...]) -> dict[str, list[str]]:
    """The names of three branches that each do two things, when they come in some order."""
    lanes = Branches(asyncio.current_task())
    turns = {name: asyncio.Event() for name in order}

    async def branch(name: str) -> list[str]:
        await turns[name].wait()
        first = lanes.current(f"first of {name}")
        await asyncio.sleep(0)
        inner = await asyncio.gather(leaf("x"), leaf("x"), leaf("y"))
        return [first, lanes.current("second"), *inner]

    async def leaf(name: str) -> str:
        return lanes.current(name)

    tasks = {name: asyncio.create_task(branch(name)) for name in sorted(order)}
    for name in order:
        turns[name].set()
        await asyncio.sleep(0)
    assert lanes.current("anything") == ""
    return {name: await task for name, task in tasks.items()}


async def test_the_order_does_not_matter() -> None:
    wanted = await names(("a", "b", "c"))
    for order in itertools.permutations("abc"):
        assert await names(order) == wanted


async def test_every_branch_has_its_own_name_and_keeps_it() -> None:
    found = await names(("a", "b", "c"))
    for first, second, *_ in found.values():
        assert first == second != ""
    leaves = [leaf for _, _, *inner in found.values() for leaf in inner]
    assert len({*leaves, *(name for name, *_ in found.values())}) == 12


async def test_branches_of_another_handler_are_not_ours() -> None:
    outer = Branches()

    async def alone() -> str:
        return Branches().current("x")

    async def within() -> str:
        outer.current("something")
        return await asyncio.create_task(alone())

    assert await asyncio.create_task(within()) == await asyncio.create_task(alone())
