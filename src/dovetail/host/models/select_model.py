"""Model selection: hints first, in their order, then the priorities of the request."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.protocol.errors import LocalError
from dovetail.protocol.sampling import match_model
from dovetail.types.client_features import ModelPreferences

from .contract import Model, Traits


def select_model(models: Sequence[Model], preferences: ModelPreferences | None = None) -> Model:
    """The model that fits best; between equals the one that was configured first.

    The first hint that names a model, in whole or in part, settles it, and the priorities decide between models
    that the same hint names. Without a hint that fits, the priorities decide alone (sampling, "Model Preferences").
    """
    if not models:
        raise LocalError("There is no model to ask: give the host some, as Host(models=[…])")
    wishes = preferences or ModelPreferences()
    best_first = sorted(models, key=lambda model: -_worth(model.traits, wishes))
    name = match_model(wishes.hints, [model.name for model in best_first])
    return best_first[0] if name is None else next(model for model in best_first if model.name == name)


def find_model(models: Sequence[Model], name: str) -> Model:
    """The model that a user names, in whole or in part; an error that lists them all when there is none."""
    match = match_model([name], [model.name for model in models])
    if match is None:
        known = ", ".join(model.name for model in models) or "none"
        raise LocalError(f"There is no model {name!r}; these are configured: {known}")
    return next(model for model in models if model.name == match)


def _worth(traits: Traits, wishes: ModelPreferences) -> float:
    weighed = (
        (wishes.cost_priority, traits.cheap),
        (wishes.speed_priority, traits.fast),
        (wishes.intelligence_priority, traits.clever),
    )
    # Anything may come from a server; what is no number from 0 to 1 counts for the next one that is, or for nothing.
    return sum(min(max(0.0, priority or 0.0), 1.0) * trait for priority, trait in weighed)
