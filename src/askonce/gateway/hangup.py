"""Noticing that a caller hung up while somebody works for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from askonce.gateway.http import ClientGone

if TYPE_CHECKING:
    from types import TracebackType

    from askonce.gateway.http import Receive

_DELAY = 0.02
"""Seconds before the watch begins: most answers are out by then and never pay for it."""


class WhileConnected:
    """Guards a block: when the caller hangs up, the block is cancelled and ClientGone raised.

    Give the block nothing else to receive from once `watch` was called.
    """

    def __init__(self, receive: Receive, *, delay: float = _DELAY) -> None:
        self._receive = receive
        self._delay = delay
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._guarded: asyncio.Task[None] | None = None
        self._cancelling = 0
        self._gone = False

    async def __aenter__(self) -> Self:
        self._guarded = asyncio.current_task()
        assert self._guarded is not None  # noqa: S101 - a coroutine always runs in a task
        self._cancelling = self._guarded.cancelling()
        return self

    def watch(self) -> None:
        """Begin to look for the hang-up; the request body must have been read whole."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay, self._start)

    def hang_up(self) -> None:
        """Tell that the caller is gone."""
        if self._guarded is not None and not self._gone:
            self._gone = True
            self._guarded.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        guarded, self._guarded = self._guarded, None
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait([self._watcher])
        if self._gone and guarded is not None:
            ours = guarded.uncancel() <= self._cancelling
            if ours and kind is not None and issubclass(kind, asyncio.CancelledError):
                raise ClientGone("the caller hung up") from error

    def _start(self) -> None:
        if self._guarded is not None:
            self._watcher = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.hang_up()
