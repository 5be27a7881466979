"""Who shares answers with whom: the partition that a caller's credential gives."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from askonce.config import TenantConfig

CREDENTIAL_HEADERS = frozenset({b"authorization", b"x-api-key", b"api-key"})


def joined(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Headers in a form that only they have: none holds a NUL."""
    return b"\0".join(part for pair in pairs for part in pair)


def author_of(config: TenantConfig, secret: bytes) -> Callable[[bytes], bytes]:
    """A function from a credential to who wrote an entry: 16 bytes, or none where it is no matter.

    The same credential sent in another header is another author, which only delays confirmation.
    """
    matters = config.scope == "shared" and config.confirm != "off"

    def author(credential: bytes) -> bytes:
        if not matters:
            return b""
        return hmac.digest(secret, b"author\0" + credential, hashlib.sha256)[:16]

    return author


def partitioner(config: TenantConfig, secret: bytes) -> Callable[[bytes, bytes], bytes]:
    """A function from a credential and other telling headers to a partition of 32 bytes.

    The hash is keyed with a server secret, so that a store never helps to guess credentials.
    Callers without a credential share one partition of their own.
    """
    shared = config.scope == "shared"

    def partition(credential: bytes, others: bytes) -> bytes:
        known = b"" if shared else credential
        told = b"tenant\0%d\0%b\0%b" % (len(known), known, others)
        return hmac.digest(secret, told, hashlib.sha256)

    return partition
