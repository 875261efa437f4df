"""Rewriting of what handlers do with their context."""

from __future__ import annotations

import ast

from dovetail.server.other_names import CONTEXT_MEMBERS, ELICIT_OPTIONS, SAMPLE_OPTIONS

from .edits import Arguments, Part, Span
from .workspace import Workspace

_LOG_LEVELS = ("debug", "info", "warning", "error")
_RENAMED = {
    "report_progress": "progress",
    "fastmcp": "server",
    "mcp_server": "server",
    "protocol_version": "revision",
    "lifespan_context": "lifespan",
    "input_responses": "answers",
    "request_state": "state",
    "list_roots": "roots",
}
_CHANGED = {
    "send_tool_list_changed": "notify_tools_changed",
    "send_resource_list_changed": "notify_resources_changed",
    "send_prompt_list_changed": "notify_prompts_changed",
    "notify_tools_changed": "notify_tools_changed",
    "notify_resources_changed": "notify_resources_changed",
    "notify_prompts_changed": "notify_prompts_changed",
    "send_resource_updated": "notify_resource_updated",
    "notify_resource_updated": "notify_resource_updated",
}
"""Awaited methods of contexts and sessions, with plain methods of servers."""

_SCALARS = frozenset({"str", "int", "float", "bool", "list", "dict", "bytes"})
_DEFAULT_MAX_TOKENS = 512
"""FastMCP's default."""


class Contexts:
    """Rewrites the members of contexts."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._source = workspace.source

    def rewrite(self) -> None:
        """Rewrite all uses of contexts, and type hints with arguments: contexts and servers are not generic here."""
        for node in self._workspace.walk(ast.Attribute):
            assert isinstance(node, ast.Attribute)
            kind = self._workspace.kind_of(node.value)
            if kind == "context":
                self._rewrite_member(node)
            elif kind == "our context":
                self._report_member(node)
        for node in self._workspace.walk(ast.Subscript):
            assert isinstance(node, ast.Subscript)
            if self._workspace.kind_of_class(node.value) in ("context", "server", "low-level"):
                self._source.replace(self._source.span(node), self._source.span(node.value))
                self._understand_within(node.slice)

    def _understand_within(self, node: ast.expr) -> None:
        for inner in ast.walk(node):
            self._workspace.understood.add(id(inner))

    def _call_of(self, node: ast.AST) -> ast.Call | None:
        parent = self._workspace.names.parent_of(node)
        return parent if isinstance(parent, ast.Call) and parent.func is node else None

    def _rewrite_member(self, node: ast.Attribute) -> None:
        name, call = node.attr, self._call_of(node)
        if name in _LOG_LEVELS and call is not None:
            self._rewrite_log(node, call)
        elif name in _CHANGED and call is not None:
            self._rewrite_changed(node, call, self._source.segment(node.value))
        elif name in _RENAMED:
            self._rename(node, _RENAMED[name])
        elif name == "elicit" and call is not None:
            self._rewrite_elicit(call)
        elif name == "sample" and call is not None:
            self._rewrite_sample(call)
        elif name in ("request_context", "session"):
            self._rewrite_inner(node)
        else:
            self._report_member(node)

    def _report_member(self, node: ast.Attribute) -> None:
        if node.attr in CONTEXT_MEMBERS:
            self._workspace.note(node, f"a context has no attribute {node.attr}", CONTEXT_MEMBERS[node.attr])

    def _rename(self, node: ast.Attribute, name: str) -> None:
        end = self._source.span(node).end
        self._source.replace(Span(end - len(node.attr), end), name)

    def _rewrite_log(self, node: ast.Attribute, call: ast.Call) -> None:
        arguments = self._workspace.arguments(call)
        owner = "log"
        logger = arguments.keyword("logger_name")
        parts: list[Part] = [f"{owner}.{node.attr}"]
        if logger is not None:
            arguments.remove(logger)
            parts = ["log.named(", self._source.span(logger.value), f").{node.attr}"]
        end = self._source.span(node).end
        self._source.replace(Span(end - len(node.attr), end), *parts)
        for keyword in call.keywords:
            if keyword.arg in ("message", "data"):
                self._source.delete(self._source.span(keyword).start, self._source.span(keyword.value).start)
            elif keyword.arg == "extra":
                span = self._source.span(keyword)
                self._source.replace(span, "**", self._source.span(keyword.value))
        arguments.finish()

    def _rewrite_changed(self, node: ast.Attribute, call: ast.Call, context: str) -> None:
        """Turn `await ctx.session.send_tool_list_changed()` into `ctx.server.notify_tools_changed()`."""
        awaited = self._workspace.names.parent_of(call)
        if not isinstance(awaited, ast.Await):
            self._workspace.note(
                node, f"{node.attr} is not awaited here", f"write {context}.server.{_CHANGED[node.attr]}(…)"
            )
            return
        first = call.args[0] if call.args else None
        parts: list[Part] = [f"{context}.server.{_CHANGED[node.attr]}("]
        if first is not None:
            parts.append(uri_part(self._workspace, first))
        self._source.replace(self._source.span(awaited), *parts, ")")

    def _rewrite_elicit(self, call: ast.Call) -> None:
        arguments = self._workspace.arguments(call)
        form = arguments.keyword("schema", "response_type")
        value = form.value if form is not None else arguments.positional(1)
        if isinstance(value, ast.Constant) and value.value is None and form is not None:
            arguments.remove(form)
        elif value is not None and not self._is_form(value):
            self._workspace.note(
                call, "the answer to this question is a bare value", "write a form: a dataclass with one field"
            )
        elif form is not None:
            arguments.rename(form, "form")
        for keyword in call.keywords:
            if keyword.arg in ("response_title", "response_description"):
                self._workspace.note(keyword, f"ctx.elicit has no option {keyword.arg}", ELICIT_OPTIONS[keyword.arg])
        arguments.finish()

    def _is_form(self, value: ast.expr) -> bool:
        """True for the name of a class; what FastMCP wraps, such as `str` and lists of choices, is no form."""
        return isinstance(value, (ast.Name, ast.Attribute)) and not (
            isinstance(value, ast.Name) and value.id in _SCALARS and not self._workspace.names.bindings(value)
        )

    def _rewrite_sample(self, call: ast.Call) -> None:
        arguments = self._workspace.arguments(call)
        self._rewrite_sample_options(arguments)
        if arguments.is_plain and arguments.keyword("max_tokens") is None:
            arguments.add(f"max_tokens={_DEFAULT_MAX_TOKENS}")
        arguments.finish()

    def _rewrite_sample_options(self, arguments: Arguments) -> None:
        names = {"messages": "prompt", "system_prompt": "system", "stop_sequences": "stop"}
        for keyword in arguments.call.keywords:
            name = keyword.arg or ""
            if name in names:
                arguments.rename(keyword, names[name])
            elif name == "model_preferences" and isinstance(keyword.value, ast.List):
                arguments.rename(keyword, "models")
            elif name == "model_preferences" and isinstance(keyword.value, ast.Constant) and keyword.value.value:
                self._source.replace(self._source.span(keyword), "models=[", self._source.span(keyword.value), "]")
            elif name in SAMPLE_OPTIONS:
                self._workspace.note(keyword, f"ctx.sample has no option {name}", SAMPLE_OPTIONS[name])

    def _rewrite_inner(self, node: ast.Attribute) -> None:
        """Rewrite `ctx.session.…` and `ctx.request_context.…`."""
        context = self._source.segment(node.value)
        outer = self._workspace.names.parent_of(node)
        if isinstance(outer, ast.Attribute):
            call = self._call_of(outer)
            after = self._workspace.names.parent_of(outer)
            if outer.attr == "lifespan_context":
                self._source.replace(self._source.span(outer), f"{context}.lifespan")
                return
            if outer.attr == "request" and isinstance(after, ast.Attribute) and after.attr == "headers":
                self._source.replace(self._source.span(after), f"{context}.headers")
                return
            if outer.attr in _CHANGED and call is not None:
                self._rewrite_changed(outer, call, context)
                return
            if outer.attr == "create_message" and call is not None and call.keywords and not call.args:
                self._source.replace(self._source.span(outer), f"{context}.sample")
                arguments = self._workspace.arguments(call)
                self._rewrite_sample_options(arguments)
                arguments.finish()
                return
            if outer.attr == "list_roots" and call is not None and self._rewrite_roots(call, context):
                return
            if outer.attr == "session" and isinstance(after, ast.Attribute):
                self._rewrite_inner(outer)
                return
        self._workspace.note(node, f"a context has no attribute {node.attr}", CONTEXT_MEMBERS[node.attr])

    def _rewrite_roots(self, call: ast.Call, context: str) -> bool:
        """Turn `(await ctx.session.list_roots()).roots` into `(await ctx.roots())`."""
        awaited = self._workspace.names.parent_of(call)
        roots = self._workspace.names.parent_of(awaited) if isinstance(awaited, ast.Await) else None
        if not isinstance(roots, ast.Attribute) or roots.attr != "roots":
            return False
        self._source.replace(self._source.span(roots), f"(await {context}.roots())")
        return True


def uri_part(workspace: Workspace, node: ast.expr) -> Part:
    """A URI as a string: the literal of `AnyUrl("…")`, or the expression in `str(…)`."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.func, (ast.Name, ast.Attribute)):
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        if name in ("AnyUrl", "FileUrl", "AnyHttpUrl"):
            return workspace.source.span(node.args[0])
    if isinstance(node, (ast.Constant, ast.JoinedStr)):
        return workspace.source.span(node)
    return f"str({workspace.source.segment(node)})"
