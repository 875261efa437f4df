"""The animated picture of the README can be recorded from the program as it is now."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is POSIX's")


@pytest.mark.slow
def test_the_recording_of_the_readme_shows_a_call_an_approval_and_an_answer(tmp_path: Path) -> None:
    picture = tmp_path / "recording.svg"
    done = subprocess.run(
        [sys.executable, "-m", "docs.screens.readme_recording", str(picture), "--fast"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert picture.stat().st_size < 300_000
    shown = " ".join(ET.parse(picture).getroot().itertext())
    for text in (
        "forecast city=Lisbon",
        'May the tool "forecast" of "weather" be called?',
        "Tuesday is your day",
        "a hat.",
    ):
        assert text in shown, text


def test_the_readme_begins_with_the_recording() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "](docs/images/recording.svg)" in readme.partition("\n## ")[0]
    assert (ROOT / "docs" / "images" / "recording.svg").exists()
