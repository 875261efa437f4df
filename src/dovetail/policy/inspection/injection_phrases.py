"""Finding words that are meant for the model and against the user: patterns, each with what it says in words.

They know common ways to do so, not every one: what they find is for a user to judge, and what they do not find is not
thereby harmless.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from .confusables import as_ascii

MAX_LOOKED_AT = 100_000
"""Characters of a text that are looked at; one that is longer is a concern by itself."""

_NEAR = 120
"""Characters between the beginning of what belongs together and its end."""
_MOST = 200
"""Places of one pattern that are looked at."""


class _Pattern(NamedTuple):
    what: str
    phrase: re.Pattern[str]
    lead: re.Pattern[str] | None = None
    """A pattern that must precede it, near by; so a text is searched for the rarer of both."""
    everywhere: bool = True
    """Also in instructions and prompts, whose purpose it is to tell a model what to do."""


_USER = r"(?:the |this |your |any )?(?:user|users|person|human|operator|customer)\b"
_OTHER_TOOLS = r"(?:any|every|another|other|all)(?: other)?(?: of the)? (?:tool|function)s?\b"
_USING = r"(?:you )?(?:using|use|calling|call|invoking|invoke|running|run|executing|execute)"
_TAKE = r"\b(?:read|open|cat|load|get|fetch|copy|include|pass|send|provide|attach|upload|append|put|forward|share)\b"
_GIVE = r"\b(?:send|post|upload|forward|submit|transmit|leak|exfiltrate|report|copy|mail|email|deliver|bcc|cc)\b"
_DATA = (
    r"\b(?:conversations?|history|messages?|results?|data|contents?|outputs?|responses?|arguments?|parameters?|files?"
    r"|keys?|tokens?|credentials?|secrets?|passwords?|environment|prompts?|emails?|everything|details)\b"
)


def _any_case(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_PATTERNS = (
    _Pattern(
        "tells the model to ignore its instructions",
        _any_case(
            r"\b(?:ignore|disregard|forget|override|bypass)\b(?: \w+){0,3} (?:previous|prior|above|earlier|preceding"
            r"|existing|original|system|safety|your)(?: \w+){0,2} (?:instruction|prompt|rule|guideline|polic|message"
            r"|restriction|direction)"
        ),
    ),
    _Pattern(
        "tells the model to hide something from the person",
        _any_case(
            r"\b(?:do not|don'?t|never|must not|without|avoid|refrain from)(?: \w+){0,2} (?:tell|inform|mention|reveal"
            r"|notify|alert|warn|disclose|telling|informing|mentioning|revealing|notifying|alerting|warning|disclosing)"
            r"(?: (?:this|that|it|any|anything|about|of|to|the|these|what|step|instruction|instructions)){0,6}"
            rf" {_USER}"
        ),
    ),
    _Pattern(
        "tells the model to hide something from the person",
        _any_case(
            r"\b(?:secretly|silently|covertly|without (?:the )?user'?s? (?:knowledge|noticing|knowing))\b.{0,80}"
            rf"{_GIVE}|"
            r"\b(?:hide|conceal|keep)\b(?: \w+){0,4} from (?:the |your )?(?:user|person|human)\b"
        ),
    ),
    _Pattern(
        "tells the model to act without asking the person",
        _any_case(
            rf"\bwithout (?:asking|confirmation from|permission from|approval from|consulting)(?: for)? {_USER}"
            r"|\b(?:do not|don'?t|never) (?:ask|wait|seek)(?: \w+){0,3} (?:confirmation|permission|approval|consent)\b"
        ),
    ),
    _Pattern(
        "has a mark that pretends to come from somebody else than the server",
        _any_case(
            r"</?(?:important|system|secret|hidden|critical|admin|instructions?|system[-_ ]?prompt|developer)>"
            r"|<\|(?:im_start|im_end|system|endoftext)\|>|\[/?INST\]|<<SYS>>"
        ),
    ),
    _Pattern(
        "gives the model a new part to play",
        _any_case(
            r"\byou are now (?:a|an|in|no longer)\b|\bnew (?:system )?instructions? ?:|\bpretend (?:to be|you are)\b"
        ),
    ),
    _Pattern(
        "asks for the conversation or for what the model was told",
        _any_case(
            r"\b(?:system prompt|(?:full|entire|whole|complete|conversation|chat|message) history"
            r"|(?:full|entire|whole|complete|previous) (?:conversation|chat|messages?|context))\b"
        ),
        _any_case(_TAKE),
    ),
    _Pattern(
        "asks for a file that holds secrets",
        _any_case(
            r"(?:\.ssh\b|\bid_(?:rsa|ed25519)|\.aws/|\.netrc\b|/etc/(?:passwd|shadow)\b|\.gnupg"
            r"|\bmcp\.json\b|\bclaude_desktop_config|\.kube/config|\.npmrc\b|\.pypirc\b|(?<!\w)\.env\b)"
        ),
        _any_case(_TAKE),
    ),
    _Pattern(
        "asks to send data to an address",
        _any_case(r"https?://|\b[\w.+-]{1,64}@[\w-]{1,64}\.\w"),
        _any_case(rf"{_GIVE}[^;]*?{_DATA}[^;]*?\b(?:to|at|via|into|with)\b[^;]{{0,20}}$"),
    ),
    _Pattern(
        "has a picture whose address can carry data away",
        _any_case(r"!\[[^\]]{0,200}\]\(https?://"),
    ),
    _Pattern(
        "tells the model what to do around other calls",
        _any_case(
            rf"\b(?:before|after|prior to|whenever|instead of) {_USING} (?:{_OTHER_TOOLS}|this (?:tool|function)\b)"
            rf"|\b(?:when|while) {_USING} {_OTHER_TOOLS}"
        ),
        everywhere=False,
    ),
    _Pattern(
        "tells the model to prefer it to everything else",
        _any_case(
            r"\b(?:always|must|only) (?:use|call|prefer|choose|invoke|select) this (?:tool|function)"
            r"(?: \w+){0,3} (?:instead of|over|rather than|before) (?:any|all|every|the) other"
        ),
        everywhere=False,
    ),
)

_BLANKS = re.compile(r"[^\S\n]+|(?<=\S)\n(?=\S)")
"""A line that goes on is one sentence with the next."""


def find_injection_phrases(text: str, *, is_for_model: bool = False) -> Iterator[str]:
    """Find attempts to manipulate a model, each in words; `is_for_model` for a text that is to instruct one."""
    plain = _BLANKS.sub(" ", as_ascii(text[:MAX_LOOKED_AT]))
    reported: set[str] = set()
    for pattern in _PATTERNS:
        if (is_for_model and not pattern.everywhere) or pattern.what in reported:
            continue
        phrase = _find(pattern, plain)
        if phrase is not None:
            reported.add(pattern.what)
            shown = phrase if len(phrase) <= 100 else f"{phrase[:99]}…"
            yield f'{pattern.what}: "{shown.strip()}"'


def _find(pattern: _Pattern, text: str) -> str | None:
    for match in itertools.islice(pattern.phrase.finditer(text), _MOST):
        if pattern.lead is None:
            return match[0]
        before = text[max(0, match.start() - _NEAR) : match.start()]
        lead = pattern.lead.search(before)
        if lead is not None:
            return before[lead.start() :] + match[0]
    return None
