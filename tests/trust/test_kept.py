"""What an index keeps of a question."""

from __future__ import annotations

import numpy as np
import pytest

from askonce.trust import kept as kept_
from askonce.trust.alignment import pack, to_bytes
from askonce.trust.kept import kept, parted
from askonce.trust.text import reading
from askonce.trust.text.reading import SHORT, Reading, analyse

_TEXT = "How do I reset 2 of my routers in Oslo?"
_DIM = 12
_TOKENS = to_bytes(
    pack(range(7), np.random.default_rng(0).standard_normal((7, _DIM)).astype(np.float32))
)


def _forget() -> None:
    reading._latest.clear()


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts that were read anew, of an empty memory."""
    read, told = reading.read, []

    def noted(text: str) -> Reading:
        told.append(text)
        return read(text)

    _forget()
    monkeypatch.setattr(reading, "read", noted)
    return told


@pytest.mark.parametrize("text", [_TEXT, "What's the cat's name, the cat's?", "", "?"])
def test_a_reading_comes_back_as_it_was_made(anew: list[str], text: str) -> None:
    """With its token vectors, and without being made again."""
    packed = kept(_TOKENS, text)
    made = analyse(text)
    _forget()
    tokens, found = parted(packed, text, _DIM)
    assert found == made
    assert to_bytes(tokens) == _TOKENS
    assert anew == [text]
    assert parted(packed, text, _DIM)[1] is found


@pytest.mark.parametrize("text", ["a" * (SHORT + 1), "half a pair: \ud83d"])
def test_of_long_and_odd_texts_only_tokens_are_kept(text: str) -> None:
    """Such are read when they come up."""
    assert kept(_TOKENS, text) == _TOKENS
    tokens, found = parted(_TOKENS, text, _DIM)
    assert len(tokens.ids) == 5
    assert found.surface.text == text


def test_without_token_vectors_nothing_is_kept() -> None:
    """No verifier looks there."""
    assert kept(b"", _TEXT) == b""
    assert parted(b"", _TEXT, _DIM)[1] == analyse(_TEXT)


@pytest.mark.parametrize("text", [_TEXT, "Wo ist der Schl\u00fcssel?"])
def test_what_other_rules_have_read_is_read_anew(
    anew: list[str], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Its token vectors are as good as ever."""
    with monkeypatch.context() as patch:
        patch.setattr(kept_, "mark", lambda: b"readANOTHER.")
        packed = kept(_TOKENS, text)
    _forget()
    tokens, found = parted(packed, text, _DIM)
    assert len(tokens.ids) == 5
    assert found.surface.text == text
    assert anew == [text, text]


def test_a_reading_that_is_broken_or_of_another_text_is_not_believed(anew: list[str]) -> None:
    """The text itself is read."""
    packed = kept(_TOKENS, _TEXT)
    for wrong, text in ((packed[:-3], _TEXT), (packed, "What else?")):
        _forget()
        tokens, found = parted(wrong, text, _DIM)
        assert len(tokens.ids) == 5
        assert found.surface.text == text
    assert anew == [_TEXT, _TEXT, "What else?"]


def test_token_vectors_of_another_dim_are_none() -> None:
    """With a reading behind them or without."""
    for packed in (_TOKENS, kept(_TOKENS, _TEXT)):
        assert not len(parted(packed, _TEXT, _DIM + 4)[0].ids)


def test_the_latest_readings_are_remembered(
    anew: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as there is room for; one that comes up again stays."""
    monkeypatch.setattr(reading, "_MOST", 2)
    for text in ("one", "two", "one", "three", "one", "two"):
        analyse(text)
    assert anew == ["one", "two", "three", "two"]
