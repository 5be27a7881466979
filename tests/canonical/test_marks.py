"""Piles of combining marks."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askonce.canonical.marks import piled_up
from askonce.canonical.request import parse_chat, question_of

PILE = "\u0301\u0327" * 16


@pytest.mark.parametrize("at", range(7))
def test_a_pile_is_seen_wherever_it_stands(at: int) -> None:
    """More than thirty marks on one letter are a pile, at any place in a text."""
    assert piled_up("a" * at + PILE + "b" * 50)


@pytest.mark.parametrize(
    "text", ["", "plain", "é" * 100, "a\u0301" * 100, "a" + PILE[:30], "नमस्ते" * 50]
)
def test_what_people_write_is_no_pile(text: str) -> None:
    """A few marks on each of many letters are a language."""
    assert not piled_up(text)


@given(st.text(alphabet="ab\u0301\u0327", max_size=80))
def test_it_counts_the_longest_run(text: str) -> None:
    """Exactly a run of more than thirty marks is a pile."""
    longest = max(map(len, text.replace("b", "a").split("a")))
    assert piled_up(text) == (longest > 30)


def test_a_request_full_of_marks_is_read_in_no_time() -> None:
    """Normal forms are not even tried, and no other question may be answered by its answer."""
    body = '{"model":"m","messages":[{"role":"user","content":"a%s"}]}' % (PILE * 20_000)
    began = time.perf_counter()
    call = parse_chat(body.encode())
    assert time.perf_counter() - began < 1
    assert question_of(call, max_temperature=1.0) == "piled_up_marks"
