"""A tool of a server behind the gateway whose calls may run as tasks, as the task engine of the gateway sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from dovetail.server.context import Context, RequestContext
from dovetail.server.features.tools import RegisteredTool
from dovetail.server.signatures.signature import tool_binding
from dovetail.server.tasks.options import TaskOptions
from dovetail.types.client_features import InputRequired
from dovetail.types.tools import CallToolResult, Tool

if TYPE_CHECKING:
    from dovetail.protocol.revisions.revision import Revision
    from dovetail.server.invocation import Invocation

    from .core import GatewayCore


async def _forwarded(ctx: Context) -> None:
    """Stand for the function of a tool, which is at its server."""


_BINDING = tool_binding(_forwarded, context_type=RequestContext)
_TASKS = TaskOptions("optional")


class ForwardedTool(RegisteredTool):
    """Runs as a task of the gateway: the server works on it, as a task of its own or not, while the gateway waits.

    So a client of either generation of tasks gets one, whatever generation the server has. A gateway that ends takes
    the wait with it: the task then fails with an unknown outcome, and the call is not sent again.
    """

    def __init__(
        self, core: GatewayCore, name: str, created: bytes | None = None, at_server: tuple[str, str] | None = None
    ) -> None:
        """`created` is the answer of the server if the call was sent already, and the server made a task of it."""
        super().__init__(_forwarded, _BINDING, Tool(name, {"type": "object"}), None, None)
        self._core, self._created = core, created
        self.at_server = at_server
        """The server, and the name that the tool has there, if they are known."""
        self.task = _TASKS

    async def invoke(self, invocation: Invocation, arguments: dict[str, Any]) -> CallToolResult | InputRequired:
        """Call the tool at its server; the result is a value, which is kept with the task."""
        from .methods import finish_tool, forward_tool

        if self._created is None:
            result = await forward_tool(self._core, self.name, invocation)
        else:
            result = await finish_tool(self._core, self.name, invocation, self._created)
        if isinstance(result, bytes):
            result = invocation.call.terms.revision.load_result("tools/call", msgspec.json.decode(result))
        if isinstance(result, InputRequired):
            return result
        assert isinstance(result, CallToolResult)
        return cast("CallToolResult[Any]", result)

    def check_arguments(self, revision: Revision, arguments: dict[str, Any]) -> None:
        """Leave it to the server, which knows its schema best."""


def requires_task(tool: Tool) -> bool:
    """True if a server of 2025-11-25 runs the tool as a task only."""
    return tool.execution is not None and tool.execution.task_support == "required"
