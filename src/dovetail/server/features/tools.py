"""Tools: their definitions, and calling them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

import msgspec

from dovetail.protocol.errors import INVALID_PARAMS, LocalError, ProtocolError, ToolError, URLElicitationRequired
from dovetail.protocol.names import check_tool_name
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.revisions.wrapping import is_object_schema
from dovetail.runtime.concurrency import PerLoopSemaphore
from dovetail.server.context import RequestContext
from dovetail.server.invocation import Invocation
from dovetail.server.signatures.results import NotJson
from dovetail.server.signatures.signature import BadArguments, BadResult, ToolBinding, json_builtins, tool_binding
from dovetail.types.capabilities import Icon
from dovetail.types.client_features import InputRequired
from dovetail.types.content import Content, Text
from dovetail.types.serialization import Value
from dovetail.types.tools import CallToolResult, Tool, ToolAnnotations, ToolExecution

from .invoke import call_handler, describe_failure, make_context

if TYPE_CHECKING:
    from dovetail.server.tasks.options import TaskOptions

logger = logging.getLogger("dovetail")

_json = msgspec.json.Encoder().encode


class RegisteredTool:
    """A function with its schemas, argument binding and limits, all made at registration."""

    def __init__(
        self,
        function: Callable[..., Any],
        binding: ToolBinding,
        definition: Tool,
        timeout: float | None,
        concurrency: int | None,
    ) -> None:
        self.function = function
        self.binding = binding
        self.definition = definition
        self.timeout = timeout
        self.scopes: tuple[str, ...] = ()
        self.task: TaskOptions | None = None
        """The rules by which calls become tasks; None if they never do."""
        self.concurrency = concurrency
        self._semaphore = None if concurrency is None else PerLoopSemaphore(concurrency)
        self.unlimited = binding.is_async and timeout is None and concurrency is None
        schema = binding.output_schema
        self._wrapped = schema is not None and not is_object_schema(schema)

    async def invoke(self, invocation: Invocation, arguments: dict[str, Any]) -> CallToolResult | InputRequired:
        """Call the tool; an exception of its handler becomes an `isError` result (tools, "Error Handling")."""
        binding = self.binding
        try:
            values = binding.bind(arguments)
        except BadArguments as problem:
            return self._refuse(invocation.call.terms.revision, problem)
        if binding.context_name is not None:
            values[binding.context_name] = make_context(binding, invocation)
        try:
            if self.unlimited:
                value = await self.function(**values)
            else:
                value = await self._limited(invocation, values)
            return self._result(value)
        except URLElicitationRequired as problem:
            return await self._open_page(problem, invocation)
        except BaseException as problem:
            return self._failed(problem, invocation)

    def check_arguments(self, revision: Revision, arguments: dict[str, Any]) -> None:
        """Refuse invalid arguments where that is an error of the request, before it becomes a task."""
        if revision.bad_arguments == "error":
            try:
                self.binding.bind(arguments)
            except BadArguments as problem:
                self._refuse(revision, problem)

    async def _open_page(
        self, problem: URLElicitationRequired, invocation: Invocation
    ) -> CallToolResult | InputRequired:
        from .url_elicitation import page_required

        try:
            return await page_required(problem, invocation)
        except BaseException as refusal:
            return self._failed(refusal, invocation)

    def _failed(self, problem: BaseException, invocation: Invocation) -> CallToolResult:
        if isinstance(problem, ToolError):
            return failed(str(problem))
        subject = f"Tool {self.name!r}"
        if isinstance(problem, BadResult):
            invocation.call.problem = problem
            if isinstance(problem, NotJson):
                logger.error("%s failed: %s", subject, problem)
                return failed(f"The tool returned a value that cannot be sent: {problem}")
            logger.error("%s returned something else than it promises: %s", subject, problem)
            return failed(f"The tool returned something else than it promises: {problem}")
        text = describe_failure(problem, invocation, subject)
        if isinstance(problem, asyncio.CancelledError):
            return failed(f"{subject} was cancelled by its own code")
        return failed(text if str(problem) else type(problem).__name__)

    @property
    def name(self) -> str:
        """The name in `tools/call`."""
        return self.definition.name

    def allowed(self, scopes: frozenset[str] | None) -> bool:
        """True if it may be called with a token of these scopes; without authorization it always may."""
        return scopes is None or scopes.issuperset(self.scopes)

    def _refuse(self, revision: Revision, problem: BadArguments) -> CallToolResult:
        if revision.bad_arguments == "error":
            raise ProtocolError(INVALID_PARAMS, f"Invalid arguments for tool {self.name!r}: {problem}")
        return failed(f"Invalid arguments for tool {self.name!r}: {problem}")

    async def _limited(self, invocation: Invocation, values: dict[str, Any]) -> Any:
        if self._semaphore is None:
            return await self._timed(invocation, values, None)
        semaphore = self._semaphore.current()
        if not self.binding.is_async:
            # A thread cannot be stopped: it holds its place until it has ended, not until its call has.
            await semaphore.acquire()
            return await self._timed(invocation, values, semaphore.release)
        async with semaphore:
            return await self._timed(invocation, values, None)

    async def _timed(self, invocation: Invocation, values: dict[str, Any], ended: Callable[[], None] | None) -> Any:
        if self.timeout is None:
            return await call_handler(self.function, self.binding, values, invocation, ended)
        clock = asyncio.timeout(self.timeout)
        try:
            async with clock:
                return await call_handler(self.function, self.binding, values, invocation, ended)
        except TimeoutError:
            if clock.expired():
                raise ToolError(f"Tool {self.name!r} did not finish within {self.timeout:g} s") from None
            raise

    def _result(self, value: Any) -> CallToolResult | InputRequired:
        if isinstance(value, (CallToolResult, InputRequired)):
            return cast("CallToolResult | InputRequired", value)
        if self.binding.output_schema is None:
            return _unpromised(self.binding.check_result(value), self.binding.is_structured)
        data = self.binding.check_result(value)
        text = data if isinstance(data, str) else _json(data).decode()
        return CallToolResult([Text(text)], structured_content=data, wrapped=self._wrapped)


def _unpromised(value: Any, is_structured: bool) -> CallToolResult:
    """The result of a tool without an output schema: content as it is, text as text, the rest as JSON."""
    if value is None:
        return CallToolResult([])
    if isinstance(value, str):
        return CallToolResult([Text(value)])
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        if any(isinstance(item, Value) for item in items):
            return CallToolResult([_block(item) for item in items])
    if isinstance(value, Value):
        return CallToolResult([_block(value)])
    data = json_builtins(value)
    if not is_structured:
        return CallToolResult([Text(data if isinstance(data, str) else _json(data).decode())])
    return CallToolResult([Text(_json(data).decode())], structured_content=data, wrapped=not isinstance(data, dict))


def _block(item: Any) -> Content:
    if isinstance(item, Content):
        return item
    return Text(item if isinstance(item, str) else _json(item).decode())


def failed(text: str) -> CallToolResult:
    """An `isError` result with a text for the model."""
    return CallToolResult([Text(text)], is_error=True)


class ToolOptions(TypedDict, total=False):
    """Options of a tool."""

    name: str
    title: str
    description: str
    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool
    timeout: float
    """Seconds after which a call is stopped and fails."""
    concurrency: int
    """Number of calls that run at once; more wait."""
    scopes: Sequence[str]
    """Scopes that a token must have; without authorization, as over stdio, nothing is required."""
    icons: Iterable[Icon]
    meta: dict[str, Any]
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    """The schema of results; None is another way to write `structured=False`."""
    structured: bool
    """If False, results have no structured content and no output schema: they are sent as text only."""
    task: Literal["optional", "required"] | float
    """Calls may, or must, run as tasks; or become tasks if they still run after so many seconds."""
    resume: bool
    """A task may be begun again, from its journal, if the process that runs it dies; else it fails then."""
    ttl: float
    """Seconds for which a task is kept after its last change."""
    max_tasks: int
    """Tasks of the tool that may be open at once, over all clients; one more is refused."""
    lenient_arguments: bool
    """Repair mistakes of models in arguments, such as `"1"` for 1; by default what the server says."""


def make_tool(function: Callable[..., Any], **options: Unpack[ToolOptions]) -> RegisteredTool:
    """Make a tool of a function: inspect it once and build everything that does not change per call."""
    if unknown := options.keys() - ToolOptions.__annotations__.keys():
        from dovetail.server.other_names import TOOL_OPTIONS, unknown_options

        raise LocalError(unknown_options("A tool", unknown, TOOL_OPTIONS, ToolOptions.__annotations__))
    name = options.get("name") or getattr(function, "__name__", None)
    if not name or name == "<lambda>":
        raise LocalError("A tool needs a name: give name=… for a lambda or a callable object")
    if warning := check_tool_name(name):
        logger.warning("%s", warning)
    binding = tool_binding(
        function,
        context_type=RequestContext,
        input_schema=options.get("input_schema"),
        output_schema=_output_schema(name, options),
        description=options.get("description"),
        lenient_arguments=options.get("lenient_arguments", False),
    )
    icons = options.get("icons")
    definition = Tool(
        name,
        binding.input_schema,
        title=options.get("title"),
        description=binding.description,
        output_schema=binding.output_schema,
        annotations=_annotations(options),
        icons=list(icons) if icons else None,
        meta=options.get("meta"),
    )
    tool = RegisteredTool(function, binding, definition, options.get("timeout"), options.get("concurrency"))
    if options.keys() & {"task", "resume", "ttl", "max_tasks"}:
        _add_task_options(tool, options)
    if given := options.get("scopes"):
        tool.scopes = _scopes(given)
    return tool


def _add_task_options(tool: RegisteredTool, options: ToolOptions) -> None:
    from dovetail.server.tasks.options import task_options

    tool.task = task_options(
        tool.name, options.get("task"), options.get("resume"), options.get("ttl"), options.get("max_tasks")
    )
    if tool.task is not None:
        tool.definition.execution = ToolExecution(tool.task.support)


def _output_schema(name: str, options: ToolOptions) -> dict[str, Any] | msgspec.UnsetType | None:
    """The output schema as given, UNSET to make it from the return hint, or None for results as text only."""
    given, structured = options.get("output_schema", msgspec.UNSET), options.get("structured")
    if structured is None or structured is (given is not None):
        return given
    if structured:
        raise LocalError(f"Tool {name!r}: output_schema=None says the opposite of structured=True")
    if given is not msgspec.UNSET:
        raise LocalError(f"Tool {name!r}: a result without structured content has no output_schema; leave one out")
    return None


def _scopes(given: Sequence[str]) -> tuple[str, ...]:
    from dovetail.auth.scopes import check_scopes

    if isinstance(given, str):
        raise LocalError(f"A list of scopes is needed, not a text: [{given!r}]")
    return check_scopes(given)


def _annotations(options: ToolOptions) -> ToolAnnotations | None:
    annotations = ToolAnnotations(
        read_only_hint=options.get("read_only"),
        destructive_hint=options.get("destructive"),
        idempotent_hint=options.get("idempotent"),
        open_world_hint=options.get("open_world"),
    )
    return None if annotations == ToolAnnotations() else annotations
