"""Which store a URL means; a new backend is one line here, a third party's an entry point."""

from __future__ import annotations

import pkgutil
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol, cast
from urllib.parse import parse_qs

from askonce.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from askonce.ports import Clock, RevocationLog, Sink, Store

ENTRY_POINTS = "askonce.stores"
"""The entry point group: a name is a URL scheme, its object an `OpensStore`."""

REDIS = (
    *("redis", "rediss", "redis+unix", "redis+sentinel", "redis+cluster"),
    *("valkey", "valkeys", "valkey+unix", "valkey+sentinel", "valkey+cluster"),
)
BUILT_IN = {
    "memcached": "askonce.stores.memcached.store:open_memcached",
    "memory": "askonce.stores.memory:open_memory",
    "sqlite": "askonce.stores.sqlite.store:open_sqlite",
    **dict.fromkeys(REDIS, "askonce.stores.redis.store:open_redis"),
}

LOCAL = frozenset({"memory", "sqlite"})
"""Those that keep everything on this machine."""


REVOCATIONS = {
    "memcached": "askonce.stores.memcached.revocations:open_memcached_revocations",
    "memory": "askonce.stores.memory:open_memory_revocations",
    "sqlite": "askonce.stores.sqlite.revocations:open_sqlite_revocations",
    **dict.fromkeys(REDIS, "askonce.stores.redis.revocations:open_redis_revocations"),
}
"""Logs of what was taken back, by the scheme of the store that they stand beside."""


class OpensStore(Protocol):
    """What stands behind a scheme."""

    def __call__(
        self, url: str, *, clock: Clock, sink: Sink, max_bytes: int, data_dir: Path
    ) -> Store:
        """Open the store; raises ConfigError when the URL cannot be used."""
        ...


def open_store(url: str, *, clock: Clock, sink: Sink, max_bytes: int, data_dir: Path) -> Store:
    """Open the store that the URL names, inside a running event loop.

    max_bytes: bound of what it holds. data_dir: where it keeps files when the URL names no place.
    """
    opens = _opener(url.partition(":")[0])
    return opens(url, clock=clock, sink=sink, max_bytes=max_bytes, data_dir=data_dir)


def namespace_of(url: str) -> str:
    """The URL's `namespace`, by which several caches share one server; else empty."""
    return parse_qs(url.partition("?")[2]).get("namespace", [""])[0]


class OpensRevocations(Protocol):
    """What stands behind a scheme for the log of what was taken back."""

    def __call__(self, url: str, *, clock: Clock, sink: Sink, data_dir: Path) -> RevocationLog:
        """Open the log; raises ConfigError when the URL cannot be used."""
        ...


def open_revocations(url: str, *, clock: Clock, sink: Sink, data_dir: Path) -> RevocationLog:
    """Open the log of what was taken back from the store at this URL, inside a running loop.

    A store of a third party has its log in data_dir, which is then to be shared by all replicas.
    """
    scheme = url.partition(":")[0]
    opens = cast(
        "OpensRevocations", pkgutil.resolve_name(REVOCATIONS.get(scheme, REVOCATIONS["sqlite"]))
    )
    return opens(url, clock=clock, sink=sink, data_dir=data_dir)


def _opener(scheme: str) -> OpensStore:
    if scheme in BUILT_IN:
        return cast("OpensStore", pkgutil.resolve_name(BUILT_IN[scheme]))
    further = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if scheme in further:
        return cast("OpensStore", further[scheme].load())
    known = ", ".join(sorted({*BUILT_IN, *further}))
    raise ConfigError(f"no store is known by {scheme!r}; known are: {known}")
