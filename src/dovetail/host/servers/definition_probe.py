"""Probe of every server of a configuration, once, for its definitions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping

import msgspec

from dovetail.client.targets.environment import shared_environment
from dovetail.client.targets.secrets import Secrets
from dovetail.config.entries import ServerEntry
from dovetail.config.launch_spec import LaunchSpec
from dovetail.host.limits import Limits
from dovetail.policy.definitions import Defined, Definition, define_all
from dovetail.protocol.errors import DovetailError, LocalError

from .bounded_client import BoundedClient, ListKind, fetch_list, offered_kinds
from .launcher import command_target

_LISTS: tuple[ListKind, ...] = ("tools", "prompts", "templates")


class ProbedDefinitions(msgspec.Struct, frozen=True, kw_only=True):
    """The definitions of each server, or the reason why there are none."""

    definitions: dict[str, list[Definition]] = {}
    problems: dict[str, DovetailError] = {}


async def probe_definitions(
    entries: Iterable[ServerEntry],
    secrets: Secrets,
    limits: Limits | None = None,
    environ: Mapping[str, str] = os.environ,
) -> ProbedDefinitions:
    """Start or reach servers side by side, take their definitions, and let go of them; nobody is asked."""
    bounds = limits or Limits()
    definitions: dict[str, list[Definition]] = {}
    problems: dict[str, DovetailError] = {}

    async def one(entry: ServerEntry) -> None:
        try:
            spec = await secrets.fill(entry)
            definitions[entry.key] = await _fetch_definitions(spec, bounds, environ)
        except DovetailError as problem:
            problems[entry.key] = problem

    await asyncio.gather(*map(one, entries))
    return ProbedDefinitions(definitions=definitions, problems=problems)


async def _fetch_definitions(spec: LaunchSpec, limits: Limits, environ: Mapping[str, str]) -> list[Definition]:
    left_out: list[str] = []
    values: list[Defined] = []
    async with _client(spec, limits, environ, left_out) as client:
        for kind in offered_kinds(client):
            if kind in _LISTS:
                values += await fetch_list(client, kind, limits.list_seconds)
        said = client.instructions
    if left_out:
        raise LocalError("; ".join(left_out))
    return define_all(values, said[: limits.max_instructions] if said else None)


def _client(spec: LaunchSpec, limits: Limits, environ: Mapping[str, str], left_out: list[str]) -> BoundedClient:
    if spec.kind == "stdio":
        target = command_target(spec, shared_environment(environ), lambda _: None)
        return BoundedClient(target, limits, left_out.append, timeout=limits.start_seconds)
    if spec.url is None:
        raise LocalError("A server that is reached over the network needs a URL")
    return BoundedClient(spec.url, limits, left_out.append, timeout=limits.start_seconds, headers=spec.headers or None)
