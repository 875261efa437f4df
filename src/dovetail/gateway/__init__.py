"""Gateway: many servers of any revision behind one endpoint, for clients of any revision.

from dovetail import Gateway
from dovetail.gateway import Profile, ServerSettings
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail import lazily

if TYPE_CHECKING:
    from .gateway import Gateway
    from .settings import Profile, ServerSettings

__all__ = ["Gateway", "Profile", "ServerSettings"]

__getattr__ = lazily(
    __name__,
    {
        "Gateway": "gateway.gateway",
        "Profile": "gateway.settings",
        "ServerSettings": "gateway.settings",
    },
)
