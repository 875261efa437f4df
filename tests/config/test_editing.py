"""Edits change what they are to change, and not a character more."""

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.config import editing
from dovetail.config.document import BadConfig, ConfigDocument
from dovetail.config.jsonc import parse, plain
from dovetail.protocol.errors import LocalError
from tests.config.test_jsonc import commented

TEXT = """{
  // my servers
  "mcpServers": {
    "a": {"command": "x"}, // about a
    /* b */ "b": {
      "command": "y" // last
    } // about b
  },
  "other": 1
}
"""

NEW = {"command": "z", "args": ["1"]}


@pytest.fixture(autouse=True)
def settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits take turns by a file in the user's folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("settings")))


def document(text: str) -> ConfigDocument:
    return ConfigDocument("mcp.json", text)


def test_a_server_is_added_after_the_last_and_its_comment() -> None:
    assert editing.put_server(document(TEXT), "c", NEW) == TEXT.replace(
        "    } // about b\n",
        '    }, // about b\n    "c": {\n      "command": "z",\n      "args": [\n        "1"\n      ]\n    }\n',
    )


def test_a_server_is_put_in_place_of_another() -> None:
    assert editing.put_server(document(TEXT), "a", {"url": "u"}) == TEXT.replace(
        '{"command": "x"}', '{\n      "url": "u"\n    }'
    )


def test_removed_first_last_and_all() -> None:
    first = editing.remove_server(document(TEXT), "a")
    assert first == TEXT.replace('"a": {"command": "x"}, // about a', "// about a")
    last = editing.remove_server(document(TEXT), "b")
    assert last == TEXT.replace('"x"}, //', '"x"} //').replace(
        '/* b */ "b": {\n      "command": "y" // last\n    } // about b', "/* b */ // about b"
    )
    none = editing.remove_server(document(first), "b")
    assert plain(parse(none)) == {"mcpServers": {}, "other": 1} and "// about a" in none


def test_a_line_goes_with_what_stood_on_it() -> None:
    text = editing.put_server(document(TEXT), "c", NEW)
    assert editing.remove_server(document(text), "c") == TEXT


def test_switched_off_and_on() -> None:
    off = editing.switch_off(document(TEXT), "b")
    assert off == TEXT.replace('"y" // last\n', '"y", // last\n      "disabled": true\n')
    assert editing.switch_off(document(off), "b") == off
    assert editing.switch_on(document(off), "b") == TEXT
    assert editing.switch_on(document(TEXT), "b") == TEXT
    assert editing.switch_off(document(TEXT.replace('"x"}', '"x", "disabled": false}')), "a") == TEXT.replace(
        '"x"}', '"x", "disabled": true}'
    )


def test_inputs_are_added_beside_the_servers_and_removed_when_nobody_wants_them() -> None:
    one = editing.put_input(document(TEXT), {"id": "k"})
    assert one == TEXT.replace('"other": 1\n', '"other": 1,\n  "inputs": [\n    {\n      "id": "k"\n    }\n  ]\n')
    two = editing.put_input(document(one), {"id": "l"})
    assert editing.input_ids(document(two)) == ["k", "l"]
    assert editing.remove_input(document(two), "l") == one
    assert editing.input_ids(document(editing.remove_input(document(two), "k"))) == ["l"]
    assert editing.remove_input(document(two), "m") == two
    wanted = two.replace('"x"', '"${input:k}"')
    assert editing.remove_input(document(wanted), "k") == wanted


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", {"mcpServers": {"q": NEW}}),
        ("{ // note\n}", {"mcpServers": {"q": NEW}}),
        ('{"servers": {"a": {}}}', {"servers": {"a": {}, "q": NEW}}),
        ('{"servers": {"a": {},},}', {"servers": {"a": {}, "q": NEW}}),
        ('{"mcp": {"servers": {}}}', {"mcp": {"servers": {"q": NEW}}}),
        ('\ufeff{"servers": {}}', {"servers": {"q": NEW}}),
    ],
)
def test_every_kind_of_file(before: str, after: Any) -> None:
    text = editing.put_server(document(before), "q", NEW)
    assert plain(document(text).root) == after
    assert text.startswith("\ufeff") == before.startswith("\ufeff")


def test_inputs_of_settings_stand_in_their_part() -> None:
    text = editing.put_input(document('{"mcp": {"servers": {}}}'), {"id": "k"})
    assert plain(parse(text)) == {"mcp": {"servers": {}, "inputs": [{"id": "k"}]}}


def test_the_way_of_the_file_is_kept() -> None:
    text = '{\r\n\t"servers": {\r\n\t\t"a": {}\r\n\t}\r\n}\r\n'
    assert editing.put_server(document(text), "q", {"url": "u"}) == text.replace(
        '"a": {}', '"a": {},\r\n\t\t"q": {\r\n\t\t\t"url": "u"\r\n\t\t}'
    )


KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SERVERS = st.dictionaries(KEYS, st.dictionaries(KEYS, st.integers() | KEYS, max_size=2), max_size=4)


@given(SERVERS, KEYS, st.data())
def test_any_file_with_any_comments(servers: dict[str, Any], key: str, data: st.DataObject) -> None:
    text = commented({"first": [1], "servers": servers, "last": {}}, data.draw)
    added = editing.put_server(document(text), key, NEW)
    assert plain(parse(added)) == {"first": [1], "servers": {**servers, key: NEW}, "last": {}}
    off = editing.switch_off(document(added), key)
    assert plain(parse(off))["servers"][key] == {**NEW, "disabled": True}
    assert plain(parse(editing.switch_on(document(off), key))) == plain(parse(added))
    removed = editing.remove_server(document(added), key)
    left = {name: value for name, value in servers.items() if name != key}
    assert plain(parse(removed)) == {"first": [1], "servers": left, "last": {}}
    more = editing.put_input(document(editing.put_input(document(added), {"id": "k"})), {"id": "l"})
    assert plain(parse(more))["inputs"] == [{"id": "k"}, {"id": "l"}]
    assert plain(parse(editing.remove_input(document(more), "k")))["inputs"] == [{"id": "l"}]


@given(SERVERS, KEYS)
def test_plain_json_stays_plain(servers: dict[str, Any], key: str) -> None:
    for indent in (None, 2):
        text = json.dumps({"mcpServers": servers}, indent=indent)
        added = editing.put_server(document(text), key, NEW)
        assert json.loads(added) == {"mcpServers": {**servers, key: NEW}}
        json.loads(editing.remove_server(document(added), key))


def test_what_is_not_there() -> None:
    with pytest.raises(LocalError, match="no server 'z'"):
        editing.remove_server(document(TEXT), "z")
    with pytest.raises(BadConfig, match="is no object"):
        editing.switch_off(document('{"servers": {"a": 1}}'), "a")
    with pytest.raises(BadConfig, match="are to be an object"):
        editing.put_server(document('{"servers": 1}'), "a", NEW)


class TestFiles:
    def test_a_new_file_is_the_users_alone(self, tmp_path: Path) -> None:
        file = tmp_path / "new" / "mcp.json"
        editing.edit_file(file, lambda before: editing.put_server(before, "a", NEW))
        assert json.loads(file.read_text()) == {"mcpServers": {"a": NEW}}
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert os.listdir(file.parent) == ["mcp.json"]

    def test_permissions_and_links_stay(self, tmp_path: Path) -> None:
        file, link = tmp_path / "real.json", tmp_path / "link.json"
        file.write_text(TEXT)
        file.chmod(0o640)
        link.symlink_to(file)
        editing.edit_file(link, lambda before: editing.switch_off(before, "a"))
        assert link.is_symlink() and "disabled" in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o640

    def test_a_file_that_cannot_be_read_is_left_alone(self, tmp_path: Path) -> None:
        file = tmp_path / "mcp.json"
        file.write_text("{ broken")
        with pytest.raises(BadConfig, match=r"mcp\.json:1"):
            editing.edit_file(file, lambda before: editing.put_server(before, "a", NEW))
        assert file.read_text() == "{ broken"

    def test_an_edit_that_breaks_the_file_is_not_written(self, tmp_path: Path) -> None:
        file = tmp_path / "mcp.json"
        file.write_text(TEXT)
        with pytest.raises(BadConfig):
            editing.edit_file(file, lambda before: before.text + "}")
        assert file.read_text() == TEXT and os.listdir(tmp_path) == ["mcp.json"]

    def test_what_somebody_else_wrote_meanwhile_is_not_lost(self, tmp_path: Path) -> None:
        file = tmp_path / "mcp.json"
        file.write_text(TEXT)

        def slow(before: ConfigDocument) -> str:
            file.write_text("{}")
            return editing.put_server(before, "c", NEW)

        with pytest.raises(BadConfig, match="somebody else"):
            editing.edit_file(file, slow)
        assert file.read_text() == "{}"

    def test_a_folder_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(BadConfig, match="cannot be written"):
            editing.edit_file(tmp_path / "file" / "mcp.json", lambda before: before.text)


def test_edits_at_once_take_turns(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(TEXT)

    def add(number: int) -> None:
        editing.edit_file(file, lambda before: editing.put_server(before, f"s{number}", NEW))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))
    assert set(editing.server_keys(document(file.read_text()))) == {"a", "b", *(f"s{number}" for number in range(24))}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_file_keeps_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(TEXT)
    os.chown(file, 12345, 54321)
    editing.edit_file(file, lambda before: editing.switch_off(before, "a"))
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 54321)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every file")
def test_a_read_only_file_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(TEXT)
    file.chmod(0o444)
    with pytest.raises(BadConfig, match="read-only"):
        editing.edit_file(file, lambda before: editing.switch_off(before, "a"))
    assert file.read_text() == TEXT


def test_the_inputs_that_a_server_wants() -> None:
    text = '{"servers": {"a": {"command": "${input:x}", "env": {"T": "${input:y}"}}, "b": {}}}'
    assert editing.wanted_inputs(document(text), "a") == ["x", "y"]
    assert editing.wanted_inputs(document(text), "b") == editing.wanted_inputs(document(text), "c") == []
