"""Takes credentials out of what is written down: of queries, and of bodies that name them.

Providers' own fields alone: what a caller writes into a prompt is the caller's.
"""

from __future__ import annotations

import re

import msgspec

HIDDEN = "***"
_IN_QUERY = re.compile("key|token|secret|password|credential|auth|sig|code", re.IGNORECASE)
_IN_BODY = frozenset(
    {"api_key", "authorization", "authorization_token", "extra_headers", "headers"}
)
_PARTS = ("tools", "mcp_servers")
"""Lists of objects that may hold another server's credential."""

_Members = dict[str, msgspec.Raw]
_HIDDEN = msgspec.Raw(msgspec.json.encode(HIDDEN))
_encode = msgspec.json.encode
_members = msgspec.json.Decoder(_Members).decode
_parts = msgspec.json.Decoder(list[_Members]).decode


def query_without_secrets(query: str) -> str:
    """The query, without the values of members that sound like a credential."""
    return "&".join(map(_told, query.split("&")))


def without_secrets(body: bytes) -> bytes:
    """The JSON body, byte for byte where it names no credential; raises MsgspecError."""
    if not any(b'"%b"' % name.encode() in body for name in _IN_BODY) or body.lstrip()[:1] != b"{":
        return body
    members = _hidden(_members(body))
    for name in _PARTS:
        if bytes(members.get(name, b"")).lstrip()[:1] == b"[":
            members[name] = msgspec.Raw(_encode([*map(_hidden, _parts(members[name]))]))
    return _encode(members)


def _told(member: str) -> str:
    name, mark, _ = member.partition("=")
    return f"{name}{mark}{HIDDEN}" if mark and _IN_QUERY.search(name) else member


def _hidden(members: _Members) -> _Members:
    return {name: _HIDDEN if name in _IN_BODY else value for name, value in members.items()}
