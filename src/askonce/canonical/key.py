"""The exact key and the semantic partition."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from askonce.canonical.request import Call, Question

KEY_VERSION = 1


class Scope(msgspec.Struct, frozen=True, gc=False):
    """Everything beside the body that an answer depends on or is confined to."""

    endpoint: str
    """Dialect and endpoint, with the query string."""
    upstream: str
    revision: str
    tenant: bytes
    """32 bytes that differ with the caller's credential and with headers that can tell."""
    namespace: str = ""


def exact_key(scope: Scope, call: Call) -> bytes:
    """SHA-256 over version, scope and canonical request, each length-delimited; 32 bytes."""
    return hashlib.sha256(_opening(scope, b"exact") + _sized(call.canonical)).digest()


def partition_key(scope: Scope, question: Question) -> bytes:
    """SHA-256 over version, scope and the question's frame; 32 bytes.

    Questions whose earlier turns may differ have partitions of their own.
    """
    kind = b"conversation" if question.open else b"partition"
    return hashlib.sha256(_opening(scope, kind) + _sized(question.frame)).digest()


@lru_cache(maxsize=1024)
def _opening(scope: Scope, kind: bytes) -> bytes:
    """All that is hashed before the request, in a form that only this scope and kind have."""
    parts = [b"askonce", KEY_VERSION.to_bytes(4, "big"), kind]
    parts += [part.encode() for part in (scope.endpoint, scope.upstream, scope.revision)]
    parts += [scope.tenant, scope.namespace.encode()]
    return b"".join(map(_sized, parts))


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part
