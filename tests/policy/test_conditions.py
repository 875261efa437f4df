"""What rules ask of arguments; above all, whether a path is under a folder."""

import os
from pathlib import Path
from typing import Any

import pytest

from dovetail.policy.conditions import ABSENT, Equals, Like, OneOf, Outside, Under, all_hold, any_holds, values_at

ARGUMENTS = {
    "path": "/a",
    "a.b": 1,
    "a": {"b": 2, "c/d": 3, "~": 4},
    "items": [{"id": 1}, {"id": 2}],
    "*": "star",
}


@pytest.mark.parametrize(
    ("place", "values"),
    [
        ("path", ["/a"]),
        ("/path", ["/a"]),
        ("a.b", [1, 2]),
        ("/a/b", [2]),
        ("/a/c~1d", [3]),
        ("/a/~0", [4]),
        ("items.*.id", [1, 2]),
        ("/items/1/id", [2]),
        ("items.9.id", []),
        ("items.-1", []),
        ("nothing", []),
        ("path.x", []),
        ("/*", list(ARGUMENTS.values())),
    ],
)
def test_a_place_gives_the_values_that_it_leads_to(place: str, values: list[Any]) -> None:
    assert [value for value in values_at(ARGUMENTS, place) if value is not ABSENT] == values


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        (Equals(1), 1, True),
        (Equals(1), 1.0, True),
        (Equals(1), True, False),
        (Equals(True), 1, False),
        (Equals(None), None, True),
        (Equals({"a": [1]}), {"a": [1]}, True),
        (Equals({"a": [1]}), {"a": [True]}, False),
        (Equals("x"), "X", False),
        (OneOf(("a", "b")), "b", True),
        (OneOf(("a", "b")), "c", False),
        (OneOf(()), None, False),
        (Like("re*"), "read", True),
        (Like("*"), 5, False),
    ],
)
def test_values(condition: Equals | OneOf | Like, value: Any, holds: bool) -> None:
    assert condition.holds(value) is holds


class TestUnder:
    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        folder = tmp_path / "project"
        (folder / "sub").mkdir(parents=True)
        (tmp_path / "project2").mkdir()
        (tmp_path / "secret").write_text("s")
        (folder / "link").symlink_to(tmp_path / "secret")
        (folder / "out").symlink_to(tmp_path)
        (tmp_path / "way-in").symlink_to(folder)
        return folder

    @pytest.mark.parametrize("path", ["", "/", "/sub", "/sub/../new.txt", "/not/there/yet", "/sub/./x"])
    def test_within(self, project: Path, path: str) -> None:
        assert Under(str(project)).holds(f"{project}{path}")
        assert not Outside(str(project)).holds(f"{project}{path}")

    @pytest.mark.parametrize(
        "path",
        [
            "2",  # the prefix of another folder's name (CVE-2025-53110)
            "2/x",
            "/../secret",
            "/sub/../../secret",
            "/link",  # a link out of the folder (CVE-2025-53109)
            "/out/secret",
            "/out/not-there-yet",
            "\0/x",
            "/../project2/x",
        ],
    )
    def test_outside(self, project: Path, path: str) -> None:
        assert not Under(str(project)).holds(f"{project}{path}")
        assert Outside(str(project)).holds(f"{project}{path}")

    @pytest.mark.parametrize("value", ["sub", "./sub", "", "~/x", None, 5, ["/a"], {"path": "/a"}, "C:\\x", "~root"])
    def test_what_is_no_absolute_path_is_nowhere(self, project: Path, value: Any) -> None:
        assert not Under(str(project)).holds(value)
        assert not Under("/").holds(value)
        assert Outside("/").holds(value)

    def test_a_link_into_the_folder_leads_there(self, project: Path) -> None:
        assert Under(str(project)).holds(str(project.parent / "way-in" / "sub"))
        assert Under(str(project.parent / "way-in")).holds(str(project / "sub"))

    def test_uris_of_files(self, project: Path) -> None:
        under = Under(str(project))
        assert under.holds(f"file://{project}/sub")
        assert under.holds(f"file://localhost{project}/sub")
        assert not under.holds(f"file://{project}/%2e%2e/secret")
        assert not under.holds(f"file://{project}%2f..%2fsecret")
        assert not under.holds(f"file://elsewhere{project}/sub")
        assert not under.holds(f"file:///{project.name}")
        assert not under.holds(f"https://x{project}/sub")

    def test_the_users_folder(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(project.parent))
        assert Under("~/project").holds(str(project / "x"))
        assert not Under("~/project").holds("~/project/x"), "only a shell knows what ~ is"

    def test_capital_letters_are_what_the_file_system_takes_them_for(self, project: Path) -> None:
        shouted = project.parent / "PROJECT"
        assert Under(str(project)).holds(f"{shouted}/x") is shouted.exists()
        assert Outside(str(project)).holds(f"{shouted}/x") is not shouted.exists()

    def test_the_working_directory_does_not_change_what_a_path_means(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(project)
        assert not Under(os.getcwd()).holds("sub")


def test_to_allow_all_must_hold_and_to_deny_any() -> None:
    paths = {"paths": ["/a/x", "/etc/passwd"]}
    assert not all_hold(Under("/a"), paths, "paths.*")
    assert any_holds(Under("/a"), paths, "paths.*")
    assert any_holds(Outside("/a"), paths, "paths.*")
    assert not all_hold(Under("/a"), {"paths": []}, "paths.*"), "nothing there is nothing to rely on"
    assert any_holds(Outside("/a"), {}, "paths.*"), "what is missing the server chooses"
    assert not any_holds(Under("/a"), {}, "paths.*")


@pytest.mark.parametrize(
    ("place", "arguments"),
    [
        ("options.mode", {"options.mode": "safe", "options": {"mode": "force"}}),
        ("options.mode", {"options.mode": "force", "options": {"mode": "safe"}}),
        ("items.*.mode", {"items": {"*": {"mode": "safe"}, "x": {"mode": "force"}}}),
        ("mode", {"mode": ["force"]}),
        ("mode", {"mode": {"is": ["safe", ["force"]]}}),
        ("mode", {"mode": "\uff46orce"}),
        ("mode", {"mode": [[]] * 20_000}),
    ],
)
def test_no_decoy_hides_a_value(place: str, arguments: dict[str, Any]) -> None:
    assert any_holds(Equals("force"), arguments, place)
    assert not all_hold(Equals("safe"), arguments, place)


@pytest.mark.parametrize(
    "items", [[{"path": "/a/x"}, "/etc/passwd"], [{"path": "/a/x"}, {"Path": "/etc/passwd"}], [{"path": "/a"}, []]]
)
def test_an_item_that_has_nothing_there_is_nothing_to_rely_on(items: list[Any]) -> None:
    assert not all_hold(Under("/a"), {"items": items}, "items.*.path")
    assert any_holds(Outside("/a"), {"items": items}, "items.*.path")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/../etc/passwd",
        "file:///etc/passwd?x",
        "file://LOCALHOST/etc/passwd",
        "file:///%65tc/passwd#x",
        " /etc/passwd",
        "../../etc/passwd",
        "a/..\\..\\etc",
        ["/ok", ["/etc/passwd"]],
    ],
)
def test_what_may_lead_into_a_folder_is_enough_to_deny(path: Any) -> None:
    assert any_holds(Under("/etc"), {"path": path}, "path")
    assert not all_hold(Under("/etc/.."), {"path": [path]}, "path")


def test_the_home_of_the_user_may_be_written_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert any_holds(Under("~/.ssh"), {"path": "~/.ssh/id_rsa"}, "path")
    assert not any_holds(Under("~/.ssh"), {"path": "~/notes"}, "path")
    assert not any_holds(Under("~/.ssh"), {"path": "notes"}, "path")
    assert not any_holds(Under("~/.ssh"), {"path": "file://[::1"}, "path")


@pytest.mark.attack("L13")
@pytest.mark.parametrize(
    "path",
    [
        "/etc\0/passwd",
        "/e\0tc/passwd",
        "\uff0fetc\uff0fpasswd",
        "/\uff45tc/passwd",
        "/%65tc/passwd",
        "%2Fetc%2Fpasswd",
        "/%2565tc/passwd",
        '"/etc/passwd"',
        "'/etc/passwd'",
        "`/etc/passwd`",
        ' "/%65tc/passwd" ',
        '"file:///etc/passwd"',
        "%252Fetc%252Fpasswd",
        "x/%2e%2e/%2e%2e/etc/passwd",
        "\uff0e\uff0e/etc/passwd",
        "$L13_FOLDER/passwd",
        "%" + "25" * 60 + "2Fetc",
    ],
)
def test_a_path_in_another_form_is_enough_to_deny_and_not_to_allow(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L13_FOLDER", "/etc")
    assert any_holds(Under("/etc"), {"path": path}, "path")
    assert not all_hold(Under("/etc"), {"path": path}, "path")


@pytest.mark.parametrize(
    "path", ["notes", "/home/100%/x", "50% of it", '"quoted"', "/srv/\uff0f", "$UNKNOWN_VARIABLE/x", "a" * 200_000]
)
def test_a_path_elsewhere_is_not_denied_for_its_form(path: str) -> None:
    assert not any_holds(Under("/etc"), {"path": path}, "path")
