"""An exchange on one line of 80 columns, and in full with its secrets redacted."""

import pytest

from dovetail.cli.output import width_of
from dovetail.cli.traffic.pairing import TrafficLog
from dovetail.cli.traffic.views import duration, exchange_details, exchange_line, exchange_tone, redacted, size
from tests.cli.traffic.test_pairing import CALL, received, sent


def test_the_line_has_everything_and_fits() -> None:
    log = TrafficLog([sent(CALL, 1.0), received({"id": 1, "result": {}}, 1.0123)])
    line = exchange_line(log.all()[0])
    assert line.split()[2:] == ["desk", "->", "tools/call", "add", "ok", "12", "ms", "116", "B"]
    assert width_of(line) == 80


@pytest.mark.parametrize("width", [60, 80, 120])
def test_long_and_hostile_names_do_not_break_the_line(width: int) -> None:
    call = {"id": 1, "method": "tools/call", "params": {"name": "漢" * 200 + "\x1b[2J\n"}}
    log = TrafficLog([sent(call, server="a-very-long-name-of-a-server")])
    line = exchange_line(log.all()[0], width)
    assert width_of(line) == width and "\x1b" not in line and "\n" not in line and "…" in line


def test_progress_is_counted_on_the_line() -> None:
    progress = {"method": "notifications/progress", "params": {"progressToken": "t", "progress": 1}}
    log = TrafficLog([sent(CALL), received(progress), received(progress)])
    assert "tools/call add (+2)" in exchange_line(log.all()[0])


def test_the_details_show_every_message_indented() -> None:
    log = TrafficLog([sent(CALL, 1.0), received({"id": 1, "error": {"message": "no\x1b[2J"}}, 2.5)])
    text = "\n".join(text for _, text in exchange_details(log.all()[0]))
    assert "1: desk -> tools/call" in text and "error, 1.5 s" in text
    assert '  |   "method": "tools/call"' in text and "<- answer, 1.5 s later" in text
    assert "\x1b" not in text and "\\u001b" in text
    assert exchange_tone(log.all()[0]) == "bad"


def test_secrets_are_redacted_and_progress_tokens_and_schemas_are_not() -> None:
    message = {
        "params": {
            "arguments": {"password": "hunter2", "note": "Bearer abcdefghijklmnop"},
            "_meta": {"progressToken": 3},
        },
        "inputSchema": {"properties": {"password": {"type": "string"}}},
        "tokens": ["a"],
        "api_key": ["k1", "k2"],
    }
    assert redacted(message) == {
        "params": {
            "arguments": {"password": "[redacted]", "note": "Bearer [redacted]"},
            "_meta": {"progressToken": 3},
        },
        "inputSchema": {"properties": {"password": {"type": "string"}}},
        "tokens": ["a"],
        "api_key": ["[redacted]", "[redacted]"],
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.0, "0.0 ms"),
        (0.0012, "1.2 ms"),
        (0.0423, "42 ms"),
        (0.25, "250 ms"),
        (1.25, "1.2 s"),
        (4000, "4000 s"),
    ],
)
def test_durations_are_short(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (123_456, "123 kB"), (64_000_000, "64.0 MB")]
)
def test_sizes_are_short(number: int, text: str) -> None:
    assert size(number) == text
