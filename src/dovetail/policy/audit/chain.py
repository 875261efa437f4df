"""Format of the audit log: lines of JSON, each chained to the previous by SHA-256 and sealed with a key.

A line is `{…fields…,"hash":"…","seal":"…"}` and a newline. `hash` is the SHA-256 of the hash before it and of all bytes
of the line up to it; `seal` is an HMAC of `hash`. A second file, the head, says how many records there are, how many
bytes, and which hash is the last, under a seal too: without it nobody could see that the end was cut off.
"""

from __future__ import annotations

import functools
import hmac
import re
from hashlib import sha256
from typing import Any

import msgspec

START = "0" * 64
"""Stands before the first record."""
HEAD_BYTES = 20 + 1 + 20 + 1 + 64 + 1 + 64 + 1

_TAIL = re.compile(rb',"hash":"([0-9a-f]{64})","seal":"([0-9a-f]{64})"}\n')
TAIL_BYTES = len(b',"hash":"' + b"0" * 64 + b'","seal":"' + b"0" * 64 + b'"}\n')
_HEAD = re.compile(rb"([0-9]{20}) ([0-9]{20}) ([0-9a-f]{64}) ([0-9a-f]{64})\n")


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record of the log."""

    n: int
    """Its number; the first, number 0, opens the log and says where it is kept."""
    at: str
    """Time of writing, in UTC."""
    event: str
    server: str = ""
    name: str = ""
    by: str | None = None
    """The decider: "policy", "person" (the user) or "nobody"."""
    rule: str = ""
    definition: str | None = None
    details: dict[str, Any] = {}


class ChainedLine(msgspec.Struct, frozen=True):
    """A line of the record, taken apart."""

    body: bytes
    hash: str
    seal: str


class AuditHead(msgspec.Struct, frozen=True):
    """The end of the log: number of records, size and last hash."""

    count: int
    size: int
    hash: str


_encode = msgspec.json.Encoder(enc_hook=str).encode


def encode_entry(event: str, details: dict[str, Any] | None = None, **fields: Any) -> bytes:
    """The members of a record from its event on: number and time are known only when it is written."""
    return add_details(encode_fields(event, **fields), details or {})


def encode_fields(event: str, **fields: Any) -> bytes:
    """The part of an entry before its details, which is the same for all calls of a tool."""
    return _encode(AuditRecord(n=0, at="", event=event, **fields))[len(b'{"n":0,"at":"",') : -1]


def add_details(fields: bytes, details: dict[str, Any]) -> bytes:
    """An entry of its `encode_fields` and its details."""
    return b'%b,"details":%b' % (fields, _encode(details)) if details else fields


def encode_line(n: int, at: str, entry: bytes, before: str, key: bytes) -> tuple[bytes, str]:
    """The line of a record with this number and time, which follows a hash; and its own hash."""
    body = b'{"n":%d,"at":"%b",%b' % (n, at.encode(), entry)
    digest = link_hash(before, body)
    return b'%b,"hash":"%b","seal":"%b"}\n' % (body, digest.encode(), seal(key, digest).encode()), digest


def link_hash(before: str, body: bytes) -> str:
    """The hash of a line that follows a hash."""
    return sha256(before.encode() + body).hexdigest()


def seal(key: bytes, digest: str) -> str:
    """The HMAC of a hash, which only a holder of the key can make."""
    mac = _keyed(key).copy()
    mac.update(digest.encode())
    return mac.hexdigest()


@functools.lru_cache(maxsize=2)
def _keyed(key: bytes) -> hmac.HMAC:
    # To set up an HMAC with a key costs more than to compute it for a hash, and a log has one key.
    return hmac.new(key, b"record ", "sha256")


def split_line(line: bytes) -> ChainedLine | None:
    """Take a line apart; None if it is none of ours."""
    match = _TAIL.fullmatch(line, len(line) - TAIL_BYTES) if len(line) > TAIL_BYTES else None
    if match is None:
        return None
    return ChainedLine(line[:-TAIL_BYTES], match[1].decode(), match[2].decode())


def read_record(link: ChainedLine) -> AuditRecord | None:
    """The record of a line; None if it cannot be read."""
    try:
        return msgspec.json.decode(link.body + b"}", type=AuditRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def encode_head(head: AuditHead, key: bytes) -> bytes:
    """The content of the head file; always of the same length, so that it can be written over."""
    text = b"%020d %020d %b" % (head.count, head.size, head.hash.encode())
    return b"%b %b\n" % (text, hmac.digest(key, b"head " + text, "sha256").hex().encode())


def decode_head(content: bytes, key: bytes) -> AuditHead | None:
    """The content of a head file; None if it was not written with this key."""
    match = _HEAD.fullmatch(content)
    if match is None:
        return None
    head = AuditHead(int(match[1]), int(match[2]), match[3].decode())
    return head if hmac.compare_digest(encode_head(head, key), content) else None
