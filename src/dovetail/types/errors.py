"""The base errors, which every package may raise; the whole tree is drawn in `protocol/errors.py`."""

_DISTRIBUTION = "dovetail-mcp"
"""The name on the package index; the import and the command are `dovetail`."""


class DovetailError(Exception):
    """The root of every error that Dovetail raises."""


class LocalError(DovetailError):
    """Dovetail was used incorrectly; the message says what to change."""


def missing_extra(extra: str, subject: str) -> LocalError:
    """The error for an optional dependency that is not installed; `subject` begins the sentence."""
    return LocalError(f"{subject} needs the extra {extra}: {install_extra(extra)}")


def install_extra(extra: str) -> str:
    """The command that installs an extra, from the package index and from a checkout."""
    return f"pip install '{_DISTRIBUTION}[{extra}]' (from a checkout: pip install '.[{extra}]')"
