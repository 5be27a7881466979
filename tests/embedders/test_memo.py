"""The memo before embedders: cheaper, bounded, and never another text's vector."""

from __future__ import annotations

import pytest

from askonce.embedders.memo import OVERHEAD, remembering
from askonce.errors import TextTooLong
from askonce.ports import SupportsTokens
from askonce.testing.embedders import HashingEmbedder, TokenEmbedder, check_embedder

pytestmark = pytest.mark.anyio

LARGE = 1_000_000


async def test_it_keeps_the_promises_of_what_is_behind_it() -> None:
    """It is an Embedder, with tokens where the other gives them, with a prefix and without."""
    for made in (HashingEmbedder, TokenEmbedder):
        for prefix in ("", "query: "):

            def make(made: type[HashingEmbedder] = made, prefix: str = prefix) -> object:
                return remembering(made(), max_bytes=LARGE, prefix=prefix)

            await check_embedder(make, window=512)  # type: ignore[arg-type]
    assert isinstance(remembering(TokenEmbedder(), max_bytes=LARGE), SupportsTokens)
    assert not isinstance(remembering(HashingEmbedder(), max_bytes=LARGE), SupportsTokens)


async def test_a_recent_text_costs_nothing() -> None:
    """It is embedded once, whichever way it is asked for, and expected to take no time."""
    behind = TokenEmbedder()
    memo = remembering(behind, max_bytes=LARGE)
    assert isinstance(memo, SupportsTokens)
    first = await memo.embed("a text")
    assert await memo.embed("a text") is first
    assert (await memo.read("a text")).tokens
    assert behind.embedded == ["a text"]
    assert memo.expected_time("a text") == 0.0 < memo.expected_time("another")


async def test_it_is_bounded_by_bytes_and_forgets_what_was_used_longest_ago() -> None:
    """A text that is used stays; a text larger than the bound is not kept."""
    behind = HashingEmbedder()
    memo = remembering(behind, max_bytes=3 * (64 * 4 + OVERHEAD + 4))
    for text in "abcab":
        await memo.embed(text)
    await memo.embed("d")
    await memo.embed("a")
    await memo.embed("c")
    assert "".join(behind.embedded) == "abcdc"
    await memo.embed("long" * 100)
    await memo.embed("long" * 100)
    await memo.embed("c")
    assert behind.embedded[5:] == ["long" * 100] * 2
    nothing = remembering(behind, max_bytes=0)
    await nothing.embed("x")
    await nothing.embed("x")
    assert behind.embedded.count("x") == 2


async def test_vectors_of_two_prefixes_never_meet() -> None:
    """The prefix is before what is embedded, and part of the id."""
    behind = HashingEmbedder(window=20)
    plain, query = (remembering(behind, max_bytes=LARGE, prefix=p) for p in ("", "query: "))
    await query.embed("text")
    assert behind.embedded == ["query: text"]
    assert plain.id == behind.id
    assert query.id != behind.id
    with pytest.raises(TextTooLong):
        await query.embed("x" * 15)


async def test_a_remembered_vector_cannot_be_changed() -> None:
    """What one caller does with a vector is no matter of the next one's."""
    vector = await remembering(HashingEmbedder(), max_bytes=LARGE).embed("a")
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 0.0
