"""Rewriting of imports, after everything else: names that have a counterpart are imported from `dovetail`."""

from __future__ import annotations

import ast

from .edits import Span
from .vocabulary import ADVICE, MESSAGES, advice_for, counterpart, error_code
from .workspace import Workspace

Import = ast.Import | ast.ImportFrom


class Imports:
    """Renames what has a counterpart, and replaces the imports that nothing needs any more."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._source = workspace.source
        self._needed: set[str] = set()
        """Names of the module that are bound by imports of other libraries, and still used."""

    def rewrite(self) -> None:
        """Rename all uses, then rewrite the import statements."""
        for node in self._workspace.walk(ast.Name, ast.Attribute):
            parent = self._workspace.names.parent_of(node)
            if not isinstance(parent, ast.Attribute):
                self._rename(node)
        self._rename_quoted()
        self._rewrite_statements()

    def _rename(self, node: ast.AST) -> None:
        """Rename the longest part of a dotted name that has a counterpart."""
        part = node
        chain: list[ast.AST] = []
        while isinstance(part, ast.Attribute):
            chain.append(part)
            part = part.value
        if not isinstance(part, ast.Name) or isinstance(part.ctx, ast.Store):
            return
        chain.append(part)
        if any(id(link) in self._workspace.understood for link in chain):
            return
        qualified = None
        for link in reversed(chain):
            qualified = self._workspace.names.qualified(link)
            if qualified is None or qualified.startswith("dovetail"):
                return
            if (name := counterpart(qualified)) is not None:
                self._source.replace(self._source.span(link), self._workspace.use(name))
                return
            if MESSAGES.match(qualified) and not isinstance(self._workspace.names.parent_of(link), ast.Call):
                self._source.replace(self._source.span(link), self._workspace.use("PromptMessage"))
                return
            if (code := error_code(qualified)) is not None:
                self._source.replace(self._source.span(link), code)
                return
        assert qualified is not None
        self._needed.add(part.id)
        self._workspace.note(node, f"{qualified} is left as it is", advice_for(qualified))

    def _rename_quoted(self) -> None:
        """Rename type hints in quotes that are nothing but a name."""
        for node in self._workspace.walk(ast.arg, ast.FunctionDef, ast.AsyncFunctionDef, ast.AnnAssign):
            hint = node.returns if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else node.annotation  # type: ignore[attr-defined]
            if isinstance(hint, ast.Constant) and isinstance(hint.value, str):
                found = {binding.qualified for binding in self._workspace.names.module.lookup(hint.value)}
                qualified = found.pop() if len(found) == 1 else None
                name = None if qualified is None or qualified.startswith("dovetail") else counterpart(qualified)
                if name is not None:
                    self._source.replace(self._source.span(hint), f'"{self._workspace.use(name)}"')

    def _rewrite_statements(self) -> None:
        nodes = self._workspace.names.imports
        top = [node for node in nodes if node in self._source.tree.body]
        for node in nodes:
            for alias in node.names:
                self._keep_exported(node, alias)
        for node in nodes:
            kept = [alias for alias in node.names if self._is_kept(node, alias)]
            first = bool(top) and node is top[0]
            self._replace(node, kept, self._header() if first else self._local_lines(node, top))
        if not nodes and (self._workspace.imported or self._workspace.modules):
            self._insert_header()

    def _keep_exported(self, node: Import, alias: ast.alias) -> None:
        """Import what a module imports and does not use too: others may import it from there."""
        if not isinstance(node, ast.ImportFrom) or self._is_used(alias):
            return
        name = counterpart(f"{node.module}.{alias.name}")
        if name is not None and alias.name != "*":
            self._workspace.use(name)

    def _is_used(self, alias: ast.alias) -> bool:
        bound = alias.asname or alias.name.partition(".")[0]
        return bound in self._workspace.used

    def _is_kept(self, node: Import, alias: ast.alias) -> bool:
        bound = alias.asname or alias.name.partition(".")[0]
        root = (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        if root not in ("fastmcp", "mcp", "mcp_types"):
            return True
        if bound in self._needed or alias.name == "*":
            return True
        if self._is_used(alias) or (isinstance(node, ast.ImportFrom) and counterpart(f"{node.module}.{alias.name}")):
            return False
        full = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
        self._workspace.note(node, f"{full} is left as it is", ADVICE.get(full, "nothing here uses it"))
        return True

    def _header(self) -> list[str]:
        lines = [f"import {module}" for module in sorted(self._workspace.modules) if not self._is_imported(module)]
        return [*lines, *self._dovetail_line(self._workspace.imported)]

    def _dovetail_line(self, imported: dict[str, str]) -> list[str]:
        names = [name if name == local else f"{name} as {local}" for name, local in sorted(imported.items())]
        if not names:
            return []
        line = f"from dovetail import {', '.join(names)}"
        if len(line) <= 100:
            return [line]
        return ["from dovetail import (", *(f"    {name}," for name in names), ")"]

    def _is_imported(self, module: str) -> bool:
        return any(
            isinstance(node, ast.Import) and any(alias.name == module and not alias.asname for alias in node.names)
            for node in self._source.tree.body
        )

    def _local_lines(self, node: Import, top: list[Import]) -> list[str]:
        """The replacement of an import inside a block; the first of the module has all names if there is one."""
        if node in self._source.tree.body or top:
            return []
        return self._header()

    def _replace(self, node: Import, kept: list[ast.alias], lines: list[str]) -> None:
        indentation, newline = self._source.indentation(node), self._source.newline
        if len(kept) == len(node.names):
            if lines:
                start = self._source.span(node).start
                self._source.insert(start, "".join(f"{line}{newline}{indentation}" for line in lines))
            return
        if kept:
            names = ", ".join(self._source.segment(alias) for alias in kept)
            prefix = (
                f"from {'.' * node.level}{node.module or ''} import " if isinstance(node, ast.ImportFrom) else "import "
            )
            lines = [*lines, prefix + names]
        span = self._source.span(node)
        if lines:
            self._source.replace(span, f"{newline}{indentation}".join(lines))
        elif self._is_alone_in_block(node):
            self._source.replace(span, "pass")
        else:
            self._delete_statement(span)

    def _is_alone_in_block(self, node: Import) -> bool:
        parent = self._workspace.names.parent_of(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and node in block:
                return len(block) == 1 and not isinstance(parent, ast.Module)  # pyright: ignore[reportUnknownArgumentType]
        return False

    def _delete_statement(self, span: Span) -> None:
        """Delete a statement with its line, if nothing else is on it."""
        start, end = self._source.line_start(span.start), self._source.line_end(span.end - 1)
        around = self._source.text[start : span.start] + self._source.text[span.end : end]
        if around.lstrip().startswith("#"):
            self._source.delete(span.start, self._source.text.index("#", span.end))
        elif around.strip():
            self._source.replace(span, "pass")
        else:
            self._source.delete(start, end)

    def _insert_header(self) -> None:
        """Write the imports at the head of a module that imports nothing of other libraries."""
        body = self._source.tree.body
        at = next(
            (
                node
                for node in body
                if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
                and not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
            ),
            None,
        )
        if at is not None:
            start = self._source.span(at).start
            self._source.insert(start, "".join(f"{line}{self._source.newline}" for line in self._header()))
