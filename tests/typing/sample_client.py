"""A client as a user writes it; each `reveal_type` names what a type checker has to say. It is not run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict, reveal_type

from dovetail import Client, InvalidParams, NotFound


@dataclass
class Book:
    title: str


class Row(TypedDict):
    title: str


async def main() -> None:
    async with Client("server.py") as client:
        books = await client.call("search", text="x", returns=list[Book])
        reveal_type(books)  # reveals: CallToolResult[list[Book]]
        reveal_type(books.data)  # reveals: list[Book]
        row = await client.call("row", {"id": 1}, returns=Row, timeout=5)
        reveal_type(row.data["title"])  # reveals: str
        reveal_type((await client.call("timer", arguments={"timeout": 5})).data)  # reveals: Any
        reveal_type((await client.call("find", returns=Book | None)).data)  # reveals: Any
        try:
            await client.read("book://x")
        except NotFound as problem:
            reveal_type(problem.code)  # reveals: int
            raise InvalidParams("no such shelf", data={"shelf": 3}) from problem


def blocking() -> None:
    with Client.blocking("server.py") as client:
        reveal_type(client.call("search", text="x", returns=list[Book]).data)  # reveals: list[Book]
        reveal_type(client.call("search", text="x").data)  # reveals: Any
