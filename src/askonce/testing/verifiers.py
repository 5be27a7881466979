"""What every verifier must do, as a suite that any author can run, and a fake that does it.

    await check_verifier(lambda: MyVerifier(...))

It raises AssertionError with the broken promise in plain words.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from askonce.errors import CacheFault, TextTooLong, VerifierBusy, VerifierError
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from askonce.ports import Verifier

_ONE, _OTHER = "What is a cat?", "what is a cat, please?"
_MANY = 64


class ScriptedVerifier:
    """A fake `Verifier` that says what it is told, and remembers what it was asked."""

    def __init__(self, say: Callable[[str, str], float], *, takes: float = 0.0) -> None:
        """say: log odds of a pair, or raises; takes: what `expected_time` tells."""
        self._say = say
        self._takes = takes
        self.asked: list[tuple[str, str]] = []
        self.closed = False

    def expected_time(self, question: str, cached: str) -> Seconds:  # noqa: ARG002
        """See `Verifier`."""
        return Seconds(self._takes)

    async def verify(self, question: str, cached: str) -> float:
        """See `Verifier`."""
        if self.closed:
            raise VerifierError("closed")
        self.asked.append((question, cached))
        return self._say(question, cached)

    async def close(self) -> None:
        """See `Verifier`."""
        self.closed = True


async def check_verifier(make: Callable[[], Awaitable[Verifier]]) -> None:
    """Hold a verifier against every sentence of `Verifier`."""
    verifier = await make()
    try:
        odds = await verifier.verify(_ONE, _OTHER)
        _expect(math.isfinite(odds), "an opinion is a finite number")
        _expect(await verifier.verify(_ONE, _OTHER) == odds, "the same pair gets the same opinion")
        _expect(verifier.expected_time(_ONE, _OTHER) >= 0, "an expected time is not below 0")
        await _sheds_or_answers(verifier, odds)
        await _strange_texts(verifier)
    finally:
        await verifier.close()
    await verifier.close()
    _expect(await _raises(VerifierError, verifier, _ONE), "verify raises VerifierError after close")


async def _sheds_or_answers(verifier: Verifier, odds: float) -> None:
    calls = [verifier.verify(_ONE, _OTHER) for _ in range(_MANY)]
    for found in await asyncio.gather(*calls, return_exceptions=True):
        sound = found == odds or isinstance(found, VerifierBusy)
        _expect(sound, "many at once are answered as one alone, or shed by VerifierBusy")
    _expect(await verifier.verify(_ONE, _OTHER) == odds, "what was shed harms nothing later")


async def _strange_texts(verifier: Verifier) -> None:
    for text in ("", "\x00", "é漢字🙂" * 10, "\ud800"):
        try:
            _expect(math.isfinite(await verifier.verify(text, _ONE)), "strange texts get opinions")
        except CacheFault:
            continue
    long = "word " * 1_000_000
    try:
        _expect(math.isfinite(await verifier.verify(long, _ONE)), "long texts get opinions")
    except TextTooLong:
        return


async def _raises(error: type[Exception], verifier: Verifier, text: str) -> bool:
    try:
        await verifier.verify(text, text)
    except error:
        return True
    return False


def _expect(kept: bool, promise: str) -> None:  # noqa: FBT001 - reads as a sentence where it is called
    if not kept:
        raise AssertionError(promise)
