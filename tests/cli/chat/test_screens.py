"""The pictures of the documentation are what the program shows today, at 80 and at 120 columns."""

import sys

import pytest

from docs.screens.host import IMAGES, SIZES, outdated, screens
from docs.screens.svg import static_svg

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is POSIX's")


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_the_pictures_of_the_host_are_up_to_date(columns: int, lines: int) -> None:
    frames = screens(columns, lines)
    drawn = {f"host-{name}-{columns}.svg": static_svg(frame, "dovetail host") for name, frame in frames.items()}
    assert outdated(drawn) == [], "look at the program, then run: python -m docs.screens.host --update"
    assert {path.name for path in IMAGES.glob(f"host-*-{columns}.svg")} == set(drawn)
