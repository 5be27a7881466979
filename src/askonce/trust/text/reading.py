"""What the guards see in a text: read once, compared many times."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

import msgspec

from askonce.trust.text import grammar
from askonce.trust.text.lexicon import CONTRACTIONS, FILLERS, SOFT, listed
from askonce.trust.text.numbers import numbered
from askonce.trust.text.surface import Surface, seen
from askonce.trust.text.synonyms import PHRASES
from askonce.trust.text.tokens import Token, normalised, tokens
from askonce.trust.text.words import form, groups, stem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NEGATORS = listed("not no never without neither nor except")
_WH = listed("what where who when why how that there it he she here let")


class Reading(msgspec.Struct, frozen=True, gc=False):
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
    said: frozenset[str]
    """The different words."""
    legible: bool
    """Most letters are Latin: the script that the embedder can tell apart."""


def equal(one: Reading, other: Reading) -> bool:
    """Whether two texts differ in case, spacing, end marks or number spelling at most."""
    return one.folded == other.folded or one.plain == other.plain


SHORT = 256
"""Characters up to which a reading is remembered: 2,048 of them take 48 MiB at most."""
_MOST = 2048


def analyse(text: str) -> Reading:
    """Read a text; linear in its length."""
    return remembered(text, None) if len(text) <= SHORT else read(text)


_latest: OrderedDict[str, Reading] = OrderedDict()


def remembered(text: str, known: Callable[[], Reading | None] | None) -> Reading:
    """The reading of a short text; known: gives it, if it can, sooner than it could be made."""
    found = _latest.pop(text, None)
    if found is None:
        found = (known() if known is not None else None) or read(text)
    _latest[text] = found
    if len(_latest) > _MOST:
        _latest.popitem(last=False)
    return found


def read(text: str) -> Reading:
    """Read a text anew."""
    plain = normalised(text)
    found = numbered(tokens(plain))
    spelt = tuple([token.text for token in found])
    resolved = _phrased(_expanded(found, spelt))
    words = spelt if resolved is found else tuple([token.text for token in resolved])
    all_forms = tuple(
        [form(token.text) if token.kind == "word" else _form(token) for token in resolved]
    )
    kept, forms = _kept(resolved, words, all_forms)
    said = frozenset(words)
    odd = [(token, form_) for token, form_ in zip(kept, forms, strict=True) if token.kind != "word"]
    return Reading(
        surface=seen(text),
        folded=plain.casefold(),
        plain=spelt,
        words=words,
        forms=forms,
        bag=_counted(forms),
        stems=_stems(kept, forms),
        names=_names(found, kept, forms),
        marks=tuple([form_ for token, form_ in odd if token.kind != "number"]),
        numbers=frozenset([form_ for token, form_ in odd if token.kind == "number"]),
        codes=frozenset([form_ for token, form_ in odd if token.kind != "number"]),
        negations=_negations(words, said),
        grammar=grammar.parse(words, all_forms, said),
        initials="".join([word[:1] for word in words]),
        said=said,
        legible=_legible(plain),
    )


def lean(reading: Reading) -> Reading:
    """Without what `whole` makes anew of the rest."""
    plain = () if reading.plain == reading.words else reading.plain
    return msgspec.structs.replace(reading, plain=plain, bag={}, said=_NONE)


def whole(reading: Reading) -> Reading:
    """What `lean` was made of."""
    return msgspec.structs.replace(
        reading,
        plain=reading.plain or reading.words,
        bag=_counted(reading.forms),
        said=frozenset(reading.words),
    )


def _counted(forms: tuple[str, ...]) -> dict[str, int]:
    bag = dict.fromkeys(forms, 1)
    return bag if len(bag) == len(forms) else dict(Counter(forms))


def _stems(kept: Sequence[Token], forms: tuple[str, ...]) -> dict[str, str]:
    return {
        form_: bare
        for token, form_ in zip(kept, forms, strict=True)
        if (bare := stem(token.text)) != form_
    }


def _negations(words: tuple[str, ...], said: frozenset[str]) -> int:
    return 0 if said.isdisjoint(_NEGATORS) else sum([word in _NEGATORS for word in words])


_ARTICLES = frozenset("ai0123456789")


def _kept(
    resolved: Sequence[Token], words: tuple[str, ...], forms: tuple[str, ...]
) -> tuple[Sequence[Token], tuple[str, ...]]:
    """The tokens that are no fillers, or all where no other is left, with their forms."""
    kept = [
        place
        for place, word in enumerate(words)
        if word not in FILLERS
        or resolved[place].kind != "word"
        or (word == "a" and _is_letter(place, resolved))
    ]
    if not kept or len(kept) == len(words):
        return resolved, forms
    return [resolved[place] for place in kept], tuple([forms[place] for place in kept])


def _is_letter(place: int, resolved: Sequence[Token]) -> bool:
    """Whether an "a" is no article."""
    if resolved[place].capital:
        return True
    lettered = any(len(token.text) == 1 and token.text not in _ARTICLES for token in resolved)
    after = resolved[place + 1].text if place + 1 < len(resolved) else ""
    return lettered and _frames(after)


def _frames(after: str) -> bool:
    """Whether an "a" before this word is a letter, as in "is a bigger than b", not an article."""
    return after in SOFT or not after.isalnum() or after.endswith("er")


def _form(token: Token) -> str:
    """What stands for a token that is no word."""
    return "#" + token.text if token.kind == "number" else "`" + token.text


def _expanded(found: list[Token], spelt: tuple[str, ...]) -> list[Token]:
    if not [text for text in spelt if text in CONTRACTIONS or "'" in text]:
        return found
    result: list[Token] = []
    for token in found:
        if token.kind != "word":
            result.append(token)
            continue
        text = token.text
        full = CONTRACTIONS.get(text) or CONTRACTIONS.get(text.replace("'", ""))
        if full is not None:
            result.extend(Token(part) for part in full.split())
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
_SECOND = {
    first: frozenset(word for pattern, _ in rules for word in (pattern[1:2] or [""]))
    for first, rules in _PHRASES.items()
}
"""What follows the first word of a phrase; empty where it may stand alone."""


def _phrased(found: list[Token]) -> list[Token]:
    texts = [token.text for token in found]
    if not _begun(texts):
        return found
    result: list[Token] = []
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


def _begun(texts: list[str]) -> bool:
    """Whether any two words in a row begin a phrase."""
    for word, after in zip(texts, (*texts[1:], ""), strict=False):
        seconds = _SECOND.get(word)
        if seconds is not None and (after in seconds or "" in seconds):
            return True
    return False


def _names(found: Sequence[Token], kept: Sequence[Token], forms: tuple[str, ...]) -> frozenset[str]:
    named = [
        form_
        for token, form_ in zip(kept, forms, strict=True)
        if token.capital and token.text not in SOFT
    ]
    if not named:
        return _NONE
    words = [token for token in found if token.kind == "word" and len(token.text) > 1]
    capitals = sum([token.capital for token in words])
    return _NONE if 3 * (len(words) - capitals - 1) < capitals else frozenset(named)


_NONE: frozenset[str] = frozenset()


def _legible(text: str) -> bool:
    if text.isascii():
        return True
    letters = foreign = 0
    for char in text:
        if char.isalpha():
            letters += 1
            foreign += char > "\u024f"
    return 2 * foreign <= letters
