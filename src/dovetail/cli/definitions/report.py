"""The report of `dovetail inspect`: what a server offers, what its tools cost, and who would refuse them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from dovetail.schema.portability.check import CheckedTool, Finding, check_tools
from dovetail.schema.portability.rules import PROFILES, Profile
from dovetail.schema.type_text import signature
from dovetail.text.token_estimate import estimated_tokens

from .tool_lines import Line, heading, schema_lines, summary_lines, wrapped_lines

if TYPE_CHECKING:
    from dovetail.types.prompts import Prompt
    from dovetail.types.resources import Resource, ResourceTemplate
    from dovetail.types.tools import Tool

ESTIMATE = "a fourth of the bytes of the name, description and input schema of each tool"
"""The estimate of tokens in words, for readers of the report."""

_SPOTS = 8
_STDERR = 12


class Offer(NamedTuple):
    """The description that a server gave of itself."""

    name: str
    version: str
    title: str | None
    revision: str
    revisions: Sequence[str]
    """Revisions that the server says it speaks; empty if it was not asked."""
    instructions: str | None
    tools: Sequence[Tool]
    resources: Sequence[Resource]
    templates: Sequence[ResourceTemplate]
    prompts: Sequence[Prompt]
    stderr: Sequence[str] = ()
    """Lines that its process wrote to stderr."""


class ServerReport(NamedTuple):
    """An offer, and what is noticed about it."""

    offer: Offer
    tokens: dict[str, int]
    """Estimated tokens of each tool, by name."""
    instruction_tokens: int
    warnings: list[str]
    findings: list[Finding]
    profiles: Sequence[Profile]

    @property
    def total_tokens(self) -> int:
        """Estimated tokens of everything that a client puts into a model's context at once."""
        return sum(self.tokens.values()) + self.instruction_tokens


def inspect_offer(offer: Offer, profiles: Sequence[Profile]) -> ServerReport:
    """Measure and check what a server offers."""
    checked = [CheckedTool(tool.name, tool.description, tool.input_schema) for tool in offer.tools]
    return ServerReport(
        offer,
        {tool.name: tool_tokens(tool) for tool in offer.tools},
        estimated_tokens(offer.instructions or ""),
        definition_warnings(offer),
        check_tools(checked, offer.name, profiles),
        profiles,
    )


def tool_tokens(tool: Tool) -> int:
    """About how many tokens the definition of a tool takes in a model's context."""
    seen = {"name": tool.name, "description": tool.description or "", "input_schema": tool.input_schema}
    return estimated_tokens(msgspec.json.encode(seen).decode())


def definition_warnings(offer: Offer) -> list[str]:
    """Definitions that a model or a user can make little of."""
    named = [
        *[("tool", tool.name, tool.description) for tool in offer.tools],
        *[("resource", resource.uri, resource.description) for resource in offer.resources],
        *[("resource template", template.uri_template, template.description) for template in offer.templates],
        *[("prompt", prompt.name, prompt.description) for prompt in offer.prompts],
    ]
    return [f"{kind} {name}: it has no description" for kind, name, text in named if not (text or "").strip()]


def report_lines(report: ServerReport, width: int | None, *, schemas: bool) -> list[Line]:
    """The report as text."""
    lines: list[Line] = [*_head(report), *_tools(report, width, schemas)]
    if report.warnings:
        lines += heading("Warnings")
        lines.extend((("warn", "  ! "), text) for text in report.warnings)
    if report.offer.stderr:
        lines += heading("The server wrote to stderr")
        lines += [(f"  | {text}",) for text in report.offer.stderr[:_STDERR]]
        if (more := len(report.offer.stderr) - _STDERR) > 0:
            lines.append((f"  … and {more} more",))
    return [*lines, *_portability(report, width)]


def report_json(report: ServerReport) -> dict[str, Any]:
    """The report for scripts."""
    offer = report.offer
    return {
        "server": {"name": offer.name, "version": offer.version, "title": offer.title},
        "revision": offer.revision,
        "revisions": list(offer.revisions),
        "instructions": offer.instructions,
        "counts": _counts(offer),
        "tokens": {
            "total": report.total_tokens,
            "instructions": report.instruction_tokens,
            "estimate": ESTIMATE,
        },
        "tools": [
            {
                "name": tool.name,
                "signature": signature(tool.name, tool.input_schema, tool.output_schema),
                "description": tool.description,
                "tokens": report.tokens[tool.name],
                "inputSchema": tool.input_schema,
                "outputSchema": tool.output_schema,
            }
            for tool in offer.tools
        ],
        "warnings": report.warnings,
        "stderr": list(offer.stderr),
        "checkedFor": list(report.profiles),
        "findings": [finding_json(finding) for finding in report.findings],
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding for scripts."""
    return {
        "rule": finding.rule.id,
        "refusedBy": list(finding.profiles),
        "tool": finding.tool,
        "where": finding.where,
        "detail": finding.detail,
        "problem": finding.rule.problem,
        "remedy": finding.rule.remedy,
        "source": finding.rule.source,
        "checked": finding.rule.checked,
    }


def _counts(offer: Offer) -> dict[str, int]:
    return {
        "tools": len(offer.tools),
        "resources": len(offer.resources),
        "templates": len(offer.templates),
        "prompts": len(offer.prompts),
    }


def _head(report: ServerReport) -> list[Line]:
    offer = report.offer
    title = f" ({offer.title})" if offer.title and offer.title != offer.name else ""
    others = [name for name in offer.revisions if name != offer.revision]
    counts = ", ".join(
        f"{count} {kind if count != 1 else kind[:-1]}" for kind, count in _counts(offer).items() if count
    )
    lines: list[Line] = [
        (("strong", offer.name), f" {offer.version}{title}"),
        (f"  revision  {', also '.join(filter(None, (offer.revision, ', '.join(others))))}",),
        (f"  offers    {counts or 'nothing'}",),
        (f"  tokens    about {report.total_tokens} in the context of a model",),
        (("dim", f"            (estimate: {ESTIMATE})"),),
    ]
    if offer.instructions:
        lines.insert(3, (f"  says      {' '.join(offer.instructions.split())}",))
    return lines


def _tools(report: ServerReport, width: int | None, schemas: bool) -> list[Line]:
    lines: list[Line] = heading("Tools") if report.offer.tools else []
    for tool in report.offer.tools:
        lines += summary_lines(tool, width, f"(about {report.tokens[tool.name]} tokens)")
        if schemas:
            lines += [
                *schema_lines("Input schema", tool.input_schema),
                *schema_lines("Output schema", tool.output_schema),
            ]
    return lines


def _portability(report: ServerReport, width: int | None) -> list[Line]:
    lines = heading("Portability")
    checked = ", ".join(PROFILES[profile] for profile in report.profiles)
    if not report.findings:
        lines += wrapped_lines(f"Accepted by {checked}, as far as their limits are known.", width, "  ")
    by_rule: dict[tuple[str, tuple[Profile, ...]], list[Finding]] = {}
    for finding in report.findings:
        by_rule.setdefault((finding.rule.id, finding.profiles), []).append(finding)
    for (_, profiles), group in by_rule.items():
        rule = group[0].rule
        who = ", ".join(PROFILES[profile] for profile in profiles)
        lines.append((("bad", "  x "), ("strong", who), ":"))
        lines += wrapped_lines(rule.problem, width, "      ")
        for finding in group[:_SPOTS]:
            place = ".".join(filter(None, (finding.tool, finding.where)))
            lines.append(("        ", ("name", f"{place}: " if place else ""), finding.detail))
        if len(group) > _SPOTS:
            lines.append((f"        … and {len(group) - _SPOTS} more",))
        lines += wrapped_lines(f"-> {rule.remedy}", width, "      ")
    if skipped := [profile for profile in PROFILES if profile not in report.profiles]:
        lines.append((("dim", f"  Not checked: {', '.join(skipped)} (--for NAME)."),))
    return lines
