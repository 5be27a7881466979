"""The tokenizer gives what the model was trained with, whole or not at all."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from askonce.embedders.wordpiece import WordPiece, shipped_vocabulary
from askonce.errors import ConfigError, EmbedderError, TextTooLong

GOLDEN = json.loads(Path(__file__).with_name("wordpiece.json").read_text())
"""Texts, and the ids that the tokenizer.json of all-MiniLM-L6-v2 gives."""


@pytest.fixture(scope="module")
def wordpiece() -> WordPiece:
    """The shipped vocabulary with the model's window."""
    return WordPiece(shipped_vocabulary(), max_tokens=256)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: ascii(case["text"][:20]))
def test_ids_are_those_of_the_original(
    wordpiece: WordPiece, case: dict[str, str | list[int]]
) -> None:
    """Every text of the sample is split as the original tokenizer splits it."""
    assert wordpiece.encode(str(case["text"])) == case["ids"]


def test_the_shipped_vocabulary_is_the_published_one() -> None:
    """Its bytes are those of bert-base-uncased."""
    digest = hashlib.sha256(shipped_vocabulary()).hexdigest()
    assert digest == "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"


def test_the_window_is_exact(wordpiece: WordPiece) -> None:
    """A text that fills the window passes, and one more token is refused, not cut."""
    assert len(wordpiece.encode("the " * 254)) == 256
    with pytest.raises(TextTooLong):
        wordpiece.encode("the " * 255)


def test_a_huge_text_is_refused_unread(wordpiece: WordPiece) -> None:
    """A text of few tokens but very many characters is too long as well."""
    with pytest.raises(TextTooLong):
        wordpiece.encode("x" * 1_000_000)


def test_a_lone_surrogate_is_an_embedder_error(wordpiece: WordPiece) -> None:
    """Text that is not Unicode cannot be embedded."""
    with pytest.raises(EmbedderError):
        wordpiece.encode("\ud800")


def test_a_json_that_cuts_and_pads_is_made_to_do_neither(wordpiece: WordPiece) -> None:
    """The truncation and padding set in a tokenizer.json are turned off."""
    source = json.loads(wordpiece._tokenizer.to_str())
    source["truncation"] = {
        "max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right",
    }  # fmt: skip
    source["padding"] = {
        "strategy": {"Fixed": 128}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
    }  # fmt: skip
    other = WordPiece(json.dumps(source).encode(), max_tokens=256, is_json=True)
    assert other.encode("the " * 20) == wordpiece.encode("the " * 20)
    assert other.digest != wordpiece.digest


@pytest.mark.parametrize(
    "source", [b"", b"only\nwords", b"\xff\xfe", b"[PAD]\n[UNK]\n[CLS]\n[SEP]"]
)
def test_a_broken_vocabulary_is_a_config_error(source: bytes) -> None:
    """A file that is no vocabulary is refused with the reason."""
    with pytest.raises(ConfigError):
        WordPiece(source, max_tokens=256)


def test_a_broken_json_is_a_config_error() -> None:
    """A tokenizer.json that cannot be read is refused with the reason."""
    with pytest.raises(ConfigError):
        WordPiece(b"{}", max_tokens=256, is_json=True)
