"""Checks of a server as a whole, when it starts: names of things that do not exist, tools without a description."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from dovetail.protocol.errors import LocalError

if TYPE_CHECKING:
    from .core import ServerCore

logger = logging.getLogger("dovetail")

_MAX_NAMES = 5


def check_before_start(core: ServerCore) -> None:
    """Raise LocalError for a name of something that does not exist, and warn of tools without a description.

    That is a warning for an author at a terminal only: in production it would be repeated at each start.
    """
    check_names(core)
    nameless = [name for name, tool in core.tools.items() if not (tool.definition.description or "").strip()]
    if nameless:
        more = f" and {len(nameless) - _MAX_NAMES} more" if len(nameless) > _MAX_NAMES else ""
        logger.log(
            logging.WARNING if _has_terminal() else logging.INFO,
            "No description: %s%s. Models choose tools by their descriptions; write docstrings.",
            ", ".join(nameless[:_MAX_NAMES]),
            more,
        )


def _has_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # it may be closed
        return False


def check_names(core: ServerCore) -> None:
    """Raise LocalError for completions and handles that name what does not exist; a lifespan may still register it."""
    if core.has_lifespan:
        return
    for each in (core, *core.mounted()):
        for reference, argument in each.completions.references() if each.completes else ():
            if (problem := _problem(each, reference, argument, complete=True)) is not None:
                raise LocalError(problem)
        for handles in each.handles.values():
            if (tool := handles.created_by) is not None and tool not in each.tools:
                near = _nearest(tool, [name for name, _ in each.tools.items()])
                raise LocalError(f"Handles of {handles.name!r}: created_by={tool!r}, but there is no such tool{near}")


def check_completion(core: ServerCore, reference: str, argument: str) -> None:
    """Raise LocalError where the prompt or template is registered already and has no such argument."""
    if (problem := _problem(core, reference, argument, complete=False)) is not None:
        raise LocalError(problem)


def _problem(core: ServerCore, reference: str, argument: str, *, complete: bool) -> str | None:
    """Say why a completion is never used; None where it is, or where its prompt may still be registered."""
    names = _argument_names(core, reference)
    if names is None:
        if not complete:
            return None
        known = [key for registry in (core.prompts, core.templates) for key, _ in registry.items()]
        return f"A completion is for {reference!r}, but there is no such prompt or template{_nearest(reference, known)}"
    if argument in names:
        return None
    has = f"it has {', '.join(names)}" if names else "it has none"
    return f"A completion is for {argument!r} of {reference!r}, but {has}{_nearest(argument, names)}"


def _argument_names(core: ServerCore, reference: str) -> list[str] | None:
    """The arguments of a prompt, or the variables of a template; None if there is neither."""
    if (prompt := core.prompts.get(reference)) is not None:
        return [argument.name for argument in prompt.definition.arguments or ()]
    if (resource := core.templates.get(reference)) is not None and resource.template is not None:
        return list(resource.template.variables)
    return [] if core.resources.get(reference) is not None else None


def _nearest(name: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
