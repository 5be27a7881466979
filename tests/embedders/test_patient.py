"""What nobody waits for is embedded when no request's text is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from askonce.embedders import patient
from askonce.embedders.patient import PatientEmbedder
from askonce.errors import EmbedderBusy
from askonce.testing.embedders import TokenEmbedder

if TYPE_CHECKING:
    from askonce.ports import Vector

pytestmark = pytest.mark.anyio


async def test_a_text_waits_for_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """While requests have texts to embed it waits, and then gets the vector as it is."""
    monkeypatch.setattr(patient, "PAUSE", 0.001)
    busy = [True, True, False]
    inner = TokenEmbedder(dim=16)
    made = PatientEmbedder(inner, lambda: busy.pop(0))
    assert (await made.embed("a b") == await inner.embed("a b")).all()
    assert busy == []
    assert (made.id, made.dim) == (inner.id, inner.dim)
    assert made.expected_time("a") == inner.expected_time("a")


async def test_without_a_pause_a_text_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience ends, and closing leaves the other embedder open."""
    monkeypatch.setattr(patient, "PAUSE", 0.001)
    monkeypatch.setattr(patient, "PATIENCE", 3)
    inner = TokenEmbedder(dim=16)
    made = PatientEmbedder(inner, lambda: True)
    with pytest.raises(EmbedderBusy):
        await made.embed("a b")
    await made.close()
    await inner.embed("still open")


async def test_one_text_at_a_time() -> None:
    """A request's text waits for one of these at most."""
    at_once = [0, 0]

    class Slow(TokenEmbedder):
        async def embed(self, text: str) -> Vector:
            at_once[0] += 1
            at_once[1] = max(at_once)
            await asyncio.sleep(0)
            at_once[0] -= 1
            return await super().embed(text)

    made = PatientEmbedder(Slow(dim=16), lambda: False)
    await asyncio.gather(*(made.embed(f"text {n}") for n in range(5)))
    assert at_once == [0, 1]


async def test_those_who_wait_are_given_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """None waits for another's patience to end before its own begins."""
    monkeypatch.setattr(patient, "PAUSE", 0.0)
    monkeypatch.setattr(patient, "PATIENCE", 3)
    made = PatientEmbedder(TokenEmbedder(dim=16), lambda: True)
    waiting = [asyncio.create_task(made.embed(f"text {n}")) for n in range(5)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert [one.done() and type(one.exception()) for one in waiting] == [EmbedderBusy] * 5
