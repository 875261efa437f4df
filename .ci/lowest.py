"""Print the lowest version of every direct dependency that pyproject.toml allows, as requirements for pip.

The extras that are installed with the package count too, or those that the arguments name. What only the tests need is
not pinned.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

EXTRAS = ("http", "redis", "otel", "keyring", "openai", "anthropic", "cli")
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)>=(?P<version>[0-9.]+)(?P<marker>\s*;.*)?")


def lowest(pyproject: Path, extras: Sequence[str] = EXTRAS) -> Iterator[str]:
    """Yield `name==version` for every requirement; one without a lower bound is an error."""
    project = tomllib.loads(pyproject.read_text())["project"]
    requirements: list[str] = [*project["dependencies"]]
    for extra in extras:
        requirements += project["optional-dependencies"][extra]
    for requirement in requirements:
        match = REQUIREMENT.fullmatch(requirement)
        if match is None:
            sys.exit(f"{pyproject}: '{requirement}' has no lower bound of the form name>=version")
        yield f"{match['name']}=={match['version']}{match['marker'] or ''}"


if __name__ == "__main__":
    sys.stdout.writelines(f"{pin}\n" for pin in lowest(PYPROJECT, sys.argv[1:] or EXTRAS))
