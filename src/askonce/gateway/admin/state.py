"""Operations that say how this worker is: what it holds, what it counted, which parts it leaves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from askonce.errors import CacheFault
from askonce.gateway.admin.operations import Asked, Operation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from askonce.cache.steps import Steps
    from askonce.invalidation.watch import Watch
    from askonce.ports import Store, VectorIndex


T = TypeVar("T")


class Sample(msgspec.Struct, frozen=True):
    """One figure of `/metrics`."""

    name: str
    labels: dict[str, str]
    value: float


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """What is held and what was counted; a part that cannot say has null."""

    entries: int | None
    bytes: int | None
    questions: int | None
    """In the vector index."""
    last_rule: int
    """The newest rule that this worker knows."""
    rules: int
    """In force."""
    blind: bool
    """The log of rules cannot be read: nothing is served from the cache."""
    figures: list[Sample]


class Breakers(msgspec.Struct, frozen=True):
    """Closed, open or half open, by part, of this worker."""

    states: dict[str, str]


class State:
    """Over the parts."""

    def __init__(
        self,
        store: Store,
        index: VectorIndex | None,
        watch: Watch,
        steps: Steps,
        render: Callable[[], bytes],
    ) -> None:
        """render: gives the page for Prometheus; may block."""
        self._store = store
        self._index = index
        self._watch = watch
        self._steps = steps
        self._render = render

    async def read_stats(self, _: Asked) -> Stats:
        """What is held and counted."""
        held = await _or_none(self._store.stats())
        questions = None if self._index is None else await _or_none(self._index.count())
        page = await asyncio.to_thread(self._render)
        return Stats(
            entries=None if held is None else held.entries,
            bytes=None if held is None else held.size,
            questions=questions,
            last_rule=self._watch.stamp,
            rules=self._watch.rules,
            blind=self._watch.blind,
            figures=_samples(page),
        )

    async def read_breakers(self, _: Asked) -> Breakers:
        """Which parts are left alone."""
        return Breakers({str(part): state for part, state in self._steps.states().items()})

    def operations(self) -> Sequence[Operation]:
        """For the table."""
        return (
            Operation(
                method="GET",
                path="/stats",
                summary="What the cache holds and what it has counted",
                run=self.read_stats,
                answer=Stats,
            ),
            Operation(
                method="GET",
                path="/breakers",
                summary="Which parts this worker leaves alone",
                run=self.read_breakers,
                answer=Breakers,
            ),
        )


async def _or_none(asked: Awaitable[T]) -> T | None:
    try:
        return await asked
    except CacheFault:
        return None


def _samples(page: bytes) -> list[Sample]:
    return [
        Sample(sample.name, dict(sample.labels), sample.value)
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    ]
