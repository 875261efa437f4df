"""The table of docs/portability.md is that of the code."""

import re
from pathlib import Path

from dovetail.schema.portability.rules import PROFILES, RULES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "portability.md").read_text()


def test_every_rule_is_on_the_page_with_its_date() -> None:
    rows = [tuple(line.strip("| ").split(" | ")) for line in PAGE.partition("## Rules")[2].splitlines()[4:]]
    assert rows == [
        (
            f"`{rule.id}`",
            ", ".join(PROFILES[profile] for profile in rule.profiles),
            rule.problem,
            rule.remedy,
            rule.source,
            rule.checked,
        )
        for rule in RULES
    ]


def test_every_program_is_on_the_page() -> None:
    assert re.findall(r"^\| `([\w-]+)` \| [^|]+ \|$", PAGE, re.MULTILINE) == list(PROFILES)
