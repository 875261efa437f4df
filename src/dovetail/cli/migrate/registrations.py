"""Rewriting of what registers tools, resources and prompts: decorators, `add_tool` and `add_prompt`."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from dovetail.server.other_names import PROMPT_OPTIONS, RESOURCE_OPTIONS, TOOL_OPTIONS

from .edits import Arguments, Span
from .vocabulary import HINTS, protocol_type
from .workspace import Workspace

_TABLES: Mapping[str, Mapping[str, str]] = {
    "tool": TOOL_OPTIONS,
    "resource": RESOURCE_OPTIONS,
    "prompt": PROMPT_OPTIONS,
}
_ADDERS = {"add_tool": "tool", "add_prompt": "prompt"}


class Registrations:
    """Rewrites the options of tools, resources and prompts."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._source = workspace.source
        self._shared: dict[int, bool] = {}
        """Assignments of annotations that several tools share, and whether they could be rewritten."""

    def rewrite(self) -> None:
        """Rewrite all registrations of the module."""
        for call in self._workspace.calls():
            function = call.func
            if not isinstance(function, ast.Attribute) or self._workspace.kind_of(function.value) != "server":
                continue
            if function.attr in _TABLES:
                self._rewrite_call(call, function.attr)
            elif function.attr in _ADDERS:
                self._rewrite_adder(call, function)

    def _rewrite_call(self, call: ast.Call, noun: str) -> None:
        arguments = self._workspace.arguments(call)
        first = arguments.positional(0)
        if noun != "resource" and isinstance(first, (ast.Constant, ast.JoinedStr)):
            arguments.name(first, "name")
        for index, name in enumerate(("name", "title", "description")) if noun == "resource" else ():
            if (argument := arguments.positional(index + 1)) is not None:
                arguments.name(argument, name)
        for keyword in call.keywords:
            if keyword.arg is not None:
                self._rewrite_option(arguments, keyword, noun)
        arguments.finish()

    def _rewrite_option(self, arguments: Arguments, keyword: ast.keyword, noun: str) -> None:
        name, value = keyword.arg or "", keyword.value
        constant = value.value if isinstance(value, ast.Constant) else ...
        if name == "annotations" and noun == "tool":
            self._rewrite_annotations(arguments, keyword)
        elif name == "annotations" and noun == "resource":
            self._rewrite_resource_annotations(arguments, keyword)
        elif name == "structured_output":
            self._rewrite_structured(arguments, keyword)
        elif name == "tags":
            arguments.remove(keyword)
            if constant is not None:
                self._workspace.note(keyword, "tags are gone", TOOL_OPTIONS["tags"])
        elif name == "task" and noun == "tool" and constant not in (None, False):
            self._rewrite_task(keyword)
        elif (name == "enabled" and constant is True) or (name in ("task", "app") and constant in (None, False)):
            arguments.remove(keyword)
        elif name in _TABLES[noun]:
            self._workspace.note(keyword, f"a {noun} has no option {name}", _TABLES[noun][name])

    def _rewrite_task(self, keyword: ast.keyword) -> None:
        """Turn `task=True` and `task=TaskConfig(mode="required")` into the mode."""
        value = keyword.value
        modes: list[ast.expr] = []
        if isinstance(value, ast.Call):
            modes = [*value.args, *(option.value for option in value.keywords if option.arg == "mode")]
        mode = modes[0] if modes else None
        if isinstance(value, ast.Constant) and value.value is True:
            self._source.replace(self._source.span(value), '"optional"')
        elif isinstance(mode, ast.Constant) and mode.value in ("optional", "required"):
            self._source.replace(self._source.span(value), f'"{mode.value}"')
            self._understand(value)
        else:
            self._workspace.note(keyword, "tasks are declared differently", 'say task="optional" or task="required"')

    def _rewrite_structured(self, arguments: Arguments, keyword: ast.keyword) -> None:
        value = keyword.value
        if isinstance(value, ast.Constant) and value.value is not False:
            arguments.remove(keyword)
        else:
            arguments.rename(keyword, "structured")

    def _rewrite_annotations(self, arguments: Arguments, keyword: ast.keyword) -> None:
        """Turn `annotations=ToolAnnotations(readOnlyHint=True)` into `read_only=True`."""
        value = keyword.value
        if isinstance(value, ast.Constant) and value.value is None:
            arguments.remove(keyword)
        elif isinstance(value, ast.Name) and self._rewrite_shared(value):
            self._source.replace(self._source.span(keyword), "**", self._source.span(value))
        elif (fields := self._hint_fields(value)) is not None:
            has_title = arguments.keyword("title") is not None
            given = [(name, node) for name, node in fields if name != "title" or not has_title]
            arguments.remove(keyword)
            for name, node in given:
                arguments.add(f"{name}=", self._source.span(node))
            self._understand(value)
        else:
            self._workspace.note(keyword, "a tool has no option annotations", TOOL_OPTIONS["annotations"])

    def _hint_fields(self, value: ast.expr) -> list[tuple[str, ast.expr]] | None:
        """The options that annotations stand for; None if they are not written out."""
        pairs: list[tuple[str | None, ast.expr]]
        if isinstance(value, ast.Dict):
            pairs = [
                (key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None, item)
                for key, item in zip(value.keys, value.values, strict=True)
            ]
        elif isinstance(value, ast.Call) and self._is_annotations_class(value.func) and not value.args:
            pairs = [(keyword.arg, keyword.value) for keyword in value.keywords]
        else:
            return None
        if any(name not in HINTS for name, _ in pairs):
            return None
        written = [(HINTS[name or ""], node) for name, node in pairs]
        return [(name, node) for name, node in written if not (isinstance(node, ast.Constant) and node.value is None)]

    def _is_annotations_class(self, node: ast.expr) -> bool:
        return protocol_type(self._workspace.names.qualified(node)) == "ToolAnnotations"

    def _understand(self, value: ast.expr) -> None:
        if isinstance(value, ast.Call):
            self._workspace.understood.add(id(value.func))

    def _rewrite_shared(self, name: ast.Name) -> bool:
        """Turn annotations that are kept in a variable into a dict of options; False if it is used for more."""
        bindings = self._workspace.names.bindings(name)
        if len(bindings) != 1 or bindings[0].value is None:
            return False
        value = bindings[0].value
        if id(value) not in self._shared:
            fields = self._hint_fields(value)
            is_possible = fields is not None and self._is_used_for_tools_only(name)
            if fields is not None and is_possible:
                self._write_shared(value, fields)
            self._shared[id(value)] = is_possible
        return self._shared[id(value)]

    def _is_used_for_tools_only(self, name: ast.Name) -> bool:
        bindings = self._workspace.names.bindings(name)
        for node in self._workspace.walk(ast.Name):
            assert isinstance(node, ast.Name)
            if (
                node.id != name.id
                or not isinstance(node.ctx, ast.Load)
                or self._workspace.names.bindings(node) != bindings
            ):
                continue
            parent = self._workspace.names.parent_of(node)
            if not isinstance(parent, ast.keyword) or parent.arg != "annotations":
                return False
        return True

    def _write_shared(self, value: ast.expr, fields: list[tuple[str, ast.expr]]) -> None:
        if isinstance(value, ast.Dict):
            for key, item in zip(value.keys, value.values, strict=True):
                assert isinstance(key, ast.Constant)
                written = next((name for name, node in fields if node is item), None)
                if written is not None:
                    self._source.replace(self._source.span(key), f'"{written}"')
            return
        assert isinstance(value, ast.Call)
        self._understand(value)
        open_parenthesis = self._source.text.index("(", self._source.span(value.func).end)
        self._source.replace(Span(self._source.span(value).start, open_parenthesis + 1), "{")
        for keyword in value.keywords:
            start = self._source.span(keyword).start
            self._source.replace(Span(start, self._source.span(keyword.value).start), f'"{HINTS[keyword.arg or ""]}": ')
        end = self._source.span(value).end
        self._source.replace(Span(end - 1, end), "}")

    def _rewrite_resource_annotations(self, arguments: Arguments, keyword: ast.keyword) -> None:
        value = keyword.value
        if isinstance(value, ast.Dict) and self._hint_fields(value) is not None:
            arguments.remove(keyword)
            self._workspace.note(keyword, "hints of a tool were given to a resource", "they have no meaning there")
        elif isinstance(value, ast.Dict):
            self._workspace.note(
                keyword, "annotations of a resource are a value", "write Annotations(audience=[…], priority=…)"
            )

    def _rewrite_adder(self, call: ast.Call, function: ast.Attribute) -> None:
        """Turn `add_tool(function, …)` and `add_tool(Tool.from_function(function, …))` into `tool(function, …)`."""
        noun, first = _ADDERS[function.attr], call.args[0] if call.args else None
        span = self._source.span(function)
        if isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute) and first.func.attr == "from_function":
            qualified = self._workspace.names.qualified(first.func.value) or ""
            if qualified.startswith(("fastmcp.", "mcp.server.")) and len(call.args) == 1 and not call.keywords:
                self._source.replace(Span(span.end - len(function.attr), span.end), noun)
                outer, inner = self._source.span(call), self._source.span(first)
                opening = self._source.text.index("(", self._source.span(first.func).end)
                self._source.replace(Span(inner.start, opening + 1))
                self._source.replace(Span(inner.end - 1, inner.end))
                assert outer.end > inner.end
                self._workspace.understood.add(id(first.func))
                self._workspace.understood.add(id(first.func.value))
                self._rewrite_call(first, noun)
                return
        if noun == "tool" and isinstance(first, (ast.Name, ast.Attribute)) and self._is_function(first):
            self._source.replace(Span(span.end - len(function.attr), span.end), noun)
            arguments = self._workspace.arguments(call)
            for name, argument in zip(("name", "title", "description"), call.args[1:], strict=False):
                arguments.name(argument, name)
            for keyword in call.keywords:
                if keyword.arg is not None:
                    self._rewrite_option(arguments, keyword, noun)
            arguments.finish()
            return
        self._workspace.note(call, f"what {function.attr} gets is not known here", f"write server.{noun}(function, …)")

    def _is_function(self, node: ast.Name | ast.Attribute) -> bool:
        """True for a function of this module; and for anything in one of the official SDK, which takes functions."""
        if isinstance(node, ast.Name):
            bindings = self._workspace.names.bindings(node)
            if bindings and all(
                isinstance(binding.node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not binding.node.decorator_list
                for binding in bindings
            ):
                return True
        roots = {
            (module.module or "").split(".")[0]
            for module in self._workspace.names.imports
            if isinstance(module, ast.ImportFrom)
        }
        return "fastmcp" not in roots and "mcp" in roots
