"""A server whose handlers say that something does not exist, or makes no sense; as a script, over stdio."""

from typing import Any

from dovetail import InvalidParams, NotFound, Server
from dovetail.middleware import Exchange, Proceed


def build(_: object = None) -> Server:
    server = Server("refusing")

    async def close_the_archive(exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
        if exchange.target == "archive://all":
            raise NotFound("The archive is closed")
        return await proceed(exchange)

    server.use(close_the_archive)

    @server.tool
    async def find(title: str) -> str:
        raise NotFound(f"No book {title!r}", data={"shelf": 3})

    @server.tool
    def lend(days: int) -> str:
        raise InvalidParams(f"{days} days are too long")

    @server.resource("book://{title}")
    def book(title: str) -> str:
        if title == "new":
            raise InvalidParams("It is not printed yet")
        raise NotFound(f"No book {title!r}")

    @server.resource("archive://all")
    def archive() -> str:
        return "old"

    @server.prompt
    async def review(title: str) -> str:
        if title == "new":
            raise InvalidParams("It is not printed yet")
        raise NotFound(f"No book {title!r}")

    @server.completion("review", "title")
    def titles(value: str) -> list[str]:
        raise NotFound("There is no catalogue")

    return server


if __name__ == "__main__":
    build().run()
