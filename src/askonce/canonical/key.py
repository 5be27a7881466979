"""The exact key and the semantic partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from askonce.canonical.request import Call, Question

KEY_VERSION = 1


class Scope(msgspec.Struct, frozen=True):
    """Everything beside the body that an answer depends on or is confined to."""

    endpoint: str
    """Dialect and endpoint, with the query string."""
    upstream: str
    revision: str
    tenant: bytes
    namespace: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Request headers that can change an answer, sorted."""


def exact_key(scope: Scope, call: Call) -> bytes:
    """SHA-256 over version, scope and canonical request, each length-delimited; 32 bytes."""
    raise NotImplementedError


def partition_key(scope: Scope, question: Question) -> bytes:
    """SHA-256 over version, scope and the question's frame; 32 bytes."""
    raise NotImplementedError
