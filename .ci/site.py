"""What the site needs besides the pages: the decisions in its menu, and the examples as pages of their own."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\(\.\./examples/(\w+)\.py\)")


def on_config(config: Any) -> Any:
    """Name all decisions in the menu."""
    config.nav.append({"Decisions": [f"adr/{path.name}" for path in sorted((ROOT / "docs" / "adr").glob("*.md"))]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each example."""
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = f"# {path.name}\n\n```python\n{path.read_text()}```\n"
        files.append(File.generated(config, f"examples/{path.stem}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to examples to these pages."""
    return LINK.sub(r"](examples/\1.md)", markdown)
