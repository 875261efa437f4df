"""Errors of model endpoints, translated from those of the providers' libraries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from dovetail.protocol.errors import ConnectionLost, DovetailError, InvalidAnswer, LocalError, Timeout
from dovetail.text.redact import REDACTED, redact_text
from dovetail.text.sanitize import clean_text

MAX_WORDS = 500

_ADVICE = {
    400: "it does not take this request",
    401: "see whether the key is right",
    403: "the key has no right to this model",
    404: "see whether the model and the base_url are right",
    413: "the conversation is too long for it",
    429: "wait, or see what your plan allows",
}


class ModelFailed(DovetailError):
    """A model's endpoint answered, and said no."""

    def __init__(self, message: str, *, model: str, status: int | None = None) -> None:
        super().__init__(message)
        self.model = model
        self.status = status
        """The HTTP status, where that was the answer."""


def error_text(problem: Exception, secrets: Iterable[str] = ()) -> str:
    """The text of a library's error, on one short line and without keys."""
    text = (_said(problem) or str(getattr(problem, "message", None) or problem))[: 4 * MAX_WORDS]
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    text = " ".join(redact_text(clean_text(text)).split())
    return text if len(text) <= MAX_WORDS else text[:MAX_WORDS] + "…"


def translate_error(problem: Exception, model: str, secrets: Iterable[str] = ()) -> DovetailError:
    """The error to raise instead.

    The libraries name their errors alike, and none of them should be imported just to be asked for its types, so
    the names of the error's classes decide, the nearest first.
    """
    if isinstance(problem, DovetailError):
        return problem
    words = error_text(problem, secrets)
    for kind in type(problem).__mro__:
        match kind.__name__:
            case "APITimeoutError" | "TimeoutException":
                return Timeout(f"The model {model} did not answer in time; give it more with timeout=…")
            case "APIResponseValidationError":
                break
            case "APIConnectionError" | "TransportError":
                return ConnectionLost(f"The model {model} cannot be reached: {words}")
            case "APIStatusError":
                return _refused(problem, model, words)
            case "APIError" | "ErrorInAnswer":
                return ModelFailed(f"The model {model} failed: {words}", model=model)
            case "OpenAIError" | "AnthropicError":
                return LocalError(f"The model {model} cannot be asked: {words}")
            case _:
                continue
    return InvalidAnswer(f"The endpoint of the model {model} answered with something else than an answer: {words}")


def _refused(problem: Exception, model: str, words: str) -> ModelFailed:
    status = getattr(problem, "status_code", None)
    status = status if isinstance(status, int) else None
    if status is not None and status < 300:
        return ModelFailed(f"The model {model} failed in the middle of its answer: {words}", model=model)
    if status is not None and status < 400:
        return ModelFailed(
            f"The model {model} is somewhere else ({status}), and nobody is followed with a key: "
            "see whether the base_url is right",
            model=model,
            status=status,
        )
    advice = _ADVICE.get(status or 0, "try again later" if (status or 0) >= 500 else "see what it says")
    return ModelFailed(f"The model {model} said no ({status}; {advice}): {words}", model=model, status=status)


def _said(problem: Exception) -> str | None:
    """The endpoint's own words, where the library hands over the whole error in which they stand."""
    body: object = getattr(problem, "body", None)
    error = cast("dict[str, object]", body).get("error") if isinstance(body, dict) else None
    said = cast("dict[str, object]", error).get("message") if isinstance(error, dict) else None
    return said if isinstance(said, str) and said else None
