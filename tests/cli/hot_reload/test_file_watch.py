"""Which files count as a server's sources, and what a change of them is."""

from pathlib import Path

from dovetail.cli.hot_reload import file_watch


def plant(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")


def test_python_files_count_and_those_of_others_do_not(tmp_path: Path) -> None:
    ours = {"a.py", "b/c.py", "b/d/e.py"}
    plant(
        tmp_path,
        *ours,
        "note.txt",
        ".git/x.py",
        "env/lib/x.py",
        "env/pyvenv.cfg",
        "node_modules/x.py",
        "b/__pycache__/x.py",
    )
    assert {str(Path(path).relative_to(tmp_path)) for path in file_watch.scan_files(str(tmp_path))} == ours


def test_a_loop_of_links_and_great_depth_end(tmp_path: Path) -> None:
    plant(tmp_path, "a.py", "1/2/3/4/5/6/deep.py")
    (tmp_path / "1" / "again").symlink_to(tmp_path, target_is_directory=True)
    assert len(file_watch.scan_files(str(tmp_path))) == 1


def test_added_removed_and_modified_files_are_found(tmp_path: Path) -> None:
    plant(tmp_path, "a.py", "b.py", "c.py")
    before = file_watch.scan_files(str(tmp_path))
    assert file_watch.changed_files(before, file_watch.scan_files(str(tmp_path))) == []
    (tmp_path / "a.py").write_text("x = 22\n")
    (tmp_path / "b.py").unlink()
    plant(tmp_path, "d.py")
    found = file_watch.changed_files(before, file_watch.scan_files(str(tmp_path)))
    assert [Path(path).name for path in found] == ["a.py", "b.py", "d.py"]


def test_files_that_cannot_be_read_as_python_are_named(tmp_path: Path) -> None:
    plant(tmp_path, "a.py")
    (tmp_path / "b.py").write_text("def (:\n")
    (tmp_path / "c.py").write_bytes(b"x = '\x00'\n")
    assert file_watch.syntax_error([str(tmp_path / "a.py"), str(tmp_path / "gone.py")]) is None
    assert "b.py" in str(file_watch.syntax_error([str(tmp_path / "b.py")]))
    assert "c.py" in str(file_watch.syntax_error([str(tmp_path / "c.py")]))


def test_a_folder_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert file_watch.scan_files(str(tmp_path / "none")) == {}
