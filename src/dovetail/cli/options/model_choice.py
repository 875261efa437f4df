"""Model selection: from the command line, the environment, or the user's models.toml."""

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

MODEL_SYNTAX = "openai:NAME, openai:NAME@BASE_URL for any OpenAI-compatible server, anthropic:NAME, or scripted:FILE"
MODEL_HELP = f"""Name a model with --model or in ${VARIABLE}: {MODEL_SYNTAX}.
Keys are read from OPENAI_API_KEY and ANTHROPIC_API_KEY. To configure models permanently, list them in {{path}}:
  [[models]]
  provider = "openai"
  name = "qwen3"
  base_url = "http://127.0.0.1:11434/v1\""""


Trait = Annotated[float, msgspec.Meta(ge=0, le=1)]


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model in models.toml."""

    provider: Literal["openai", "anthropic", "scripted"]
    name: str
    base_url: str | None = None
    key_env: str | None = None
    """The environment variable that holds the API key; the file must not contain keys."""
    cheap: Trait = 0.5
    fast: Trait = 0.5
    clever: Trait = 0.5
    context_window: Annotated[int, msgspec.Meta(gt=0)] | None = None
    """The number of tokens that the model can read, for the status line."""


class _ModelsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: list[ModelConfig] = []


def find_models(
    words: Sequence[str], environ: Mapping[str, str] = os.environ, folder: Path | None = None
) -> list[Model]:
    """The models, the default one first; a word without a colon selects one from the file."""
    from dovetail.cli.output import printable
    from dovetail.protocol.errors import LocalError

    configured = _read(models_path(environ, folder))
    wanted = list(words) or [word for word in [environ.get(VARIABLE, "")] if word]
    chosen = [parse_model(word) if ":" in word else _named(word, configured) for word in wanted]
    models = [make_model(each, environ) for each in chosen]
    for each in configured:
        if each not in chosen:
            try:
                models.append(make_model(each, environ))
            except (UsageError, LocalError) as problem:
                # Not requested explicitly, so a warning is enough.
                print(f"dovetail: {printable(str(problem))}", file=sys.stderr)
    return models


def model_help(environ: Mapping[str, str] = os.environ, folder: Path | None = None) -> str:
    """Instructions for configuring a model."""
    return MODEL_HELP.format(path=models_path(environ, folder))


def models_path(environ: Mapping[str, str] = os.environ, folder: Path | None = None) -> Path:
    """The path of models.toml."""
    from dovetail.userdata.folders import user_folder

    return (folder or user_folder(environ)) / FILE


def parse_model(word: str) -> ModelConfig:
    """Parse `provider:name@base_url`; an @ that no URL follows belongs to the name."""
    provider, _, rest = word.partition(":")
    name, sign, address = rest.rpartition("@")
    if not sign or not address.startswith(("http://", "https://")):
        name, address = rest, ""
    try:
        return msgspec.convert({"provider": provider, "name": name, "base_url": address or None}, ModelConfig)
    except msgspec.ValidationError:
        raise UsageError(f"{word!r} is not a model: write {MODEL_SYNTAX}") from None


def make_model(configured: ModelConfig, environ: Mapping[str, str] = os.environ) -> Model:
    """Create the model; its library is imported on first use."""
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
            raise UsageError(f"the model {configured.name} needs a key in ${configured.key_env}, which is not set")
    return Adapter(
        configured.name,
        api_key=key,
        base_url=configured.base_url,
        traits=traits,
        context_window=configured.context_window,
    )


def _named(word: str, configured: list[ModelConfig]) -> ModelConfig:
    model = next((each for each in configured if word in each.name), None)
    if model is None:
        known = ", ".join(each.name for each in configured) or "none"
        raise UsageError(f"there is no model {word!r}; in the file are: {known}. Or write {MODEL_SYNTAX}")
    return model


def _read(path: Path) -> list[ModelConfig]:
    import tomllib

    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _ModelsFile).models
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as problem:
        raise UsageError(f"{path} cannot be read: {problem}") from None
