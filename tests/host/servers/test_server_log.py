"""What one server wrote, logged and exchanged.

The latest of something, up to so many bytes.
"""

import msgspec

from dovetail.host.events import HostEvent
from dovetail.host.limits import Limits
from dovetail.host.servers.server_log import ServerLog

floods: list[str] = []


def journal(**limits: float) -> tuple[ServerLog, list[HostEvent]]:
    events: list[HostEvent] = []
    return ServerLog("key", msgspec.structs.replace(Limits(), **limits), events.append, floods.append), events


def test_lines_say_where_they_are_from() -> None:
    kept, events = journal()
    kept.stderr("\x1b[31mred\x1b[0m")
    kept.log("warning", {"a": 1}, "db")
    kept.note("error", "gone")
    told = [(line.source, line.level, line.text) for line in kept.lines()]
    assert told == [("stderr", "info", "red"), ("log", "warning", 'db: {"a":1}'), ("host", "error", "gone")]
    assert [event.detail for event in events] == kept.lines()
    assert {event.server for event in events} == {"key"}


def test_what_a_server_was_given_as_a_secret_is_not_in_it() -> None:
    kept, events = journal()
    kept.hide(["hunter2-hunter2", None])
    kept.stderr("logged in with hunter2-hunter2")
    kept.log("info", {"token": "hunter2-hunter2"}, None)
    assert "hunter2-hunter2" not in repr(kept.lines()) + repr(events)


def test_a_flood_is_kept_in_part_and_told_of_in_part() -> None:
    floods.clear()
    kept, events = journal(log_bytes=10_000, log_line=100, events_per_second=5)
    for number in range(10_000):
        kept.stderr(f"{number} " + "x" * 1000)
    assert len(kept.lines()) < 30
    assert kept.lines()[-1].text.startswith("9999 ")
    assert all(len(line.text) <= 100 for line in kept.lines())
    assert len(events) < 100
    assert len(floods) == 1


def test_messages_are_cut_off_and_say_how_long_they_were() -> None:
    kept, _ = journal(traffic_line=10, traffic_bytes=1000)
    kept.trace("sent", b"x" * 100)
    kept.trace("received", b"short")
    first, second = kept.messages()
    assert (first.direction, first.message, first.size) == ("sent", b"x" * 10, 100)
    assert (second.direction, second.message, second.size) == ("received", b"short", 5)
    for _ in range(1000):
        kept.trace("received", b"y" * 10)
    assert len(kept.messages()) <= 5
