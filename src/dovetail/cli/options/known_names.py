"""Names of tools, resources and prompts that commands have seen, for shell completion.

To ask a server at the press of a key would start it. So `dovetail list` and `dovetail call` remember the names, in the
user's cache folder. Of a target only a hash is kept: a command or a URL may contain secrets.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from dovetail.userdata.folders import cache_folder

NameKind: TypeAlias = Literal["tools", "resources", "prompts"]
_Names: TypeAlias = "dict[str, dict[str, list[str]]]"

MAX_TARGETS = 100
MAX_NAMES = 1_000
"""Of one kind at one target."""
MAX_FILE_BYTES = 4_000_000
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,199}")
"""Names that mean nothing else to any shell."""


def remember_names(target: str, kind: NameKind, names: Iterable[str]) -> None:
    """Keep the names of a target; the targets that were unused longest are forgotten."""
    import msgspec

    from dovetail.userdata.private_file import write_private

    safe = [name for name in names if is_safe_name(name)][:MAX_NAMES]
    kept, key = _read(), _key(target)
    found = kept.get(key, {})
    if found.get(kind) == safe:
        return
    kept.pop(key, None)
    kept[key] = {**found, kind: safe}
    while len(kept) > MAX_TARGETS:
        del kept[next(iter(kept))]
    with contextlib.suppress(OSError):  # completion is a convenience
        path = names_file()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, msgspec.json.encode(kept))


def known_names(target: str, kind: NameKind) -> list[str]:
    """The names of a kind that were last seen at a target."""
    return [name for name in _read().get(_key(target), {}).get(kind, []) if is_safe_name(name)]


def is_safe_name(name: str) -> bool:
    """True if a name means nothing else to any shell."""
    return _SAFE.fullmatch(name) is not None


def names_file() -> Path:
    """The file with the names."""
    return cache_folder() / "names.json"


def _key(target: str) -> str:
    """The hash of a target; a file is the same from every folder."""
    word = os.path.abspath(target) if os.path.exists(target) else target
    return hashlib.sha256(word.encode(errors="surrogateescape")).hexdigest()[:32]


def _read() -> _Names:
    import msgspec

    try:
        with names_file().open("rb") as file:
            return msgspec.json.decode(file.read(MAX_FILE_BYTES), type=dict[str, dict[str, list[str]]])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
