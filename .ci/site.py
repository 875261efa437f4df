"""Pages of the site that are not in docs/: the examples, the security policy, and the decisions in the menu."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = re.compile(r"\]\(\.\./examples/([\w/]+)\.py\)")


def on_config(config: Any) -> Any:
    """Name all decisions in the menu."""
    config.nav.append({"Decisions": [f"adr/{path.name}" for path in sorted((ROOT / "docs" / "adr").glob("*.md"))]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each example, and the security policy."""
    examples = ROOT / "examples"
    for path in sorted(examples.rglob("*.py")):
        name = path.relative_to(examples)
        text = f"# {name}\n\n```python\n{path.read_text()}```\n"
        files.append(File.generated(config, f"examples/{name.with_suffix('.md')}", content=text))
    policy = (ROOT / "SECURITY.md").read_text().replace("](docs/", "](")
    files.append(File.generated(config, "security-policy.md", content=policy))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links to files outside docs/ at these pages."""
    return EXAMPLE.sub(r"](examples/\1.md)", markdown).replace("](../SECURITY.md)", "](security-policy.md)")
