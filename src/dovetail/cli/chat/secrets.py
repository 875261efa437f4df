"""Values that a configuration leaves to the person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail.cli.chat.ui.contract import Interrupted, Surface
from dovetail.cli.chat.views.rendering import one_line, rule
from dovetail.cli.terminal.terminal import Closed

if TYPE_CHECKING:
    from dovetail.host.entries import Input
    from dovetail.host.secrets import Secrets


def input_secrets(surface: Surface) -> Secrets:
    """Asks at the terminal for what is not in the keyring yet."""
    from dovetail.host.secrets import Secrets

    async def ask(server: str, wanted: Input) -> str | None:
        async with surface.question():
            surface.say()
            surface.say(("warn", rule(f"{server} needs {wanted.description or wanted.id}", surface.width)))
            surface.say(("dim", f"  from {one_line(str(wanted.origin))}"))
            if wanted.options:
                surface.say(f"  one of {', '.join(map(one_line, wanted.options))}")
            prompt = f"  {wanted.id}: "
            try:
                typed = await (surface.ask_secret(prompt) if wanted.secret else surface.ask(prompt))
            except (Closed, Interrupted):
                return None
        return typed or wanted.default

    return Secrets(on_input=ask)
