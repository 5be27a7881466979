"""What both kinds of index in Redis have in common, first of all one hash an item."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from askonce.ports import IndexedText
from askonce.units import UnixTime
from askonce.vectors.binding import check_names, check_vector
from askonce.vectors.ranking import Row, nearest_live, packed, unpacked
from askonce.vectors.redis_wire import CONNECTIONS, RedisWire, driver_url
from askonce.vectors.tally import Tally
from askonce.vectors.urls import Options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Clock, Neighbour, Sink, Vector
    from askonce.vectors.binding import Binding
    from askonce.vectors.redis_wire import Script, Word

FIELDS = ("p", "x", "t", "k", "v")
"""Partition, end of life, text, tokens, vector."""

KEYS_AT_ONCE = 500
"""In one script, which holds up the server."""

_LONGEST_LIFE_MS = 10 * 365 * 86400 * 1000


def life_ms(item: IndexedText, now: UnixTime) -> int:
    """How long a hash may stay, by the server's own clock."""
    return max(1, min(math.ceil((item.expires_at - now) * 1000), _LONGEST_LIFE_MS))


def row_of(key: bytes, fields: Sequence[bytes | None], partition: bytes) -> Row | None:
    """A hash's fields as a row; None for what is gone, damaged or of another partition."""
    found, end, text, tokens, vector = fields
    if found != partition or end is None or text is None or tokens is None or vector is None:
        return None
    try:
        item = IndexedText(key, unpacked(text), UnixTime(float(end)), tokens)
    except ValueError:
        return None
    return Row(item, vector)


def fields_of(item: IndexedText, vector: bytes, partition: bytes) -> list[bytes]:
    """An item as field, value, field, value."""
    values = (partition, b"%r" % item.expires_at, packed(item.text), item.tokens, vector)
    named = zip(FIELDS, values, strict=True)
    return [word for name, value in named for word in (name.encode(), value)]


class RedisIndex(ABC):
    """Most of a VectorIndex. Past the bound, the items whose life ends first leave."""

    scheme: str
    """And with `s` for TLS, and with `+unix` for a socket file."""
    option: str
    """Of the URL, that says which of its kinds the index is."""
    kinds: ClassVar[dict[str, int]]
    """The usual one first; with each the candidates beyond k, to be ranked by whole vectors."""

    def __init__(self, url: str, *, binding: Binding, clock: Clock, sink: Sink) -> None:
        """Connect to nothing yet; raises ConfigError, MissingExtra."""
        options = Options(url, (self.option, "connections"))
        self._wire = RedisWire(
            driver_url(options.url, self.scheme),
            connections=options.number("connections", CONNECTIONS),
        )
        self._kind = options.choice(self.option, *self.kinds)
        self._base = f"{{{binding.name(options.prefix)}_{self._kind}}}:".encode()
        """Begins every key; its hash tag keeps all of them in one slot."""
        self._binding = binding
        self._clock = clock
        self._tally = Tally(sink, binding.dim)

    async def add(self, partition: bytes, item: IndexedText, vector: Vector) -> None:
        """Insert or replace by item.key, wherever it was before."""
        check_vector(vector, self._binding.dim)
        check_names(partition, item.key)
        now = self._clock.now()
        if item.expires_at <= now:
            await self.delete([item.key])
        else:
            await self._put(partition, item, vector.tobytes(), now)

    async def search(self, partition: bytes, vector: Vector, *, k: int) -> list[Neighbour]:
        """The k nearest live items by exact cosine; one round trip."""
        check_vector(vector, self._binding.dim)
        self._tally.searches += 1
        fetch = partial(self._nearest, partition, vector.tobytes())
        now, spare = self._clock.now(), self.kinds[self._kind]
        return await nearest_live(fetch, vector, k=k, now=now, spare=spare)

    async def delete(self, keys: Sequence[bytes]) -> int:
        """Remove items by entry key in any partition; returns how many live ones there were."""
        return self._tally.gone("cleared", await self._delete(list(dict.fromkeys(keys))))

    def statistics(self) -> dict[str, float]:
        """What this process has seen."""
        return self._tally.statistics()

    async def close(self) -> None:
        """Drop all connections; idempotent."""
        await self._wire.close()

    async def _over(self, keys: Sequence[bytes], script: Script, *words: Word) -> int:
        """The sum of what a script says of keys, some at once; first it is told the time."""
        now, told = self._clock.now(), 0
        for start in range(0, len(keys), KEYS_AT_ONCE):
            some = keys[start : start + KEYS_AT_ONCE]
            told += await self._wire.run(script, self._base, now, *words, *some)
        return told

    @abstractmethod
    async def _put(self, partition: bytes, item: IndexedText, vector: bytes, now: UnixTime) -> None:
        """Keep what lives and has been checked."""

    @abstractmethod
    async def _nearest(self, partition: bytes, question: bytes, count: int) -> list[Row | None]:
        """Up to so many candidates; None for one that cannot be read or is of another partition."""

    @abstractmethod
    async def _delete(self, keys: Sequence[bytes]) -> int:
        """Wherever they are; returns how many lived."""
