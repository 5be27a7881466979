"""One text at a time on a thread of low priority, behind a short queue.

Batching gains next to nothing on a CPU, so texts wait in line and are shed past its end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from askonce.errors import EmbedderBusy, EmbedderError
from askonce.events import Embedded
from askonce.units import Seconds
from askonce.worker import WorkerBusy, WorkerClosed

if TYPE_CHECKING:
    from askonce.ports import Clock, ReadText, Sink, Vector
    from askonce.worker import Worker

NICE = 10
"""By how much the thread's priority is lower."""
WARM_UP = "How long does a warm-up of ten words take?"

_WEIGHT = 0.2
"""Of the newest time in the moving average."""
_CHARACTERS_PER_TOKEN = 4
_FIXED_TOKENS = 12
"""What a text costs beyond its tokens, in tokens: measured, 1.8 ms at 0.155 ms a token."""


class Encoder(Protocol):
    """A model that reads one text at a time, blocking."""

    id: str
    dim: int
    window: int
    """Tokens that it reads at most."""

    def read_packed(self, text: str) -> ReadText:
        """The text's vector, and its tokens' where it gives any; raises EmbedderError."""
        ...


class QueuedEmbedder:
    """An Embedder over an encoder and the thread that it runs in."""

    def __init__(
        self, encoder: Encoder, worker: Worker, *, queue: int, clock: Clock, sink: Sink
    ) -> None:
        """Take a loaded encoder and the thread it runs in."""
        self.id = encoder.id
        self.dim = encoder.dim
        self._encoder = encoder
        self._worker = worker
        self._queue = queue
        self._clock = clock
        self._sink = sink
        self._turn = asyncio.Lock()
        self._in_line = 0
        self._rate = 0.0
        self._tokens_ahead = 0.0
        self._embedded = 0
        self._shed = 0

    async def warm_up(self) -> None:
        """Learn the model's speed from one text."""
        _, took = await self._worker.run(lambda: self._timed(WARM_UP))
        self._rate = took / self._cost(WARM_UP)

    @property
    def expected_wait(self) -> Seconds:
        """How long a text that came now would wait before its turn, by the recent speed."""
        return Seconds(self._tokens_ahead * self._rate)

    def expected_time(self, text: str) -> Seconds:
        """How long `embed` would take now, by the length of this text and of those in line."""
        return Seconds((self._tokens_ahead + self._cost(text)) * self._rate)

    async def embed(self, text: str) -> Vector:
        """Embed one text; raises TextTooLong, EmbedderBusy, EmbedderError."""
        return (await self.read(text)).vector

    async def read(self, text: str) -> ReadText:
        """Embed one text with its tokens; raises as `embed`."""
        if self._waiting >= self._queue:
            self._shed += 1
            raise EmbedderBusy(f"{self._waiting} texts wait")
        cost = self._cost(text)
        self._tokens_ahead += cost
        try:
            found, took = await self._in_turn(text)
        finally:
            self._tokens_ahead -= cost
        self._note(took, cost)
        return found

    def statistics(self) -> dict[str, float]:
        """Figures since the start, and the state of the queue."""
        return {
            "embedded": self._embedded,
            "shed": self._shed,
            "waiting": self._waiting,
            "seconds_per_token": self._rate,
            "expected_wait_seconds": self.expected_wait,
        }

    async def close(self) -> None:
        """Finish the text in work and end the thread; idempotent."""
        await self._worker.close()

    @property
    def _waiting(self) -> int:
        """Texts in line and in work, given up ones that still compute included."""
        return self._in_line + self._worker.waiting

    async def _in_turn(self, text: str) -> tuple[ReadText, float]:
        """One job at a time goes to the worker: it would hand a batch back only as a whole."""
        self._in_line += 1
        try:
            await self._turn.acquire()
        finally:
            self._in_line -= 1
        try:
            return await self._worker.run(lambda: self._timed(text))
        except WorkerBusy as error:
            raise EmbedderBusy("its queue is full") from error
        except WorkerClosed as error:
            raise EmbedderError("the embedder is closed") from error
        finally:
            self._turn.release()

    def _timed(self, text: str) -> tuple[ReadText, float]:
        start = self._clock.monotonic()
        return self._encoder.read_packed(text), self._clock.monotonic() - start

    def _cost(self, text: str) -> float:
        """About how many tokens of work the text is."""
        return _FIXED_TOKENS + min(len(text) / _CHARACTERS_PER_TOKEN, self._encoder.window)

    def _note(self, took: float, cost: float) -> None:
        self._embedded += 1
        self._rate += _WEIGHT * (took / cost - self._rate)
        self._sink.emit(Embedded(took=Seconds(took)))
