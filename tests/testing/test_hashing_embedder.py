"""The fake embedder keeps the promises of the real ones."""

from __future__ import annotations

import pytest

from askonce.testing.embedders import HashingEmbedder, check_embedder

pytestmark = pytest.mark.anyio


async def test_it_keeps_every_promise_of_the_port() -> None:
    """The suite passes on the fake."""
    await check_embedder(HashingEmbedder, window=512)


async def test_near_texts_are_near() -> None:
    """A small change of the text is a small change of the vector."""
    embedder = HashingEmbedder()
    text = "What is the capital of France?"
    one, near, far = [
        await embedder.embed(words) for words in (text, f"{text}?", "Sort a list in Python")
    ]
    assert float(one @ near) > 0.9
    assert float(one @ far) < 0.6
    assert len(embedder.embedded) == 3
