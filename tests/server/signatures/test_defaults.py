"""Defaults of parameters: one of another type is refused, and a mutable one is not shared between calls."""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from dovetail import Client, LocalError, Param, Server
from dovetail.server.signatures.defaults import fresh_default


class Colour(Enum):
    RED = "red"


@dataclass
class Page:
    number: int = 1
    tags: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Fixed:
    number: int = 1


SENTINEL: Any = object()


def number(n: int = "three") -> None: ...  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]
def choice(units: Literal["metric", "imperial"] = "kelvin") -> None: ...  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]
def items(numbers: list[int] = ["a"]) -> None: ...  # type: ignore[list-item]  # noqa: B006  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (number, r'number\(\): the default of n must be of type integer, not the string "three"'),
        (choice, r'choice\(\): the default of units must be one of "metric", "imperial", not "kelvin"'),
        (items, r"items\(\): the default of numbers \[0\]: must be of type integer"),
    ],
)
def test_a_default_of_another_type_is_refused_at_registration(function: Any, message: str) -> None:
    with pytest.raises(LocalError, match=message):
        Server("s").tool(function)


def test_the_default_of_an_argument_of_a_prompt_is_checked_too() -> None:
    with pytest.raises(LocalError, match=r"the default of n must be of type integer"):
        Server("s").prompt(number)


def test_defaults_that_fit_are_accepted() -> None:
    def fits(
        optional: int = None,  # type: ignore[assignment]  # noqa: RUF013  # pyright: ignore[reportArgumentType]
        whole: float = 1,
        path: Path = Path("/tmp"),
        colour: Colour = Colour.RED,
        page: Page = Page(2),  # noqa: B008
        names: tuple[str, ...] = (),
        numbers: list[int] = (),  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]
        anything: Any = "x",
        unknown: int = SENTINEL,
        limit: Annotated[int, Param(ge=1)] = 0,
    ) -> None:
        """Do nothing."""

    Server("s").tool(fits)


async def test_a_mutable_default_is_copied_for_each_call() -> None:
    server = Server("s")

    @server.tool
    def collect(word: str, words: list[str] = [], page: Page = Page(1)) -> list[Any]:  # noqa: B006, B008
        """Add a word."""
        words.append(word)
        page.number += 1
        page.tags.append(word)
        return [words, page.number, page.tags]

    @server.prompt
    def ask(words: list[str] = []) -> str:  # noqa: B006
        """Ask."""
        words.append("x")
        return ",".join(words)

    async with Client(server) as client:
        for _ in range(2):
            assert (await client.call("collect", word="x")).data == [["x"], 2, ["x"]]
            [message] = (await client.prompt("ask")).messages
            assert message.content.text == "x"  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue]


def test_only_mutable_values_are_copied() -> None:
    assert fresh_default([]) is list
    assert fresh_default({}) is dict
    for default in ([1], {"a": 1}, {1}, [[1]], Page(1)):
        fresh = fresh_default(default)
        assert fresh is not None
        assert fresh() == default
        assert fresh() is not default
    nested: list[list[int]] = [[1]]
    copied = fresh_default(nested)
    assert copied is not None
    assert copied()[0] is not nested[0]
    for default in (1, "a", (1,), None, Fixed(1), SENTINEL, Path("/"), Colour.RED, Page):
        assert fresh_default(default) is None
