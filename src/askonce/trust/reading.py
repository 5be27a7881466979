"""What the guards see in a text: read once, compared many times."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import msgspec

from askonce.trust import grammar
from askonce.trust.lexicon import CONTRACTIONS, FILLERS, SOFT, listed
from askonce.trust.numbers import numbered
from askonce.trust.surface import Surface, seen
from askonce.trust.synonyms import PHRASES
from askonce.trust.tokens import Token, normalised, tokens
from askonce.trust.words import form, groups, stem

_NEGATORS = listed("not no never without neither nor except")
_WH = listed("what where who when why how that there it he she here let")


class Reading(msgspec.Struct, frozen=True):
    """One text, read."""

    surface: Surface
    folded: str
    """The whole text in lower case and single spaces."""
    plain: tuple[str, ...]
    """All tokens; equal ones make equal texts."""
    words: tuple[str, ...]
    """Words in lower case, contractions and phrases resolved."""
    forms: tuple[str, ...]
    """The compared form of every token that is no filler."""
    bag: dict[str, int]
    """How often each form occurs."""
    stems: dict[str, str]
    """How a form was spelt, but for its ending, where a synonym stands for it."""
    names: frozenset[str]
    """Forms written like proper names."""
    marks: tuple[str, ...]
    """Code and operators, in order."""
    numbers: frozenset[str]
    codes: frozenset[str]
    negations: int
    grammar: grammar.Grammar
    initials: str
    legible: bool
    """Most letters are Latin: the script that the embedder can tell apart."""


def equal(one: Reading, other: Reading) -> bool:
    """Whether two texts differ in case, spacing, end marks or number spelling at most."""
    return one.folded == other.folded or one.plain == other.plain


@lru_cache(maxsize=2048)
def analyse(text: str) -> Reading:
    """Read a text; linear in its length."""
    plain = normalised(text)
    found = numbered(tokens(plain))
    resolved = _phrased(_expanded(found))
    kept = _kept(resolved) or resolved
    forms = tuple(_form(token) for token in kept)
    words = tuple(token.text for token in resolved)
    return Reading(
        surface=seen(text),
        folded=plain.casefold(),
        plain=tuple(token.text for token in found),
        words=words,
        forms=forms,
        bag=dict(Counter(forms)),
        stems={f: stem(t.text) for t, f in zip(kept, forms, strict=True) if stem(t.text) != f},
        names=_names(found, kept, forms),
        marks=tuple(
            form_
            for token, form_ in zip(kept, forms, strict=True)
            if token.kind in {"code", "operator"}
        ),
        numbers=_of(kept, forms, "number"),
        codes=_of(kept, forms, "code") | _of(kept, forms, "operator"),
        negations=sum(word in _NEGATORS for word in words),
        grammar=grammar.parse(words, tuple(_form(token) for token in resolved)),
        initials="".join(token.text[:1] for token in resolved),
        legible=_legible(plain),
    )


_ARTICLES = frozenset("ai0123456789")


def _kept(resolved: list[Token]) -> list[Token]:
    lettered = any(len(token.text) == 1 and token.text not in _ARTICLES for token in resolved)
    following = [token.text for token in resolved[1:]] + [""]
    return [
        token
        for token, after in zip(resolved, following, strict=False)
        if token.kind != "word"
        or token.text not in FILLERS
        or (token.text == "a" and (token.capital or (lettered and _frames(after))))
    ]


def _frames(after: str) -> bool:
    """Whether an "a" before this word is a letter, as in "is a bigger than b", not an article."""
    return after in SOFT or not after.isalnum() or after.endswith("er")


def _form(token: Token) -> str:
    if token.kind == "word":
        return form(token.text)
    return "#" + token.text if token.kind == "number" else "`" + token.text


def _of(kept: list[Token], forms: tuple[str, ...], kind: str) -> frozenset[str]:
    return frozenset(f for token, f in zip(kept, forms, strict=True) if token.kind == kind)


def _expanded(found: list[Token]) -> list[Token]:
    result: list[Token] = []
    for token in found:
        if token.kind != "word":
            result.append(token)
            continue
        text = token.text
        spelt = CONTRACTIONS.get(text) or CONTRACTIONS.get(text.replace("'", ""))
        if spelt is not None:
            result.extend(Token(part) for part in spelt.split())
        else:
            result.extend(_apostrophe(token))
    return result


def _apostrophe(token: Token) -> list[Token]:
    head, mark, tail = token.text.partition("'")
    if not mark or not head:
        return [token]
    if tail == "s":
        return [Token(head), Token("be")] if head in _WH else [_cut(token, head), Token("'s")]
    if tail == "t" and head.endswith("n"):
        return [Token(head[:-1]), Token("not")]
    full = {"re": "are", "ve": "have", "ll": "will", "m": "am", "d": "would"}.get(tail)
    return [_cut(token, head), Token(full)] if full else [token]


def _cut(token: Token, text: str) -> Token:
    return Token(text, token.kind, token.capital)


def _phrase_table() -> dict[str, list[tuple[list[str], tuple[str, ...]]]]:
    table: dict[str, list[tuple[list[str], tuple[str, ...]]]] = {}
    for rule in groups(PHRASES):
        left, _, right = rule.partition("=")
        pattern = [token.text for token in numbered(tokens(left))]
        table.setdefault(pattern[0], []).append((pattern, tuple(right.split())))
    for rules in table.values():
        rules.sort(key=lambda each: -len(each[0]))
    return table


_PHRASES = _phrase_table()


def _phrased(found: list[Token]) -> list[Token]:
    result: list[Token] = []
    texts = [token.text for token in found]
    position = 0
    while position < len(found):
        for pattern, replacement in _PHRASES.get(texts[position], ()):
            if texts[position : position + len(pattern)] == pattern:
                result.extend(
                    Token(part, "number" if part.isdigit() else "word") for part in replacement
                )
                position += len(pattern)
                break
        else:
            result.append(found[position])
            position += 1
    return result


def _names(found: list[Token], kept: list[Token], forms: tuple[str, ...]) -> frozenset[str]:
    words = [token for token in found if token.kind == "word" and len(token.text) > 1]
    capitals = sum(token.capital for token in words)
    if 3 * (len(words) - capitals - 1) < capitals:
        return frozenset()
    return frozenset(
        f for token, f in zip(kept, forms, strict=True) if token.capital and token.text not in SOFT
    )


def _legible(text: str) -> bool:
    if text.isascii():
        return True
    letters = foreign = 0
    for char in text:
        if char.isalpha():
            letters += 1
            foreign += char > "\u024f"
    return 2 * foreign <= letters
