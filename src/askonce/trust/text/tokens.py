"""A text cut into tokens: words, numbers, code and operators."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Literal

import msgspec

Kind = Literal["word", "number", "code", "operator"]

_SPAN = re.compile(r"(?<!`)`++([^`]+)`++")
_PIECE = re.compile(
    r"\d{1,2}:\d{2}(?!\d)|\d+(?:[.,]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)*|[$€£¥₹%]|[+*/=<>^]+|[-\u2212\u2013](?=\d)"
)
CODE = re.compile(
    r"\w_\w|://|^www\.|@\w|\\|::|->|\w\(\)|^[~.]{0,2}/\w|^--?[a-z]|[^\W\d_]{2}\.[a-z]|^[a-z]{1,2}(?:\+\+|#)$"
)
INITIALS = re.compile(r"^(?:[^\W\d_]\.)+[^\W\d_]?$")
_WORD = re.compile(r"^[^\W\d_]+$")
EDGES = "\"'.,;:!?()[]{}<>…“”\u2018«»¿¡*"
_MOST_MARKS = 30
_TELLING = frozenset({"<super>", "<sub>", "<circle>", "<fraction>", "<square>"})
_FROWN = re.compile(r"^[:;=]['\u2019]?-?[(\[/|\\cC]+$|^[)\]]+-?[:;=]$")
"""A face that is not smiling; a smile says nothing about a question."""
_MINUS = "-\u2212\u2013"
_SYMBOL = re.compile(
    r"[^\w\s.,;:!?'\"()\[\]{}…“”\u2018\u2019«»¿¡\-\u2013—*/\\_+=<>|~^`&@#$%€£¥₹\uFE0F]"
)


class Token(msgspec.Struct, frozen=True, gc=False):
    """One token, in lower case."""

    text: str
    kind: Kind = "word"
    capital: bool = False
    """It begins with a capital, or holds one inside, where a sentence does not ask for it."""


def normalised(text: str) -> str:
    """The text in one Unicode form, with plain apostrophes and single spaces.

    Composing is quadratic in a run of combining marks, so a text with a long one stays as it is.
    """
    if not text.isascii() and not _piled(text):
        text = unicodedata.normalize("NFC", "".join(map(_plain, text)))
    return " ".join(text.replace("\u2019", "'").split())


def _piled(text: str) -> bool:
    run = 0
    for char in text:
        run = run + 1 if not char.isascii() and _marks(char) else 0
        if run > _MOST_MARKS:
            return True
    return False


@lru_cache(maxsize=4096)
def _marks(char: str) -> bool:
    return all(unicodedata.combining(part) for part in unicodedata.normalize("NFKD", char))


@lru_cache(maxsize=4096)
def _plain(char: str) -> str:
    """The compatible form of a character, unless it is raised, lowered, circled or a fraction."""
    kind = unicodedata.decomposition(char).partition(" ")[0]
    return char if kind in _TELLING else unicodedata.normalize("NFKC", char)


def tokens(text: str) -> list[Token]:
    """All tokens of a normalised text, in order; linear in its length."""
    found: list[Token] = []
    initial = True
    position = 0
    for span in _SPAN.finditer(text) if "`" in text else ():
        initial = _prose(text[position : span.start()], found, initial=initial)
        found.append(Token(span[1].strip().casefold(), "code"))
        position = span.end()
    _prose(text[position:], found, initial=initial)
    return found


def _prose(text: str, found: list[Token], *, initial: bool) -> bool:
    for chunk in text.split():
        if chunk.isalpha() and chunk.isascii():  # most are: no mark, no regular expression
            found.append(_word(chunk, initial))
            initial = False
            continue
        core = chunk.strip(EDGES)
        _chunk(chunk, core, found, initial=initial)
        if core:
            initial = chunk[-1] in ".!?:…" and not INITIALS.match(core)
    return initial


@lru_cache(maxsize=8192)
def _word(text: str, initial: bool) -> Token:  # noqa: FBT001 - a keyword costs a cached call twice
    return Token(text.casefold(), "word", _capital(text, initial=initial))


def _chunk(chunk: str, core: str, found: list[Token], *, initial: bool) -> None:
    if _FROWN.match(chunk):
        found.append(Token(chunk, "code"))
    elif _WORD.match(core) and not _ideographic(core):
        found.append(_word(core, initial))
    elif INITIALS.match(core):
        found.append(Token(core.replace(".", "").casefold(), "word", not initial))
    elif core and CODE.search(core):
        found.append(Token(core.casefold().rstrip("/"), "code"))
    else:
        _pieces(core or chunk, found, initial=initial)


def _capital(word: str, *, initial: bool) -> bool:
    if word in {"I", "OK"} or word.islower():
        return False
    if len(word) > 1 and (word.isupper() or not word[1:].islower()):
        return True
    return word[0].isupper() and not initial


def _ideographic(word: str) -> bool:
    return not word.isascii() and any(
        "\u2e80" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7ff" for char in word
    )


def _pieces(core: str, found: list[Token], *, initial: bool) -> None:
    start = len(found)
    for match in _PIECE.finditer(core):
        piece = match[0]
        if piece[0].isdecimal():
            found.append(Token(piece, "number"))
        elif piece[0].isalpha():
            found.extend(_words(piece, initial=initial and len(found) == start))
        elif piece in "$€£¥₹%":
            found.append(Token(piece))
        elif _operates(core, match, found):
            found.append(Token("-" if piece in _MINUS else piece, "operator"))
    if len(found) == start:
        found.extend(Token(symbol, "code") for symbol in _SYMBOL.findall(core))


def _operates(core: str, match: re.Match[str], found: list[Token]) -> bool:
    """Whether a sign is arithmetic, not punctuation as in `and/or` or `COVID-19`."""
    before, after = core[: match.start()][-1:], core[match.end() :][:1]
    if match[0] in {"/", "*", "**"}:
        after_number = bool(found) and found[-1].kind == "number"
        return after_number and not before.isalpha() and not after.isalpha()
    return match[0] not in _MINUS or not before


def _words(piece: str, *, initial: bool) -> list[Token]:
    if _ideographic(piece):
        return [Token(char) for char in piece.casefold()]
    return [Token(piece.casefold(), "word", _capital(piece, initial=initial))]
