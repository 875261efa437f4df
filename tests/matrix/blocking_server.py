"""A server whose handlers are plain functions that report, log and ask; as a script, over stdio."""

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from dovetail import Server, SyncContext


@dataclass
class Stay:
    """A form."""

    nights: int


@dataclass
class Quote:
    """What a step returns."""

    price: float
    thread: str


@asynccontextmanager
async def lifespan(server: Server) -> AsyncGenerator[list[str]]:
    yield []


def build(_: object = None) -> Server:
    server = Server("blocking", lifespan=lifespan)

    def quote(city: str) -> Quote:
        return Quote(99.5, threading.current_thread().name)

    async def tax(price: float) -> float:
        return price / 10

    @server.tool
    def book(city: str, ctx: SyncContext[list[str]]) -> dict[str, Any]:
        ctx.progress(1, 3, "looking")
        ctx.log.info("booking", city=city)
        found = ctx.step("quote", quote, city)
        ctx.lifespan.append(f"run {city}")
        answer = ctx.elicit(f"{city} for {found.price}?", Stay)
        if not answer.accepted:
            return {"booked": False, "why": answer.action}
        ctx.progress(2, 3)
        extra = ctx.step("tax", tax, found.price)
        words = ctx.sample("A greeting", max_tokens=9)
        roots = ctx.roots()
        ctx.progress(3, 3)
        return {
            "nights": answer.data.nights,
            "total": answer.data.nights * (found.price + extra),
            "words": words.text,
            "roots": len(roots),
            "in a thread": found.thread.startswith("dovetail-worker"),
        }

    @server.tool
    def pay(ctx: SyncContext) -> str:
        return ctx.elicit_url("Pay here", "https://pay.example/1").action

    @server.resource("note://{topic}")
    def note(topic: str, ctx: SyncContext) -> str:
        return f"{topic}: {ctx.elicit('Say?', str).data}"

    @server.prompt
    def greet(ctx: SyncContext) -> str:
        return f"Dear {ctx.elicit('Who?', str).data}"

    return server


if __name__ == "__main__":
    build().run()
