"""Which models the commands use: named on the command line, in the environment, or in a file of the user's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from dovetail.cli.parser import UsageError

if TYPE_CHECKING:
    from dovetail.host.models.contract import Model

VARIABLE = "DOVETAIL_MODEL"
FILE = "models.toml"

FORMS = "openai:NAME, openai:NAME@BASE_URL for any server that speaks like it, anthropic:NAME, or scripted:FILE"
HOW = f"""Name a model with --model or in ${VARIABLE}: {FORMS}.
Keys are read from OPENAI_API_KEY and ANTHROPIC_API_KEY. Models for every day stand in {{path}}:
  [[models]]
  provider = "openai"
  name = "qwen3"
  base_url = "http://127.0.0.1:11434/v1\""""


Trait = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Configured(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model as the user's file names it."""

    provider: Literal["openai", "anthropic", "scripted"]
    name: str
    base_url: str | None = None
    key_env: str | None = None
    """The environment variable that holds the key; keys themselves have no place in the file."""
    cheap: Trait = 0.5
    fast: Trait = 0.5
    clever: Trait = 0.5


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: list[Configured] = []


def find_models(
    words: Sequence[str], environ: Mapping[str, str] = os.environ, folder: Path | None = None
) -> list[Model]:
    """The models, the one to talk to first; a word without a colon picks one of the file's."""
    from dovetail.cli.output import printable
    from dovetail.protocol.errors import LocalError

    configured = _read(models_path(environ, folder))
    wanted = list(words) or [word for word in [environ.get(VARIABLE, "")] if word]
    chosen = [read_word(word) if ":" in word else _named(word, configured) for word in wanted]
    models = [make_model(each, environ) for each in chosen]
    for each in configured:
        if each not in chosen:
            try:
                models.append(make_model(each, environ))
            except (UsageError, LocalError) as problem:
                # Nobody named it: the others will do.
                print(f"dovetail: {printable(str(problem))}", file=sys.stderr)
    return models


def how_to_add(environ: Mapping[str, str] = os.environ, folder: Path | None = None) -> str:
    """What to do where there is no model."""
    return HOW.format(path=models_path(environ, folder))


def models_path(environ: Mapping[str, str] = os.environ, folder: Path | None = None) -> Path:
    """The file of the user's models."""
    from dovetail.userdata.folders import user_folder

    return (folder or user_folder(environ)) / FILE


def read_word(word: str) -> Configured:
    """A model from `provider:name@base_url`; a name may hold an @ that no address follows."""
    provider, _, rest = word.partition(":")
    name, sign, address = rest.rpartition("@")
    if not sign or not address.startswith(("http://", "https://")):
        name, address = rest, ""
    try:
        return msgspec.convert({"provider": provider, "name": name, "base_url": address or None}, Configured)
    except msgspec.ValidationError:
        raise UsageError(f"{word!r} names no model: write {FORMS}") from None


def make_model(configured: Configured, environ: Mapping[str, str] = os.environ) -> Model:
    """The model itself; its library is imported with the first question."""
    from dovetail.host.models.contract import Traits

    traits = Traits(cheap=configured.cheap, fast=configured.fast, clever=configured.clever)
    if configured.provider == "scripted":
        from dovetail.host.models.scripted import ScriptedModel

        return ScriptedModel.from_file(configured.name, name=Path(configured.name).stem, traits=traits)
    if configured.provider == "openai":
        from dovetail.host.models.openai import OpenAIModel as Adapter
    else:
        from dovetail.host.models.anthropic import AnthropicModel as Adapter
    key = None
    if configured.key_env is not None:
        key = environ.get(configured.key_env)
        if not key:
            raise UsageError(f"the model {configured.name} wants a key in ${configured.key_env}, which is not set")
    return Adapter(configured.name, api_key=key, base_url=configured.base_url, traits=traits)


def _named(word: str, configured: list[Configured]) -> Configured:
    found = next((each for each in configured if word in each.name), None)
    if found is None:
        known = ", ".join(each.name for each in configured) or "none"
        raise UsageError(f"there is no model {word!r}; in the file are: {known}. Or write {FORMS}")
    return found


def _read(path: Path) -> list[Configured]:
    import tomllib

    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _File).models
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as problem:
        raise UsageError(f"{path} cannot be read: {problem}") from None
