"""Seeing changes while running."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from dovetail.config.config_watch import ConfigWatch
from dovetail.config.document import BadConfig


def put(path: Path, **servers: Any) -> Path:
    """Put a file in place as a whole, as an editor does."""
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps({"mcpServers": servers}))
    os.replace(draft, path)
    return path


def watched(*paths: Path, **environ: str) -> ConfigWatch:
    return ConfigWatch(*paths, environ={"HOME": "/nowhere", **environ})


def test_added_removed_and_changed(tmp_path: Path) -> None:
    file = put(tmp_path / "x.json", a={"command": "a"}, b={"command": "b"}, c={"command": "c"})
    watch = watched(file)
    assert [entry.key for entry in watch.config.entries] == ["a", "b", "c"]
    assert watch.check() is None
    put(file, b={"command": "b"}, c={"command": "c", "args": ["1"]}, d={"command": "d"})
    change = watch.check()
    assert change is not None
    assert [entry.key for entry in change.added] == ["d"]
    assert [entry.key for entry in change.removed] == ["a"]
    [(before, after)] = change.changed
    assert before.spec is not None and after.spec is not None
    assert (before.spec.command, after.spec.command) == (("c",), ("c", "1"))
    assert watch.check() is None
    assert [entry.key for entry in watch.config.entries] == ["b", "c", "d"]


def test_a_line_that_moved_is_no_change(tmp_path: Path) -> None:
    file = put(tmp_path / "x.json", a={"command": "a"})
    watch = watched(file)
    file.write_text("\n\n\n" + file.read_text())
    assert watch.check() is None
    assert watch.config.entries[0].origin.line == 4


def test_switching_off_is_a_change(tmp_path: Path) -> None:
    file = put(tmp_path / "x.json", a={"command": "a"})
    watch = watched(file)
    put(file, a={"command": "a", "disabled": True})
    change = watch.check()
    assert change is not None and [after.enabled for _, after in change.changed] == [False]


def test_a_file_that_is_broken_for_a_moment_keeps_what_it_said(tmp_path: Path) -> None:
    file = put(tmp_path / "x.json", a={"command": "a"})
    watch = watched(file)
    file.write_text('{"mcpServers": {\n"a": {"comm')
    change = watch.check()
    assert change is not None and not (change.added or change.removed or change.changed)
    [text] = change.warnings
    assert text.startswith(f"{file}:2: ") and text.endswith("still counts")
    assert [entry.key for entry in watch.config.entries] == ["a"]
    assert watch.check() is None
    put(file, a={"command": "a"}, b={"command": "b"})
    change = watch.check()
    assert change is not None and [entry.key for entry in change.added] == ["b"]
    assert watch.config.warnings == ()


def test_a_file_that_goes_keeps_what_it_said(tmp_path: Path) -> None:
    file = put(tmp_path / "x.json", a={"command": "a"})
    watch = watched(file)
    file.unlink()
    change = watch.check()
    assert change is not None and "cannot be read" in change.warnings[0] and not change.removed
    put(file)
    change = watch.check()
    assert change is not None and [entry.key for entry in change.removed] == ["a"]


def test_an_env_file_is_watched_too(tmp_path: Path) -> None:
    env = tmp_path / "x.env"
    file = put(tmp_path / "x.json", a={"command": "a", "envFile": str(env)}, b={"command": "b"})
    watch = watched(file)
    assert watch.config.entries[0].problem is not None
    env.write_text("A=1\n")
    change = watch.check()
    assert change is not None
    [(_, after)] = change.changed
    assert after.spec is not None and after.spec.env == {"A": "1"}
    env.write_text("A=22\n")
    change = watch.check()
    assert change is not None and len(change.changed) == 1


def test_of_two_files_the_first_counts_until_it_drops_the_server(tmp_path: Path) -> None:
    first, second = put(tmp_path / "1.json", a={"command": "1"}), put(tmp_path / "2.json", a={"command": "2"})
    watch = watched(first, second)
    assert "that one counts" in watch.config.warnings[0]
    put(first)
    change = watch.check()
    assert change is not None
    [(_, after)] = change.changed
    assert after.spec is not None and after.spec.command == ("2",)


def test_a_file_that_is_put_in_place_as_a_whole_again_and_again(tmp_path: Path) -> None:
    real = put(tmp_path / "dotfiles.json", a={"command": "a"})
    link = tmp_path / "x.json"
    link.symlink_to(real)
    watch = watched(link)
    for number in range(3):
        os.replace(put(tmp_path / "draft", a={"command": str(number)}), real)
        change = watch.check()
        assert change is not None and [after.key for _, after in change.changed] == ["a"]
    other = put(tmp_path / "other.json", b={"command": "b"})
    (tmp_path / "new").symlink_to(other)
    os.replace(tmp_path / "new", link)
    change = watch.check()
    assert change is not None and [entry.key for entry in change.added] == ["b"]


def test_a_file_that_need_not_be_there_yet(tmp_path: Path) -> None:
    first, later = put(tmp_path / "1.json", a={"command": "1"}), tmp_path / "2.json"
    watch = ConfigWatch(first, environ={"HOME": str(tmp_path)}, optional=[later])
    assert [entry.key for entry in watch.config.entries] == ["a"] and watch.check() is None
    put(later, a={"command": "2"}, b={"command": "2"})
    change = watch.check()
    assert change is not None and [entry.key for entry in change.added] == ["b"] and not change.changed
    later.unlink()
    change = watch.check()
    assert change is not None and not change.removed and "still counts" in change.warnings[0]


def test_a_file_must_be_readable_at_first(tmp_path: Path) -> None:
    with pytest.raises(BadConfig):
        watched(tmp_path / "nothing.json")


async def first_change(watch: ConfigWatch) -> list[str]:
    changes = watch.changes(every=0.01)
    try:
        async for change in changes:
            return [entry.key for entry in change.added]
    finally:
        await changes.aclose()
    return []


def test_changes_arrive_by_themselves(tmp_path: Path) -> None:
    file = put(tmp_path / "x.json", a={"command": "a"})

    async def main() -> list[str]:
        waiting = asyncio.create_task(first_change(watched(file)))
        await asyncio.sleep(0)
        put(file, a={"command": "a"}, b={"command": "b"})
        async with asyncio.timeout(30):
            return await waiting

    assert asyncio.run(main()) == ["b"]
