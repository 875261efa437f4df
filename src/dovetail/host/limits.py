"""Limits of one server of a host: time, memory and restarts."""

from __future__ import annotations

import msgspec

from dovetail.transports.base import MAX_RECEIVED


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds for each server; the defaults suit a user at a terminal."""

    start_seconds: float = 60.0
    """From the start of a server to its first answer; package runners fetch a package first."""
    wait_seconds: float = 10.0
    """Seconds that lists and calls wait for servers that are starting."""
    list_seconds: float = 20.0
    call_seconds: float = 60.0
    """Seconds that a call may be silent; progress renews it."""

    max_message_bytes: int = MAX_RECEIVED
    """Bytes of one message of a server."""
    max_items: int = 2_000
    max_pages: int = 200
    max_list_bytes: int = 4_000_000
    max_definition_bytes: int = 100_000
    """One tool, prompt, resource or template above it is left out."""
    max_instructions: int = 20_000
    """Characters."""

    log_bytes: int = 256_000
    traffic_bytes: int = 2_000_000
    traffic_line: int = 64_000
    """Bytes kept of one message."""
    log_line: int = 4_000
    events_per_second: float = 20.0
    """Lines of a server's log that are told of as events; all of them go to the log."""

    idle_seconds: float = 30.0
    """After so long without a word from a server it is asked whether it is well."""
    ping_seconds: float = 10.0
    attempts: int = 5
    """Failures in a row before a server is given up, until somebody asks for a restart."""
    first_pause: float = 0.5
    longest_pause: float = 30.0
    stable_seconds: float = 30.0
    """A server that was well for so long has its earlier failures forgiven."""
    refresh_seconds: float = 1.0
    """Lists are fetched again at most this often, however often the server says that they changed."""

    max_questions: int = 16
    """Questions of one server to the user that may be open at once; more are refused."""
    questions_per_second: float = 1.0
    """Questions of one server, to the user or to a model, after as many at once as twice those that may be open."""
    changes_per_second: float = 1.0
    """Definitions of one server that are recorded and asked about, after two hundred at once; all are held back."""
    max_subscriptions: int = 256
