"""Options of subcommands that run a host, and the host built from them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail.cli.parser import UsageError

if TYPE_CHECKING:
    from dovetail.host.catalogue import HostTool
    from dovetail.host.host import Host
    from dovetail.policy.rules import Policy, Rule


_PROJECT_PRODUCTS = ("claude-code", "cursor", "vscode")
"""Programs whose files in a project a host reads without being told; settings of other programs may be malformed."""


def add_host_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for servers, models and policy."""
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
    group.add_argument("--root", action="append", default=[], metavar="PATH", help="a root to offer to servers")
    group.add_argument("--system", metavar="TEXT", help="system prompt for the model")
    rules = parser.add_argument_group("policy")
    rules.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="PATTERN",
        help="call these tools without asking: 'server__tool*'",
    )
    rules.add_argument("--deny", action="append", default=[], metavar="PATTERN", help="never call these tools")
    rules.add_argument(
        "--launch", action="append", default=[], metavar="SERVER", help="start or connect to this server without asking"
    )
    rules.add_argument("--policy", action="append", default=[], metavar="FILE", help="a file of further rules")


def make_host(options: argparse.Namespace, **more: Any) -> Host:
    """The host; `more` are its callbacks to the user."""
    from dovetail.host.host import Host

    from .model_choice import find_models

    if options.targets:
        from .host_targets import target_entries

        entries, typed = target_entries(options.targets, options.after_dashes)
        return Host(
            entries,
            policy=make_policy(options, [entry.key for entry in entries], typed),
            models=find_models(options.model),
            roots=options.root,
            **more,
        )
    files = config_files(options.config)
    return Host.from_config(
        *files,
        optional=[] if options.config else default_config_files(),
        policy=make_policy(options, _keys(files)),
        models=find_models(options.model),
        roots=options.root,
        **more,
    )


def config_files(named: Sequence[str]) -> list[Path]:
    """The files named by `--config`, or those of the project and the user."""
    from dovetail.config.files import find_files

    if named:
        missing = next((name for name in named if not Path(name).is_file()), None)
        if missing is not None:
            raise UsageError(f"there is no file {missing}")
        return [Path(name) for name in named]
    files = [
        each.path
        for each in find_files()
        if each.product == "dovetail" or (each.scope == "project" and each.product in _PROJECT_PRODUCTS)
    ]
    if not files:
        raise UsageError(
            "there is no configuration file: create one with `dovetail add`, import servers of other programs with "
            "`dovetail import`, or name a file with --config FILE"
        )
    return files


def default_config_files() -> list[Path]:
    """The file that `dovetail add` writes to by default; a running host watches it."""
    from dovetail.config.files import default_file

    return [default_file()]


def make_policy(options: argparse.Namespace, keys: Sequence[str], typed: Sequence[str] = ()) -> Policy:
    """The policy: rules of options first, then those of files. A rule that matches no server is an error.

    Servers that the user typed, as files, commands or URLs, start without a question.
    """
    from dovetail.policy.policy_file import load_rules
    from dovetail.policy.rules import Policy, Rule

    rules: list[Rule] = [tool_rule("deny", pattern, keys) for pattern in options.deny]
    rules += [tool_rule("allow", pattern, keys) for pattern in options.allow]
    rules += [Rule("allow", server=pattern, kind="launch", origin="--launch") for pattern in options.launch]
    for rule in rules:
        _check_server(rule, keys)
    rules += [Rule("allow", server=key, kind="launch", origin="the command line") for key in typed]
    for name in options.policy:
        if not Path(name).is_file():
            raise UsageError(f"there is no file {name}")
        rules += load_rules(Path(name))
    return Policy(rules)


def tool_rule(verdict: Any, pattern: str, keys: Sequence[str]) -> Rule:
    """A rule from `server__tool`, with `*` in either; a pattern without `__` names servers.

    Both are the names that users see, without the hash that shortens long names for models.
    """
    from dovetail.policy.rules import Rule

    # The key of a server may have `__` in it.
    whole = max((key for key in keys if pattern == key or pattern.startswith(f"{key}__")), key=len, default=None)
    server, sign, tool = pattern.partition("__")
    if whole is not None:
        server, sign, tool = whole, pattern[len(whole) :][:2], pattern[len(whole) + 2 :]
    if not server or (sign and not tool):
        raise UsageError(f"{pattern!r} is not a pattern for tools: write server__tool, server__*, or server")
    return Rule(verdict, server=server, tool=tool or "*", origin=f"--{verdict}")


def unmatched_patterns(options: argparse.Namespace, host: Host, tools: Sequence[HostTool]) -> list[str]:
    """A warning for each pattern that matches no tool of the servers that are ready."""
    from dovetail.policy.globs import glob_matches

    there = [key for key, status in host.servers.items() if status.state == "ready"]
    lines: list[str] = []
    for option in ("deny", "allow"):
        for pattern in getattr(options, option):
            rule = tool_rule(option, pattern, list(host.servers))
            its = [tool for tool in tools if glob_matches(rule.server, tool.server)]
            if any(glob_matches(rule.server, key) for key in there) and not any(
                glob_matches(rule.tool or "*", tool.tool.name) for tool in its
            ):
                lines.append(f"--{option} {pattern}: there is no such tool{_suggestion(rule.tool or '', its)}")
    return lines


def _suggestion(word: str, tools: Sequence[HostTool]) -> str:
    import difflib

    names = {tool.tool.name: f"{tool.server}__{tool.tool.name}" for tool in tools}
    near = difflib.get_close_matches(word, list(names), 1)
    return f"; did you mean {names[near[0]]}?" if near else ""


def _check_server(rule: Rule, keys: Sequence[str]) -> None:
    """Fail on a rule that matches no server: a typo in a deny rule would go unnoticed."""
    import difflib

    from dovetail.policy.globs import glob_matches

    if any(glob_matches(rule.server, key) for key in keys):
        return
    near = difflib.get_close_matches(rule.server, keys, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(keys) or 'none'}"
    raise UsageError(f"{rule.origin} names no server {rule.server!r}; {hint}")


def _keys(files: Sequence[Path]) -> list[str]:
    from dovetail.config.reader import read_configs

    return [entry.key for entry in read_configs(files).entries]
