"""A streamed answer, cut into pieces and read along."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askonce.cache.pieces import Cutter
from askonce.canonical.answer import facts
from askonce.errors import AnswerUnusable

USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n'
STREAM = (
    b": a comment\n\n"
    b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"on"}}]}\n\n'
    b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"ce"}}]}\n\n'
    b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    + USAGE
    + b"data: [DONE]\n\n"
)


def cut_all(cutter: Cutter, *chunks: bytes) -> bytes:
    """All bytes that come out."""
    pieces = [piece for chunk in chunks for piece in cutter.cut(chunk)]
    return b"".join(piece.data for piece in [*pieces, *cutter.rest()])


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_cut_of_the_wire_gives_the_same(cuts: list[int]) -> None:
    """However the bytes arrive, they go out whole and the answer is read."""
    edges = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[a:b] for a, b in pairwise(edges)]
    cutter = Cutter(10_000)
    assert cut_all(cutter, *chunks) == STREAM
    assert facts(cutter.answer()).texts == ("once",)


def test_usage_is_marked() -> None:
    """Only the event that carries nothing but usage is marked as such."""
    pieces = Cutter(10_000).cut(STREAM)
    assert [piece.data for piece in pieces if piece.usage_only] == [USAGE]


@given(st.lists(st.binary(max_size=50) | st.sampled_from([b"\n\n", b"data: ", b"{}", b"\r"])))
def test_garbage_goes_through_byte_for_byte(chunks: list[bytes]) -> None:
    """Bytes that are no events are the engine's own, pass unchanged, and are no answer."""
    cutter = Cutter(60)
    assert cut_all(cutter, *chunks) == b"".join(chunks)
    with pytest.raises(AnswerUnusable):
        cutter.answer()


def test_an_event_without_end_is_not_held() -> None:
    """Past the limit an unfinished event goes out as it comes, so that nothing grows."""
    cutter = Cutter(100)
    sizes = [sum(len(p.data) for p in cutter.cut(b"x" * 40)) for _ in range(6)]
    assert sizes == [0, 0, 120, 0, 0, 120]


def test_a_stream_past_the_limit_is_read_no_more() -> None:
    """Past the limit usage is still marked, but no answer is put together."""
    cutter = Cutter(len(STREAM) - len(USAGE) - len(b"data: [DONE]\n\n"))
    pieces = [piece for event in STREAM.split(b"\n\n") for piece in cutter.cut(event + b"\n\n")]
    assert [piece.data for piece in pieces if piece.usage_only] == [USAGE]
    with pytest.raises(AnswerUnusable):
        cutter.answer()
