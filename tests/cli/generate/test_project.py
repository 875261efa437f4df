"""`dovetail init`: the project is created for real, and passes its own tests, ruff and pyright."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dovetail.cli.generate.project import project_files, project_names
from tests.cli.invoke import dovetail, environment


def run(folder: Path, *words: str) -> str:
    """Run a tool of this environment in a project; returns its output if it succeeds."""
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_new_project_is_green_and_its_server_answers(tmp_path: Path) -> None:
    done = dovetail("init", "Text_Tools", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "Created text-tools with 9 files. Next:",
        "  cd Text_Tools",
        "  dovetail dev src/text_tools/server.py",
        "  pytest",
        "The tools are in src/text_tools/server.py.",
    ]
    project = tmp_path / "Text_Tools"
    for target in ("src/text_tools/server.py", "."):
        called = dovetail("call", target, "measure_text", "text=two words", cwd=project)
        assert json.loads(called.out) == {"words": 2, "characters": 9}
    assert " passed" in run(project, "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    run(project, "ruff", "check", ".")
    run(project, "ruff", "format", "--check", ".")
    run(project, "pyright", "--pythonpath", sys.executable)


@pytest.mark.parametrize("http", [True, False])
@pytest.mark.parametrize("name", ["a", "x" * 40])
def test_every_project_is_formatted(name: str, http: bool, tmp_path: Path) -> None:
    dovetail("init", name, *(["--http"] if http else []), cwd=tmp_path)
    for words in (["check"], ["format", "--check"]):
        run(tmp_path / name, "ruff", *words, ".")


def test_a_project_over_http_says_so_everywhere() -> None:
    files = project_files(project_names("web"), http=True)
    assert tomllib.loads(files["pyproject.toml"])["project"]["dependencies"] == ["dovetail-mcp[http]"]
    assert 'server.run("http", port=8000)' in files["src/web/server.py"]
    assert '"url": "http://127.0.0.1:8000/mcp"' in files["README.md"]
    assert not any("@NAME@" in text or "@RUN@" in text for text in files.values())


@pytest.mark.parametrize(("http", "line"), [(False, "path/to/checkout"), (True, "'path/to/checkout[http]'")])
def test_the_readme_says_where_dovetail_comes_from(http: bool, line: str) -> None:
    assert f"`pip install {line}`" in project_files(project_names("web"), http=http)["README.md"]


def test_a_folder_with_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "notes.txt").touch()
    done = dovetail("init", "shop", cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert done.err == "dovetail: shop is not empty (notes.txt): name a new folder\n"
    assert [path.name for path in (tmp_path / "shop").iterdir()] == ["notes.txt"]


def test_this_folder_may_be_a_repository_without_files(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    result = dovetail("init", ".", "--format", "json", cwd=folder).result
    assert result["folder"] == str(folder) and "src/shop/server.py" in result["files"]
    assert (folder / "src" / "shop" / "server.py").is_file()


@pytest.mark.parametrize("name", ["1st", "a b", "-x", "é", "json", "class", "dovetail", "x" * 41, "a-"])
def test_a_name_that_cannot_be_imported_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a project"):
        project_names(name)
