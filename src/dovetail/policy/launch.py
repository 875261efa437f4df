"""Launches compared: what of a launch is kept and shown, and what has changed since it was approved."""

from __future__ import annotations

import msgspec

from dovetail.config.launch_spec import LaunchSpec, without_secrets
from dovetail.text.redact import is_secret, redact

_NOT_COVERED_BEFORE = (
    "You approved this when an approval did not cover the program and its files. Now it does, so you are asked once"
    " more."
)
_HIDDEN_CHANGE = "A value that is hidden here has changed."

_STEERING = frozenset(
    {
        *("PATH", "PATHEXT", "SHELL", "COMSPEC", "ENV", "BASH_ENV", "ZDOTDIR", "EDITOR", "VISUAL", "PAGER", "BROWSER"),
        *("NODE_OPTIONS", "NODE_PATH", "BUN_OPTIONS", "VIRTUAL_ENV", "RUBYOPT", "RUBYLIB", "PERL5OPT", "PERL5LIB"),
        *("PERL5DB", "PHPRC", "PHP_INI_SCAN_DIR", "LUA_INIT", "LUA_PATH", "R_PROFILE", "CLASSPATH"),
        *("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "DOTNET_STARTUP_HOOKS"),
        *("GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXEC_PATH"),
    }
)
_STEERING_FAMILIES = ("LD_", "DYLD_", "PYTHON", "NPM_CONFIG_", "UV_", "PIP_", "CORECLR_", "COR_")
"""Beginnings of the names of such variables."""


def has_same_words(before: LaunchSpec, now: LaunchSpec) -> bool:
    """True if two launches differ at most in the program and the files; `before` is a `redacted_spec`."""
    unresolved = msgspec.structs.replace(redacted_spec(now), program=None, files={})
    return unresolved == msgspec.structs.replace(before, program=None, files={})


def steers_programs(name: str) -> bool:
    """True for an environment variable that decides which code a program runs; its value is never hidden."""
    upper = name.upper()
    return upper in _STEERING or (upper.startswith(_STEERING_FAMILIES) and not is_secret(name))


def redacted_spec(spec: LaunchSpec) -> LaunchSpec:
    """A launch without the secrets that stand in it, to be kept and shown when it has changed."""
    kept = msgspec.convert(redact(msgspec.to_builtins(spec)), LaunchSpec)
    steering = {name: value for name, value in spec.env.items() if steers_programs(name)}
    return msgspec.structs.replace(
        kept,
        command=tuple(without_secrets(spec.command)),
        env={**kept.env, **steering},
        program=spec.program,
        files=spec.files,
    )


def launch_changes(before: LaunchSpec, now: LaunchSpec) -> list[str]:
    """The changes since a launch was approved, a sentence each; `before` is a `redacted_spec`."""
    shown = redacted_spec(now)
    changes = [
        f"{what} changed."
        for what, old, new in (
            ("The command has", before.command, shown.command),
            ("The folder has", before.cwd, shown.cwd),
            ("The URL has", (before.kind, before.url), (shown.kind, shown.url)),
            ("The environment has", before.env, shown.env),
            ("The headers have", before.headers, shown.headers),
            ("The defaults of inputs have", before.defaults, shown.defaults),
        )
        if old != new
    ]
    if before.kind == "stdio" and before.program is None and not before.files:
        return changes or ([_NOT_COVERED_BEFORE] if now.program is not None or now.files else [_HIDDEN_CHANGE])
    if before.program != now.program:
        changes.append(f"The program is now {now.program or 'missing'}; {before.program or 'none'} was approved.")
    for path in sorted({*before.files, *now.files}):
        old, new = before.files.get(path), now.files.get(path)
        if old is None or new is None:
            changes.append(f"{path} was {'added' if old is None else 'removed'}.")
        elif old != new:
            changes.append(
                f"The content of {path} has changed: {short_digest(old)} was approved, now {short_digest(new)}."
            )
    return changes or [_HIDDEN_CHANGE]


def short_digest(digest: str) -> str:
    """The beginning of a SHA-256, for display; what is none is shown as it is."""
    return f"SHA-256 {digest[:16]}…" if len(digest) == 64 else digest
