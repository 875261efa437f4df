"""Finding words that are meant for the model and against the user: patterns, each with what it says in words.

They know common ways to do so, not every one: what they find is for a user to judge, and what they do not find is not
thereby harmless.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator
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
    along: re.Pattern[str] | None = None
    """A pattern that must stand in the same sentence, which names nothing of the server's own."""


_USER = r"(?:the |this |your |any )?(?:user|users|person|human|operator|customer)\b"
_OTHER_TOOLS = r"(?:any|every|another|other|all)(?: other)?(?: of the)? (?:tool|function)s?\b"
_USING = r"(?:you )?(?:using|use|calling|call|invoking|invoke|running|run|executing|execute)"
_TAKE = r"\b(?:read|open|cat|load|get|fetch|copy|include|pass|send|provide|attach|upload|append|put|forward|share)\b"
_FETCH = (
    r"\b(?:read|open|cat|load|fetch|copy|send|upload|attach|forward"
    r"|get(?! (?:the )?(?:user'?s? )?(?:permission|consent|confirmation|approval)))\b"
)
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
        "tells the model to hide something from the user",
        _any_case(
            r"\b(?:do not|don'?t|never|must not|without|avoid|refrain from)(?: \w+){0,2} (?:tell|inform|mention|reveal"
            r"|notify|alert|warn|disclose|telling|informing|mentioning|revealing|notifying|alerting|warning|disclosing)"
            r"(?: (?:this|that|it|any|anything|about|of|to|the|these|what|step|instruction|instructions)){0,6}"
            rf" {_USER}"
        ),
    ),
    _Pattern(
        "tells the model to hide something from the user",
        _any_case(
            r"\b(?:secretly|silently|covertly|without (?:the )?user'?s? (?:knowledge|noticing|knowing))\b.{0,80}"
            rf"{_GIVE}|"
            r"\b(?:hide|conceal|keep)\b(?: \w+){0,4} from (?:the |your )?(?:user|person|human)\b"
        ),
    ),
    _Pattern(
        "tells the model to act without asking the user",
        _any_case(
            rf"\bwithout (?:asking|confirmation from|permission from|approval from|consulting)(?: for)? {_USER}"
            r"|\b(?:do not|don'?t|never) (?:ask|wait|seek)(?: \w+){0,3} (?:confirmation|permission|approval|consent)\b"
        ),
    ),
    _Pattern(
        "has a mark that pretends to come from somebody else than the server",
        _any_case(
            r"</?(?:important|system|secret|hidden|critical|admin|system[-_ ]?(?:prompt|instructions?)|developer)>"
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
            rf"\b(?:before|after|prior to|whenever|instead of) {_USING} {_OTHER_TOOLS}"
            rf"|\b(?:when|while) {_USING} {_OTHER_TOOLS}"
        ),
        everywhere=False,
    ),
    _Pattern(
        "tells the model what to do around other calls",
        _any_case(rf"\b(?:before|after|prior to|whenever|instead of) {_USING} this (?:tool|function)\b"),
        everywhere=False,
        along=_any_case(_FETCH),
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

_LIST_ITEM = re.compile(r"[-*+\u2022#>|]|\d{1,3}[.)]\s|\(\d{1,3}\)|[A-Za-z]\w{0,20}:")
"""Beginning of a line that is not the rest of the sentence before it: of a list, a heading, a table or a section."""
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n")
_NAME = re.compile(r"\w+(?:[.-]\w+)*")


def find_injection_phrases(text: str, *, is_for_model: bool = False, own: Collection[str] = ()) -> Iterator[str]:
    """Find attempts to manipulate a model, each in words; `is_for_model` for a text that is to instruct one.

    `own` are names of the server's tools: a sentence that says how they are used together names them.
    """
    plain = as_ascii(text[:MAX_LOOKED_AT])
    flat, parts = " ".join(plain.split()), _join_lines(plain)
    reported: set[str] = set()
    for pattern in _PATTERNS:
        if (is_for_model and not pattern.everywhere) or pattern.what in reported:
            continue
        # Two phrases belong together only within a paragraph or an item of a list; one phrase may go over line ends.
        phrase = _find(pattern, flat if pattern.lead is None and pattern.along is None else parts, own)
        if phrase is not None:
            reported.add(pattern.what)
            shown = phrase if len(phrase) <= 100 else f"{phrase[:99]}…"
            yield f'{pattern.what}: "{shown.strip()}"'


def _join_lines(text: str) -> str:
    """The text with a line end only after a paragraph or an item of a list: other lines go on in the next one."""
    parts: list[str] = []
    goes_on = False
    for line in text.splitlines():
        words = " ".join(line.split())
        if goes_on and words and not _LIST_ITEM.match(words):
            parts += (" ", words)
        elif words:
            parts += ("\n", words)
        goes_on = bool(words)
    return "".join(parts)


def _find(pattern: _Pattern, text: str, own: Collection[str]) -> str | None:
    for match in itertools.islice(pattern.phrase.finditer(text), _MOST):
        if pattern.along is not None:
            if _stands_along(pattern.along, text, match, own):
                return match[0]
            continue
        if pattern.lead is None:
            return match[0]
        before = text[max(0, match.start() - _NEAR) : match.start()].rpartition("\n")[2]
        lead = pattern.lead.search(before)
        if lead is not None:
            return before[lead.start() :] + match[0]
    return None


def _stands_along(along: re.Pattern[str], text: str, match: re.Match[str], own: Collection[str]) -> bool:
    """True if a pattern stands in the sentence of a match, and nothing of the server's own does."""
    before = _SENTENCE_END.split(text[max(0, match.start() - 2 * _NEAR) : match.start()])[-1]
    after = _SENTENCE_END.split(text[match.end() : match.end() + 2 * _NEAR], maxsplit=1)[0]
    sentence = before + after
    return along.search(sentence) is not None and not any(name in own for name in _NAME.findall(sentence))
