"""Roots: what may be one, and which of them a server gets to see."""

import os
from pathlib import Path
from typing import Any

import pytest

from dovetail.client.roots import check_roots, readable_roots
from dovetail.protocol.errors import LocalError
from dovetail.types.client_features import Root


def uris(*given: Any) -> list[str]:
    return [root.uri for root in readable_roots(given)]


class TestFinding:
    def test_a_path_becomes_a_file_uri_with_a_name(self, tmp_path: Path):
        folder = tmp_path / "my project"
        folder.mkdir()
        assert readable_roots([folder, str(folder)]) == [Root(folder.as_uri(), "my project")]
        assert "my%20project" in folder.as_uri()

    def test_a_file_is_a_root_as_well(self, tmp_path: Path):
        file = tmp_path / "a.txt"
        file.touch()
        assert uris(file) == [file.as_uri()]

    def test_a_file_uri_is_read_and_written_anew(self, tmp_path: Path):
        folder = tmp_path / "ü"
        folder.mkdir()
        assert uris(folder.as_uri(), "file://localhost" + folder.as_uri()[7:]) == [folder.as_uri()]
        assert readable_roots([Root(folder.as_uri(), "Mine")]) == [Root(folder.as_uri(), "Mine")]

    def test_what_is_not_there_is_left_out_until_it_is(self, tmp_path: Path):
        late = tmp_path / "late"
        assert uris(late, tmp_path) == [tmp_path.as_uri()]
        late.mkdir()
        assert uris(late, tmp_path) == [late.as_uri(), tmp_path.as_uri()]

    def test_what_may_not_be_read_is_left_out(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        closed = tmp_path / "closed"
        closed.mkdir()
        # The test may run as root, who may read everything: the system's answer is given by hand.
        monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("closed"))
        assert uris(closed, tmp_path) == [tmp_path.as_uri()]

    def test_links_and_dots_are_resolved(self, tmp_path: Path):
        real = tmp_path / "real"
        real.mkdir()
        (tmp_path / "link").symlink_to(real)
        assert uris(tmp_path / "link", f"{tmp_path}/x/../real", f"file://{tmp_path}/%2e/real") == [real.as_uri()]

    def test_home_is_found(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / "project").mkdir()
        assert uris("~/project") == [(tmp_path / "project").as_uri()]

    def test_a_relative_path_is_one_from_here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(tmp_path)
        assert uris(".") == [tmp_path.as_uri()]


class TestChecking:
    @pytest.mark.parametrize("root", ["https://example.com/x", "ftp://h/x", Root("/tmp"), Root("git:x")])
    def test_only_files_are_roots(self, root: Any):
        with pytest.raises(LocalError, match="path or a file URI"):
            check_roots([root])

    @pytest.mark.parametrize("root", ["file://server/share", "file:relative", "file:///a?b", "file:///a#b", "file://"])
    def test_only_places_on_this_machine_are_roots(self, root: str):
        with pytest.raises(LocalError, match="a place on this machine"):
            check_roots([root])

    @pytest.mark.parametrize("root", ["", "a\0b", "file:///a%00b"])
    def test_what_is_no_path_is_refused(self, root: str):
        with pytest.raises(LocalError, match="not a path"):
            check_roots([root])

    def test_one_path_is_no_list(self):
        with pytest.raises(LocalError, match="roots is a list"):
            check_roots("/tmp")

    def test_what_is_not_there_may_come(self, tmp_path: Path):
        check_roots([tmp_path / "later"])
