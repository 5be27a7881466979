"""What was taken back, in the order it was."""

from __future__ import annotations

from typing import Protocol

import msgspec

from askonce.units import UnixTime


class Selector(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entries that match every field that is set; none set means all."""

    key: str | None = None
    """Exact key, 64 hexadecimal digits."""
    model: str | None = None
    upstream: str | None = None
    revision: str | None = None
    namespace: str | None = None
    tenant: str | None = None
    """The caller's partition, 64 hexadecimal digits."""
    prompt: str | None = None
    """Digest of the system prompt, as `canonical.request.prompt_digest` gives it."""
    tag: str | None = None
    older_than: UnixTime | None = None
    """Answers from before then alone."""


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that takes entries back."""

    what: Selector
    at: UnixTime
    by: str = ""
    """Who asked for it, as an operator named them."""
    why: str = ""
    seq: int = 0
    """Place in the log, which gives it; 0 before."""


class RevocationPage(msgspec.Struct, frozen=True):
    """Part of a revocation log."""

    birth: int
    """Rules up to this number are not known any more, or never were: older entries are dead."""
    last: int
    """The newest rule's number; `birth` when there is none."""
    rules: tuple[Revocation, ...]


class RevocationLog(Protocol):
    """Rules in the order they were made, shared by all replicas; append only.

    Every call is atomic and raises StoreError on failure. Numbers grow, even past a log that was
    lost: the new log's birth is then above every number that the old one gave.
    """

    async def append(self, rule: Revocation) -> int:
        """Add the rule; returns its number, which every later `read` knows."""
        ...

    async def read(self, after: int, limit: int) -> RevocationPage:
        """Up to `limit` rules after that number, oldest first."""
        ...

    async def close(self) -> None:
        """Release everything; idempotent; later calls raise StoreError."""
        ...
