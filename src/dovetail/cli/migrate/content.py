"""Rewriting of values of the protocol: content, definitions, messages and errors."""

from __future__ import annotations

import ast

from .contexts import uri_part
from .edits import Part
from .vocabulary import FIELDS, MEDIA_CLASSES, MESSAGES, PROTOCOL_ERRORS, protocol_type
from .workspace import Workspace

_URIS = frozenset({"Resource", "ResourceLink", "TextContents", "BlobContents", "Root"})
_CONSTANT_TYPES = frozenset({"Text", "Image", "Audio", "Embedded", "ResourceLink"})
_COMMON_ATTRIBUTES = frozenset({"mimeType", "lastModified", "websiteUrl", "stopReason", "hasMore"})
"""Fields whose names other libraries have too, so that an attribute may belong to something else."""
_BINARY = {"Image": "data", "Audio": "data", "BlobContents": "blob"}


class Values:
    """Rewrites calls that make values of the protocol."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._source = workspace.source

    def rewrite(self) -> None:
        """Rewrite all values of the module, and the attributes of such values that have other names."""
        used = False
        for call in self._workspace.calls():
            qualified = self._workspace.names.qualified(call.func) or ""
            kind = protocol_type(qualified)
            if kind is not None and id(call.func) not in self._workspace.understood:
                used = True
                self._rewrite_value(call, kind)
            elif MEDIA_CLASSES.match(qualified):
                self._rewrite_media(call, qualified.rpartition(".")[2])
            elif MESSAGES.match(qualified):
                self._rewrite_message(call, qualified.rpartition(".")[2])
            elif PROTOCOL_ERRORS.match(qualified):
                self._rewrite_error(call)
        if used or self._names_types():
            self._rename_attributes()

    def _names_types(self) -> bool:
        names = self._workspace.names
        return any(
            protocol_type(names.qualified(node)) is not None for node in self._workspace.walk(ast.Name, ast.Attribute)
        )

    def _rename_attributes(self) -> None:
        """Rename attributes such as `tool.inputSchema`, which only values of the protocol have."""
        for node in self._workspace.walk(ast.Attribute):
            assert isinstance(node, ast.Attribute)
            if node.attr not in FIELDS or node.attr == "_meta" or self._workspace.names.qualified(node) is not None:
                continue
            if node.attr in _COMMON_ATTRIBUTES:
                self._workspace.note(
                    node, f".{node.attr} may be a field of the protocol", f"it is called {FIELDS[node.attr]} here"
                )
            else:
                end = self._source.span(node).end
                self._source.replace(self._source.span(node)._replace(start=end - len(node.attr)), FIELDS[node.attr])

    def _rewrite_value(self, call: ast.Call, kind: str) -> None:
        arguments = self._workspace.arguments(call)
        if not arguments.is_plain:
            self._workspace.note(call, f"fields of {kind} are unpacked", "the names of fields are in snake_case here")
        for keyword in call.keywords:
            name = keyword.arg or ""
            if name == "type" and kind in _CONSTANT_TYPES:
                arguments.remove(keyword)
            elif name in FIELDS:
                arguments.rename(keyword, FIELDS[name])
            if name == "uri" and kind in _URIS:
                part = uri_part(self._workspace, keyword.value)
                if part != self._source.span(keyword.value):
                    self._source.replace(self._source.span(keyword.value), part)
            elif name == _BINARY.get(kind):
                self._rewrite_binary(keyword)
        arguments.finish()

    def _rewrite_binary(self, keyword: ast.keyword) -> None:
        """Replace base64 text by the bytes: `base64.b64encode(data).decode()` by `data`."""
        value = keyword.value
        inner = value
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "decode":
            inner = inner.func.value
            if isinstance(inner, ast.Call) and self._source.segment(inner.func).endswith("b64encode") and inner.args:
                self._source.replace(self._source.span(value), self._source.span(inner.args[0]))
                return
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            self._workspace.modules.add("base64")
            self._source.replace(self._source.span(value), "base64.b64decode(", self._source.span(value), ")")
            return
        self._workspace.note(keyword, f"{keyword.arg}= is bytes here, not base64 text", "pass the bytes themselves")

    def _rewrite_media(self, call: ast.Call, kind: str) -> None:
        """Turn `Image(data=…, format="png")` into `Image(data=…, mime_type="image/png")`."""
        arguments = self._workspace.arguments(call)
        formatted = arguments.keyword("format")
        path = call.args[0] if call.args else None
        if path is not None:
            arguments.name(path, "path")
        prefix = kind.lower()
        if formatted is not None:
            value = formatted.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                self._source.replace(self._source.span(formatted), f'mime_type="{prefix}/{value.value.lower()}"')
            else:
                parts: tuple[Part, ...] = (f'mime_type=f"{prefix}/{{', self._source.span(value), '}"')
                if '"' in self._source.segment(value):
                    self._workspace.note(formatted, f"{kind} has no format", f'say mime_type="{prefix}/…"')
                else:
                    self._source.replace(self._source.span(formatted), *parts)
        elif arguments.keyword("data") is not None:
            arguments.add(f'mime_type="{"image/png" if kind == "Image" else "audio/wav"}"')
        arguments.finish()
        self._rewrite_data_uri(call)

    def _rewrite_data_uri(self, call: ast.Call) -> None:
        """Turn `.to_data_uri()` of an image, or of the variable that holds it, into `.data_uri`."""
        parent = self._workspace.names.parent_of(call)
        names: set[str] = set()
        if isinstance(parent, ast.Assign):
            names = {target.id for target in parent.targets if isinstance(target, ast.Name)}
        for use in self._workspace.calls():
            function = use.func
            if not isinstance(function, ast.Attribute) or function.attr != "to_data_uri":
                continue
            if function.value is call or (isinstance(function.value, ast.Name) and function.value.id in names):
                self._source.replace(self._source.span(use), self._source.span(function.value), ".data_uri")

    def _rewrite_message(self, call: ast.Call, kind: str) -> None:
        """Turn `UserMessage("…")` into `PromptMessage("user", Text("…"))`."""
        arguments = self._workspace.arguments(call)
        content = arguments.positional(0)
        given = arguments.keyword("content")
        if content is None and given is not None:
            content = given.value
        role: Part = '"assistant"' if kind == "AssistantMessage" else '"user"'
        said = arguments.keyword("role")
        if kind == "Message" and (said is not None or arguments.positional(1) is not None):
            role = self._source.span(said.value if said is not None else call.args[1])
        if content is None or not self._is_text_or_content(content):
            self._workspace.note(
                call, f"the content of {kind} is not known to be text", 'write PromptMessage("user", Text(…))'
            )
            return
        parts: list[Part] = [self._workspace.use("PromptMessage"), "(", role, ", "]
        if self._is_text(content):
            parts += [self._workspace.use("Text"), "(", self._source.span(content), "))"]
        else:
            parts += [self._source.span(content), ")"]
        self._source.replace(self._source.span(call), *parts)
        self._workspace.understood.add(id(call.func))

    def _is_text_or_content(self, node: ast.expr) -> bool:
        return self._is_text(node) or (
            isinstance(node, ast.Call) and protocol_type(self._workspace.names.qualified(node.func)) is not None
        )

    def _is_text(self, node: ast.expr) -> bool:
        """True for an expression that is surely a string."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
            return self._is_text(node.left)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node.func.attr in ("format", "join", "strip") and self._is_text(node.func.value)
        if isinstance(node, ast.Name):
            bindings = self._workspace.names.bindings(node)
            return bool(bindings) and all(
                (isinstance(binding.node, ast.arg) and self._is_str_hint(binding.node.annotation))
                or (isinstance(binding.value, (ast.Constant, ast.JoinedStr)) and self._is_text(binding.value))
                for binding in bindings
            )
        return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))

    def _is_str_hint(self, node: ast.expr | None) -> bool:
        return isinstance(node, ast.Name) and node.id == "str"

    def _rewrite_error(self, call: ast.Call) -> None:
        """Turn `McpError(ErrorData(code=…, message=…))` into `ProtocolError(…, …)`."""
        parent = self._workspace.names.parent_of(call)
        data = call.args[0] if len(call.args) == 1 and not call.keywords else None
        fields = data if isinstance(data, ast.Call) else call
        given = {keyword.arg: keyword.value for keyword in fields.keywords}
        if (
            not isinstance(parent, ast.Raise)
            or fields.args
            or not {"code", "message"} <= given.keys() <= {"code", "message", "data"}
        ):
            return
        parts: list[Part] = [self._workspace.use("ProtocolError"), "("]
        for name in ("code", "message", "data"):
            if name in given:
                parts += [*([", "] if name != "code" else []), self._source.span(given[name])]
        self._source.replace(self._source.span(call), *parts, ")")
        self._workspace.understood.add(id(call.func))
        if isinstance(data, ast.Call):
            self._workspace.understood.add(id(data.func))
