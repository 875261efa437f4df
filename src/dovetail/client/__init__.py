"""Client: requests to servers of any era, over any transport.

    from dovetail.client import EnterpriseLogin, WorkloadIdentity

`Client`, `OAuth` and `ClientCredentials` are names of `dovetail` itself. Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail import lazily

if TYPE_CHECKING:
    from dovetail.client.auth.grants import EnterpriseLogin, Grant, WorkloadIdentity
    from dovetail.client.negotiation import EraCache

_HOMES = {
    "EnterpriseLogin": "client.auth.grants",
    "EraCache": "client.negotiation",
    "Grant": "client.auth.grants",
    "WorkloadIdentity": "client.auth.grants",
}

__all__ = ["EnterpriseLogin", "EraCache", "Grant", "WorkloadIdentity"]


__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
