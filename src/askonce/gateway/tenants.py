"""Who shares answers with whom: the partition that a caller's credential gives."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from askonce.config import TenantConfig

CREDENTIAL_HEADERS = frozenset({b"authorization", b"x-api-key", b"api-key"})


def partitioner(config: TenantConfig, secret: bytes) -> Callable[[bytes], bytes]:
    """A function from credential to partition (32 bytes).

    The hash is keyed with a server secret, so that a store never helps to guess credentials.
    Callers without a credential share one partition of their own.
    """
    if config.scope == "shared":
        return lambda _credential: bytes(32)

    def partition(credential: bytes) -> bytes:
        return hmac.digest(secret, b"tenant\0" + credential, hashlib.sha256)

    return partition
