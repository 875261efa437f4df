"""Servers by value."""

import msgspec

from dovetail.config.entries import IN_CODE, Input, Origin, ServerEntry
from dovetail.config.launch_spec import LaunchSpec

ENTRY = ServerEntry(key="a", spec=LaunchSpec(kind="stdio", command=("x",)), origin=Origin("f", 3))


def test_where_it_stands_is_no_difference() -> None:
    moved = msgspec.structs.replace(ENTRY, origin=Origin("f", 9), origins={"command": Origin("f", 10)})
    assert ENTRY.same_launch(moved)


def test_what_is_a_difference() -> None:
    wanted = Input(id="k", origin=Origin("f", 1))
    for other in (
        msgspec.structs.replace(ENTRY, spec=LaunchSpec(kind="stdio", command=("x", "y"))),
        msgspec.structs.replace(ENTRY, enabled=False),
        msgspec.structs.replace(ENTRY, inputs=(wanted,)),
        msgspec.structs.replace(ENTRY, spec=None, problem="no"),
    ):
        assert not ENTRY.same_launch(other)


def test_places_in_words() -> None:
    assert (str(Origin("f", 3)), str(IN_CODE)) == ("f:3", "the program")


def test_a_default_is_part_of_what_is_approved() -> None:
    """It decides what runs, as much as the command that it stands in."""
    spec = LaunchSpec(kind="stdio", command=("${input:program}",))

    def entry(default: str | None) -> ServerEntry:
        wanted = Input(id="program", origin=Origin("mcp.json", 2), default=default)
        return ServerEntry(key="a", spec=spec, inputs=(wanted,))

    digests = {each.spec.digest for each in map(entry, (None, "good", "evil")) if each.spec is not None}
    assert len(digests) == 3
    assert not entry("good").same_launch(entry("evil"))
    assert entry(None).spec == spec
