"""Gateway: many servers of any revision behind one endpoint, for clients of any revision.

from dovetail import Gateway
from dovetail.gateway import Profile, ServerSettings
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail import lazily

if TYPE_CHECKING:
    from .gateway import Gateway
    from .settings import AccountSettings, Credentials, Profile, SearchLimits, ServerSettings

__all__ = ["AccountSettings", "Credentials", "Gateway", "Profile", "SearchLimits", "ServerSettings"]

__getattr__ = lazily(
    __name__,
    {
        "AccountSettings": "gateway.settings",
        "Credentials": "gateway.settings",
        "Gateway": "gateway.gateway",
        "Profile": "gateway.settings",
        "SearchLimits": "gateway.settings",
        "ServerSettings": "gateway.settings",
    },
)
