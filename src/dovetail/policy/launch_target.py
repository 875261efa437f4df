"""The target of an approved launch, and what the audit log says of a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dovetail.client.targets.command import CommandTarget
from dovetail.config.launch_spec import LaunchSpec, without_secrets

from .launch_files import find_program, safe_path


def command_target(
    spec: LaunchSpec, inherited: Mapping[str, str], on_stderr: Callable[[str], None] | None, name: str | None = None
) -> CommandTarget:
    """The program of a launch, started by its absolute path and with a `PATH` that has only absolute folders."""
    program = find_program(spec, inherited)
    command = spec.command if program is None else (program, *spec.command[1:])
    env = {**inherited, **spec.env}
    if "PATH" in env:
        env["PATH"] = safe_path(env["PATH"])
    return CommandTarget(command, env, spec.cwd, inherited={}, on_stderr=on_stderr, name=name)


def loggable_spec(spec: LaunchSpec) -> dict[str, Any]:
    """A launch for the audit log: command, program and files, or URL; of variables and headers only the names."""
    if spec.kind == "stdio":
        return {
            "command": without_secrets(spec.command),
            "cwd": spec.cwd,
            "env": sorted(spec.env),
            "program": spec.program,
            "files": spec.files,
        }
    return {"url": spec.url, "headers": sorted(spec.headers)}
