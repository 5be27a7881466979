"""Measures one request and tells the sink how it was served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from askonce.errors import RequestError, UpstreamError
from askonce.events import Served
from askonce.units import Seconds, Tokens

if TYPE_CHECKING:
    from types import TracebackType

    from askonce.canonical.answer import Answer
    from askonce.events import Tier
    from askonce.ports import Clock, Sink

Outcome = Literal["ok", "client_error", "upstream_error", "disconnected"]


class Meter:
    """From the request read to the last byte handed to the server; emits Served at the end."""

    __slots__ = ("_began", "_clock", "_saved", "_sink", "_started", "status", "streamed", "tier")

    def __init__(self, clock: Clock, sink: Sink) -> None:
        """Start the watch."""
        self._clock = clock
        self._sink = sink
        self._started = clock.monotonic()
        self._began: float | None = None
        self._saved = (Tokens(0), Tokens(0))
        self.tier: Tier = "none"
        self.status = 200
        self.streamed = False

    def began(self) -> None:
        """The first byte of the body goes out now; later calls change nothing."""
        if self._began is None:
            self._began = self._clock.monotonic()

    def saved(self, answer: Answer) -> None:
        """The engine did not have to compute these tokens again."""
        self._saved = answer.prompt_tokens, answer.completion_tokens

    def __enter__(self) -> Self:
        """Measure the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Tell the sink."""
        now = self._clock.monotonic()
        self._sink.emit(
            Served(
                tier=self.tier,
                outcome=self._outcome(error),
                streamed=self.streamed,
                latency=Seconds(now - self._started),
                ttft=Seconds((now if self._began is None else self._began) - self._started),
                saved_prompt=self._saved[0],
                saved_completion=self._saved[1],
            )
        )

    def _outcome(self, error: BaseException | None) -> Outcome:
        if isinstance(error, UpstreamError):
            return "upstream_error"
        if isinstance(error, RequestError):
            return "client_error"
        if error is not None:
            return "disconnected"
        if self.status < 400:
            return "ok"
        # Without a tier the status is our own: only the cache was to answer, and it could not.
        return "upstream_error" if self.status >= 500 and self.tier != "none" else "client_error"
