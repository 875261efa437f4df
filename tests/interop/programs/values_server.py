"""Our server with a tool for each form of result that a client may unwrap."""

from dataclasses import dataclass

from dovetail import Server

server = Server("values")


@dataclass
class Point:
    x: int
    y: int = 0


@server.tool
def add(a: int, b: int) -> int:
    return a + b


@server.tool
def text() -> str:
    return "hello"


@server.tool
def numbers() -> list[int]:
    return [1, 2]


@server.tool
def points() -> list[Point]:
    return [Point(1)]


@server.tool
def maybe() -> int | None:
    return None


@server.tool
def nothing() -> None:
    return None


@server.tool(output_schema=None)
def plain() -> list[int]:
    return [1, 2]


if __name__ == "__main__":
    server.run()
