"""Which vector index a URL means; a new one is one line here, a third party's an entry point."""

from __future__ import annotations

import pkgutil
import re
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol, cast
from urllib.parse import parse_qsl, urlencode

from askonce.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterable

    from askonce.ports import Clock, Sink, VectorIndex
    from askonce.vectors.binding import Binding

ENTRY_POINTS = "askonce.vectors"
"""The entry point group: a name is a URL scheme, its object an `OpensIndex`."""

BUILT_IN = {
    "faiss": "askonce.vectors.faiss:open_faiss",
    "local": "askonce.vectors.local:open_local",
    "milvus": "askonce.vectors.milvus:open_milvus",
    "milvuss": "askonce.vectors.milvus:open_milvus",
    "postgres": "askonce.vectors.postgres:open_postgres",
    "postgresql": "askonce.vectors.postgres:open_postgres",
    "qdrant": "askonce.vectors.qdrant:open_qdrant",
    "qdrants": "askonce.vectors.qdrant:open_qdrant",
    "redis": "askonce.vectors.redis_sets:RedisSetIndex",
    "rediss": "askonce.vectors.redis_sets:RedisSetIndex",
    "redis+unix": "askonce.vectors.redis_sets:RedisSetIndex",
    "redisearch": "askonce.vectors.redisearch:RediSearchIndex",
    "redisearchs": "askonce.vectors.redisearch:RediSearchIndex",
    "redisearch+unix": "askonce.vectors.redisearch:RediSearchIndex",
}

PREFIX = "askonce"
"""Begins the name of everything in a shared server, unless a URL says `?prefix=` otherwise."""

_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,30}")


class OpensIndex(Protocol):
    """What stands behind a scheme."""

    def __call__(self, url: str, *, binding: Binding, clock: Clock, sink: Sink) -> VectorIndex:
        """Open the index; raises ConfigError when the URL cannot be used."""
        ...


def open_index(url: str, *, binding: Binding, clock: Clock, sink: Sink) -> VectorIndex:
    """Open the index that the URL names, inside a running event loop; connects to nothing yet."""
    opens = _opener(url.partition(":")[0])
    return opens(url, binding=binding, clock=clock, sink=sink)


def _opener(scheme: str) -> OpensIndex:
    if scheme in BUILT_IN:
        try:
            return cast("OpensIndex", pkgutil.resolve_name(BUILT_IN[scheme]))
        except ImportError as error:
            raise MissingExtra(error.name or "numpy", "semantic") from error
    further = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if scheme in further:
        return cast("OpensIndex", further[scheme].load())
    known = ", ".join(sorted({*BUILT_IN, *further}))
    raise ConfigError(f"no vector index is known by {scheme!r}; known are: {known}")


class Options:
    """What a URL's query says to AskOnce; the rest of the query stays in `url`, for the driver."""

    def __init__(self, url: str, known: Iterable[str]) -> None:
        """Take the known ones out of the query."""
        ours = {*known, "prefix"}
        place, _, query = url.partition("?")
        pairs = parse_qsl(query, keep_blank_values=True)
        self._values = {name: value for name, value in pairs if name in ours}
        rest = urlencode([pair for pair in pairs if pair[0] not in ours])
        self.url = f"{place}?{rest}" if rest else place

    @property
    def prefix(self) -> str:
        """Of every name in the server; raises ConfigError."""
        prefix = self._values.get("prefix", PREFIX)
        if not _PREFIX.fullmatch(prefix):
            raise ConfigError(f"prefix {prefix!r}: a small letter, then letters, digits and _")
        return prefix

    def text(self, name: str, default: str) -> str:
        """Any text."""
        return self._values.get(name, default)

    def number(self, name: str, default: int) -> int:
        """A count of at least 1; raises ConfigError."""
        text = self._values.get(name, str(default))
        if not text.isdecimal() or int(text) < 1:
            raise ConfigError(f"{name} must be a whole number of at least 1, not {text!r}")
        return int(text)

    def choice(self, name: str, default: str, *others: str) -> str:
        """One of these words; raises ConfigError."""
        value = self._values.get(name, default)
        if value not in {default, *others}:
            raise ConfigError(f"{name} must be one of {', '.join((default, *others))}")
        return value
