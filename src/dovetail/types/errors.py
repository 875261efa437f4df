"""The two errors that every package may raise; `protocol/errors.py` draws the whole tree."""


class DovetailError(Exception):
    """The root of every error that Dovetail raises."""


class LocalError(DovetailError):
    """Dovetail was used in a way it cannot serve; the message says what to change."""
