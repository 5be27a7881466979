"""WordPiece as BERT's uncased models use it, which refuses a text instead of cutting it."""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import TYPE_CHECKING

from askonce.errors import ConfigError, EmbedderError, MissingExtra, TextTooLong

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CHARACTERS_PER_TOKEN = 64
"""More than this for each token of the window is refused unread: it bounds the work."""


def shipped_vocabulary() -> bytes:
    """The vocabulary of bert-base-uncased, one piece a line."""
    return resources.files("askonce.embedders").joinpath("data", "vocab.txt").read_bytes()


class WordPiece:
    """Text to token ids, [CLS] and [SEP] included."""

    def __init__(self, source: bytes, *, max_tokens: int, is_json: bool = False) -> None:
        """Build from a vocabulary, or from a `tokenizer.json`; raises ConfigError."""
        try:
            self._tokenizer = _from_json(source) if is_json else _from_vocabulary(source)
        except ImportError as error:
            raise MissingExtra("tokenizers", "semantic") from error
        except (ValueError, TypeError) as error:
            raise ConfigError(f"the tokenizer cannot be read: {error}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.max_tokens = max_tokens
        self.digest = hashlib.sha256(source).hexdigest()

    def encode(self, text: str) -> list[int]:
        """The ids of the whole text; raises TextTooLong, EmbedderError."""
        if len(text) > self.max_tokens * _CHARACTERS_PER_TOKEN:
            raise TextTooLong(f"{len(text)} characters")
        try:
            ids: list[int] = self._tokenizer.encode(text).ids
        except TypeError as error:
            raise EmbedderError("the text has a lone surrogate") from error
        if len(ids) > self.max_tokens:
            raise TextTooLong(f"{len(ids)} tokens, the window holds {self.max_tokens}")
        return ids


def _from_json(source: bytes) -> Tokenizer:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_buffer(source)
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(str(error)) from error


def _from_vocabulary(source: bytes) -> Tokenizer:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    pieces = source.decode("utf-8").splitlines()
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    absent = [piece for piece in special if piece not in vocabulary]
    if absent or len(vocabulary) != len(pieces):
        raise ValueError(f"not a WordPiece vocabulary: {absent or 'pieces repeat'}")
    tokenizer = Tokenizer(
        models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)  # noqa: S106 - a token of text
    )
    tokenizer.add_special_tokens(special)
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(piece, vocabulary[piece]) for piece in ("[CLS]", "[SEP]")],
    )
    return tokenizer
