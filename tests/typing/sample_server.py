"""A server as an author writes it; each `reveal_type` names what a type checker has to say. It is not run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import reveal_type

from dovetail import Context, Server, SyncContext


@dataclass
class Dates:
    start: str
    nights: int


class Database:
    def count(self) -> int:
        return 1


@asynccontextmanager
async def lifespan(server: Server) -> AsyncGenerator[Database]:
    yield Database()


server = Server("typed", lifespan=lifespan)


async def fetch(city: str, days: int = 1) -> list[Dates]:
    return [Dates(city, days)]


def quote(city: str) -> float:
    return 1.5


@server.tool
async def book(city: str, ctx: Context[Database]) -> str:
    reveal_type(ctx.lifespan)  # reveals: Database
    answer = await ctx.elicit("When?", Dates)
    reveal_type(answer)  # reveals: Answer[Dates]
    reveal_type(answer.data)  # reveals: Dates
    number = await ctx.elicit("How many?", int)
    reveal_type(number.data)  # reveals: int
    by_schema = await ctx.elicit("What?", {"type": "object", "properties": {}})
    reveal_type(by_schema.data)  # reveals: dict[str, Any]
    reveal_type(await ctx.elicit("Sure?"))  # reveals: Answer[dict[str, Any]]
    reveal_type(await ctx.step("fetch", fetch, city, days=2))  # reveals: list[Dates]
    reveal_type(await ctx.step("quote", quote, city))  # reveals: float
    reveal_type((await ctx.elicit_url("Pay", "https://pay.example")).data)  # reveals: None
    return answer.data.start


@server.tool
async def bare(ctx: Context) -> str:
    reveal_type(ctx.lifespan)  # reveals: Any
    return ""


@server.tool
def blocking(city: str, ctx: SyncContext[Database]) -> int:
    reveal_type(ctx.lifespan.count())  # reveals: int
    reveal_type(ctx.elicit("When?", Dates).data)  # reveals: Dates
    reveal_type(ctx.step("fetch", fetch, city))  # reveals: list[Dates]
    reveal_type(ctx.step("quote", quote, city))  # reveals: float
    ctx.log.info("done", city=city)
    ctx.progress(1)
    return ctx.elicit("How many?", int).data


@server.tool
def blocking_bare(ctx: SyncContext) -> str:
    reveal_type(ctx.lifespan)  # reveals: Any
    return ""
