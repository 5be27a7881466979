"""How a text is written: what counts where letters, case and marks are themselves the subject."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import msgspec

from askonce.trust.text.lexicon import CASED, SOFT, listed
from askonce.trust.text.tokens import CODE, EDGES, INITIALS

if TYPE_CHECKING:
    from collections.abc import Iterable

    _Two = tuple["Spelling", "Spelling"]
    _Written = tuple["Spelling", "Surface"]

Style = Literal["sentence", "lower", "upper", "title"]

_SEVERAL = "two|three|four|five|six|seven|eight|nine|ten|these|those|following|above|below"
_ABOUT = re.compile(
    rf"""\b(?:
    spell(?:s|ed|ing|ings|t)? | mis-?spel\w+ | typos? | accents? | diacritic\w*
    | (?:upp|low)er[ -]?cas\w+ | (?:camel|snake|title|kebab)[ -]?case | case[ -](?:in)?sensitive
    | capitali[sz]\w+ | capital[ ]letters?
    | rhym\w+ | palindrom\w* | anagram\w* | syllab\w+ | vowels? | consonants? | homophon\w+
    | pronounced? | pronunciations?[ ]of | punctuat\w+ | commas? | apostrophes? | hyphen\w*
    | synonyms? | antonyms? | etymolog\w+ | plurals? | singular | conjugat\w+
    | (?:past|present|future)[ ](?:tense|participle) | grammatical\w*
    | proofread\w* | translat\w+ | transliterat\w+ | transcrib\w+ | verbatim
    | rewrit\w+ | rewrote | reword\w* | rephras\w+ | paraphras\w+ | reformat\w*
    | base64 | ascii | utf-?8 | unicode | decod\w+ | encod\w+
    | the[ ](?:english[ ]|latin[ ]|french[ ]|german[ ]|spanish[ ])?words? | word[ ]count
    | (?:\d+|{_SEVERAL})[ ]words | repeat[ ]after
    | (?:how[ ]many|number[ ]of|count)(?:[ ]\w+){{0,3}}[ ]
      (?:letters|characters|words|spaces|lines|sentences|symbols|digits|tokens|commas)
    | the[ ]letters?[ ][a-z] | (?:better|correct|right|wrong)[ ]to[ ](?:say|write)
    | (?:does|is|in|of|reverse|count)[ ](?:the|this|that|my|following)[ ]
      (?:text|string|phrase|sentence|paragraph|passage|json)
    )\b | ^define\b""",
    re.VERBOSE,
)
_ABOUT_BEGINS = listed("""
    spel miss mis typo acce diac uppe lowe came snak titl keba case capi rhym pali anag syll vowe
    cons homo pron punc comm apos hyph syno anto etym plur sing conj tens part gram proo tran verb
    rewr rewo reph para refo base asci utf utf8 unic deco enco word repe lett char spac line sent
    symb digi toke say writ text stri phra pass json defi
""")
"""How words begin, in four letters, of which _ABOUT needs at least one."""
_RUN = re.compile(r"\w+")
_TASK = re.compile(
    r"""\b(?:
    sort | order | reverse | count | correct | fix | edit | check | validate | parse | format
    | convert | summari[sz]e | shorten | simplify | classify | label | extract | complete | continue
    | repeat | say | write | print | explain | interpret | analy[sz]e | sentiment | tone | hash
    | rate | grade | score | review | judge | mood | identify | detect | transform | rank
    | is[ ](?:this|the|it) | encrypt | decrypt | tokeni[sz]e | evaluate | improve | polish
    | quote | replace
    )\b[^:\n]{0,80}(?::\s|\n)\s*\S""",
    re.VERBOSE,
)
"""A request whose object follows a colon or on a line of its own."""
_QUOTED = re.compile(
    r"\"([^\"]{1,200})\"|“([^”]{1,200})”|«([^»]{1,200})»|(?<!\w)['\u2018]([^'\n]{1,200})['\u2019](?!\w)"
)
_QUOTES = frozenset("\"\u201c\u00ab'\u2018")
_MARKS = frozenset("{}[]<>\\|=+*&!$\"'\u2032\u2033")
"""Characters of which _SYMBOLS needs at least one."""
_SYMBOLS = re.compile(
    r"[{}\[\]<>\\|]|[=+*&]{2,}|(?<!\w)!(?=\w)|\$[?!#@*]|(?<=\d)['\"\u2032\u2033](?!\w)"
)
_SUM = re.compile(r"[+*^=<>]|\d[-/]|[-/]\d")
"""Inside a word with parentheses, it makes a formula."""
_MOST_PARTED = 20
_PARTICIPLE = re.compile(r"^\w+-\w+(?:ing|ed)$")
_HOSTED = re.compile(r"^[^/:\\_]+\.[a-zA-Z]+$")
"""Hosts, addresses of mail and file names, which few readers take by case."""
_EXACT = re.compile(r"[^\W\d_]{4}\d|=$")
"""Endings of identifiers, passwords and encoded text."""
_CASELESS = frozenset({"i", "ok", "am", "pm"})
_ACRONYMS = frozenset({"it", "us", "who", "aids"})
_UNIT = re.compile(r"^[\d.,]*[^\W\d_]{1,2}$")
_NAMING = re.compile(
    r"\b(?:variables?|env|var|functions?|method|class|passw\w+|passphrase|user ?names?|commands?"
    r"|flags?|files?|filename|folder|director\w+|constant|keyword|identifiers?|parameter|argument)\b"
)
_NAMING_BEGINS = listed("""
    vari env var func meth clas pass user comm flag file fold dire cons keyw iden para argu
""")
"""As _ABOUT_BEGINS, for _NAMING."""


class Spelling(msgspec.Struct, frozen=True, gc=False):
    """One word as written."""

    text: str
    initial: bool
    """It begins a sentence."""


class Surface(msgspec.Struct, frozen=True, gc=False):
    """The written side of a text."""

    text: str
    spaced: str
    """The text in single spaces."""
    literal: bool
    """The text is about its own letters, words or marks, or hands over a text to work on."""
    hidden: bool
    """It holds characters that nobody sees."""
    quoted: frozenset[str]
    naming: bool
    """It speaks of identifiers."""
    symbols: tuple[str, ...]
    """Brackets and doubled operators, in order, and formulas with parentheses."""
    words: frozenset[str]
    """In lower case, without the marks around them."""
    odd: frozenset[str]
    """Words that are not written in lower case alone."""
    joined: frozenset[str]
    """Words that begin with re-, without the hyphen."""
    parted: tuple[str, ...]
    """Words like man-eating, as two."""


def seen(text: str) -> Surface:
    """Look at a text; linear in its length."""
    lowered = text.lower()
    begins = {run[:4] for run in _RUN.findall(lowered)}
    cores = [chunk.strip(_AROUND) for chunk in text.replace("\u2019", "'").split()]
    words = [core.casefold() for core in cores]
    chars = frozenset(text)
    spaced = " ".join(text.split())
    hyphened = [word for word in dict.fromkeys(words) if "-" in word] if "-" in chars else []
    return Surface(
        text=text,
        spaced=spaced,
        literal=_is_literal(lowered, begins),
        hidden=not text.isascii() and any(_invisible(char) for char in text),
        quoted=_NONE if chars.isdisjoint(_QUOTES) else frozenset(_quoted(spaced)),
        naming=not begins.isdisjoint(_NAMING_BEGINS) and bool(_NAMING.search(lowered)),
        symbols=_symbols(text, chars),
        words=frozenset(words) - {""},
        odd=frozenset([word for word, core in zip(words, cores, strict=True) if word != core]),
        joined=frozenset([word.replace("-", "") for word in hyphened if word[:3] == "re-"]),
        parted=_parted(hyphened),
    )


_ENDS = ".!?:\u2026"
_AROUND = EDGES + "`"
_NONE: frozenset[str] = frozenset()


def _is_literal(lowered: str, begins: set[str]) -> bool:
    if not begins.isdisjoint(_ABOUT_BEGINS) and _ABOUT.search(lowered):
        return True
    return (":" in lowered or "\n" in lowered) and bool(_TASK.search(lowered))


def _symbols(text: str, chars: frozenset[str]) -> tuple[str, ...]:
    found = [] if chars.isdisjoint(_MARKS) else _SYMBOLS.findall(text)
    if "(" in chars or ")" in chars:
        found += _formulas(text)
    return tuple(found)


def _parted(hyphened: list[str]) -> tuple[str, ...]:
    found = [word.replace("-", " ") for word in hyphened if _PARTICIPLE.search(word)]
    return tuple(found[:_MOST_PARTED])


def rewritten(one: Surface, other: Surface) -> bool:
    """Whether the writing itself is asked about, or marks up something, and differs."""
    if one.literal or other.literal:
        return one.text != other.text
    if one.hidden or other.hidden:
        return one.spaced != other.spaced
    return one.symbols != other.symbols or _unhyphened(one, other) or _unhyphened(other, one)


def _unhyphened(one: Surface, other: Surface) -> bool:
    """Whether a hyphen makes another word: man-eating and man eating, re-sign and resign."""
    if not one.joined.isdisjoint(other.words):
        return True
    return bool(one.parted) and any(words in other.spaced.lower() for words in one.parted)


def requoted(one: Surface, other: Surface) -> bool:
    """Whether one text quotes what the other does not hold to the letter."""
    return any(text not in other.spaced for text in one.quoted) or any(
        text not in one.spaced for text in other.quoted
    )


def recased(one: Surface, other: Surface) -> bool:
    """Whether a word that both texts hold is written in another case that carries meaning."""
    odd: Iterable[str] = (one.odd | other.odd) & one.words & other.words
    if not odd:
        return False
    named = one.naming or other.naming or not (one.text.isascii() and other.text.isascii())
    odd = odd if named else [word for word in odd if _is_telling(word)]
    if not odd:
        return False
    mine, others = _spellings(one.text), _spellings(other.text)
    return any(
        a.text != b.text and _differ(word, (a, one), (b, other))
        for word in odd
        for a, b in _met(mine[word], others[word])
    )


@lru_cache(maxsize=4096)
def _is_telling(word: str) -> bool:
    """Whether the case of a word of plain letters may carry meaning of itself."""
    if len(word) == 1:
        return word == "m"
    if word in CASED or word in _ACRONYMS or _EXACT.search(word) or _UNIT.search(word):
        return True
    return bool(CODE.search(word))


def _differ(word: str, left: _Written, right: _Written) -> bool:
    """Whether the case in which a word is written here and there carries meaning."""
    (a, one), (b, other) = left, right
    if _EXACT.search(word) or (CODE.search(word) and not _HOSTED.match(word)):
        return True
    if _another_unit(a.text, b.text) and "upper" not in {_style(one.text), _style(other.text)}:
        return True
    free = word in _CASELESS or ((a.initial or b.initial) and a.text[1:] == b.text[1:])
    if (
        not free
        and _style(one.text) == _style(other.text) == "sentence"
        and (word in CASED or one.naming or other.naming)
    ):
        return True
    return word in _ACRONYMS and _shouted(a, one) != _shouted(b, other)


def _met(left: tuple[Spelling, ...], right: tuple[Spelling, ...]) -> Iterable[_Two]:
    """The places where a word stands in both texts, as far as they can be told."""
    if len(left) == len(right):
        return zip(left, right, strict=True)
    if {each.text for each in left} & {each.text for each in right}:
        return ()
    return ((left[-1], right[-1]),)


def _another_unit(one: str, other: str) -> bool:
    """Whether short words differ in more than shouting or a capital, like mW and MW, CO and Co."""
    if not _UNIT.search(one):
        return False
    lower = one.islower() or other.islower()
    plain = {one, other} <= {one.lower(), one.upper(), one.capitalize()}
    return not (lower and plain) or one.lower().lstrip("0123456789.,") == "m"


def _shouted(spelling: Spelling, surface: Surface) -> bool:
    return spelling.text.isupper() and _style(surface.text) != "upper"


def _invisible(char: str) -> bool:
    return unicodedata.category(char) in {"Cf", "Co"}


def _formulas(text: str) -> list[str]:
    return [
        chunk.strip(".,;:?!")
        for chunk in text.split()
        if ("(" in chunk or ")" in chunk) and _SUM.search(chunk)
    ]


def _quoted(text: str) -> list[str]:
    found = ("".join(groups).strip(EDGES + " ") for groups in _QUOTED.findall(text))
    return [each for each in found if each]


@lru_cache(maxsize=256)
def _spellings(text: str) -> dict[str, tuple[Spelling, ...]]:
    """For each word in lower case, how it is written each time."""
    found: dict[str, list[Spelling]] = {}
    initial = True
    for chunk in text.replace("\u2019", "'").split():
        core = chunk.strip(_AROUND)
        if not core:
            continue
        found.setdefault(core.casefold(), []).append(Spelling(core, initial))
        initial = chunk[-1] in _ENDS and not INITIALS.match(core)
    return {word: tuple(each) for word, each in found.items()}


def _small(text: str) -> bool:
    return text == text.lower()


@lru_cache(maxsize=256)
def _style(text: str) -> Style:
    if text.isupper():
        return "upper"
    words = [(word, each) for word, all_ in _spellings(text).items() for each in all_]
    if all(_small(each.text) or word in _CASELESS or word[:2] == "i'" for word, each in words):
        return "lower"
    if not any(_small(each.text) for word, each in words if len(word) >= 4) and any(
        each.text.istitle() and not each.initial
        for word, each in words
        if word in SOFT - CASED and len(word) > 1
    ):
        return "title"
    return "sentence"
