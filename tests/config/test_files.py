"""Where people's files are."""

from pathlib import Path

import pytest

from dovetail.config.files import default_file, find_files, product_of, user_files


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_all_of_them_the_projects_first(tmp_path: Path, platform: str) -> None:
    home, root, own = tmp_path / "home", tmp_path / "home" / "work", tmp_path / "own"
    settings = {"linux": own, "darwin": home / "Library/Application Support", "win32": home / "AppData/Roaming"}[
        platform
    ]
    here = root / "src"
    places = [
        here / ".mcp.json",
        root / "mcp.json",
        root / ".cursor/mcp.json",
        root / ".vscode/mcp.json",
        own / "dovetail/mcp.json",
        home / ".claude.json",
        home / ".cursor/mcp.json",
        settings / "Code/User/mcp.json",
        settings / "Claude/claude_desktop_config.json",
    ]
    for place in [root / ".git" / "HEAD", *places]:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("{}")
    found = find_files(home, here, platform, {"XDG_CONFIG_HOME": str(own)})
    assert [each.path for each in found] == places
    assert [each.product for each in found] == [
        *("claude-code", "dovetail", "cursor", "vscode"),
        *("dovetail", "claude-code", "cursor", "vscode", "claude-desktop"),
    ]
    assert [each.scope for each in found] == ["project"] * 4 + ["user"] * 5


def test_a_users_file_is_no_projects_file(tmp_path: Path) -> None:
    file = tmp_path / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text("{}")
    assert [each.scope for each in find_files(tmp_path, tmp_path, environ={})] == ["user"]


def test_the_file_that_is_edited(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "own")}
    assert default_file(tmp_path, environ) == tmp_path / "own" / "dovetail" / "mcp.json"
    (tmp_path / "mcp.json").write_text("{}")
    assert default_file(tmp_path, environ) == tmp_path / "mcp.json"


def test_claude_desktop_as_a_package_of_windows(tmp_path: Path) -> None:
    environ = {"APPDATA": str(tmp_path / "Roaming"), "LOCALAPPDATA": str(tmp_path / "Local")}
    packaged = tmp_path / "Local/Packages/Claude_abc123/LocalCache/Roaming/Claude"
    packaged.mkdir(parents=True)
    found = [each.path for each in user_files(tmp_path, "win32", environ) if each.product == "claude-desktop"]
    assert [path.parent for path in found] == [packaged, tmp_path / "Roaming/Claude"]


def test_whose_file_it_is() -> None:
    names = [".mcp.json", "/h/.claude.json", "/p/.cursor/mcp.json", "/p/.vscode/mcp.json", "/p/mcp.json"]
    assert [product_of(name) for name in names] == ["claude-code", "claude-code", "cursor", "vscode", None]
