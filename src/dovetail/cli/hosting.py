"""The options that the verbs with a host have, and the host that they make."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .verbs import UsageError

if TYPE_CHECKING:
    from dovetail.host.host import Host
    from dovetail.policy.rules import Policy, Rule


def add_host_options(parser: argparse.ArgumentParser) -> None:
    """Which servers, which model, and what may run."""
    group = parser.add_argument_group("servers and models")
    group.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE",
        help="a file that names servers (default: the project's, and your own)",
    )
    group.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="MODEL",
        help="openai:NAME[@BASE_URL], anthropic:NAME, or one of your models.toml; the first one answers",
    )
    group.add_argument("--root", action="append", default=[], metavar="PATH", help="a folder that servers may know of")
    group.add_argument("--system", metavar="TEXT", help="what the model is told before everything else")
    rules = parser.add_argument_group("what may run")
    rules.add_argument(
        "--allow", action="append", default=[], metavar="PATTERN", help="call these tools unasked: 'server__tool*'"
    )
    rules.add_argument("--deny", action="append", default=[], metavar="PATTERN", help="never call these tools")
    rules.add_argument(
        "--launch", action="append", default=[], metavar="SERVER", help="start or reach this server unasked"
    )
    rules.add_argument("--policy", action="append", default=[], metavar="FILE", help="a file of further rules")


def make_host(options: argparse.Namespace, **more: Any) -> Host:
    """The host of the options; `more` says who is asked."""
    from dovetail.host.host import Host

    from .model_choice import find_models

    return Host.from_config(
        *config_files(options.config),
        policy=make_policy(options),
        models=find_models(options.model),
        roots=options.root,
        **more,
    )


def config_files(named: Sequence[str]) -> list[Path]:
    """The files that were named, or those of the project and the user's own."""
    from dovetail.host.config.files import find_files

    if named:
        missing = next((name for name in named if not Path(name).is_file()), None)
        if missing is not None:
            raise UsageError(f"there is no file {missing}")
        return [Path(name) for name in named]
    files = [each.path for each in find_files() if each.scope == "project" or each.product == "dovetail"]
    if not files:
        raise UsageError(
            "no file names any servers here: `dovetail add` makes one, `dovetail import` takes over those of other "
            "programs, and --config FILE names one"
        )
    return files


def make_policy(options: argparse.Namespace) -> Policy:
    """The rules that the options give, before those of the files."""
    from dovetail.policy.policy_file import load_rules
    from dovetail.policy.rules import Policy, Rule

    rules: list[Rule] = [tool_rule("deny", pattern) for pattern in options.deny]
    rules += [tool_rule("allow", pattern) for pattern in options.allow]
    rules += [Rule("allow", server=pattern, kind="launch", origin="--launch") for pattern in options.launch]
    for name in options.policy:
        if not Path(name).is_file():
            raise UsageError(f"there is no file {name}")
        rules += load_rules(Path(name))
    return Policy(rules)


def tool_rule(verdict: Any, pattern: str) -> Rule:
    """A rule from `server__tool`, with `*` in either; a pattern without `__` names servers."""
    from dovetail.policy.rules import Rule

    server, sign, tool = pattern.partition("__")
    if not server or (sign and not tool):
        raise UsageError(f"{pattern!r} is no pattern for tools: write server__tool, server__*, or server")
    return Rule(verdict, server=server, tool=tool or "*", origin=f"--{verdict}")
