"""Answers without what models put around them: courtesy, markup, "the answer is"."""

from __future__ import annotations

import re
from typing import Literal

from askonce.trust.text.tokens import normalised

Polarity = Literal["yes", "no", ""]

_MARKUP = re.compile(r"\*\*|__|~~|`|^\s{0,3}#{1,6}\s+|^\s{0,3}>\s?|\\(?=[*_#$%&])", re.MULTILINE)
_EMPHASIS = re.compile(r"(?<![\w*])([*_])(?=\S)(.{1,300}?)(?<=\S)\1(?![\w*])")
_SPAN = re.compile(r"(?<!`)`([^`\n]{1,200})`(?!`)")
_LETTER = re.compile(r"(?<![\w'.&/-])[A-HJ-Z](?![\w'&/-]|\.\w)")
_ARTICLE = re.compile(" [a-z]")
_LINK = re.compile(r"!?\[([^\]\n]{1,200})\]\([^)\s]{1,500}\)")


def _any(*patterns: str) -> str:
    return f"(?:{'|'.join(patterns)})"


_COURTESIES = _any(
    "(?:that's |what )?an? (?:good|great|excellent|interesting) question",
    "(?:good|great) question",
    "sure(?: thing)?|certainly|of course|absolutely|okay|ok|great|gladly",
    "hello|hi|hey|no problem|happy to help",
    "thanks?(?: you)?(?: (?:for|so) [^.!?:]{1,80})?",
    "i(?:'d| would|'m| am) (?:be )?(?:happy|glad) to help[^.!?:]{0,60}",
)
_FRAMES = (
    "here(?:'s| is| are) (?:the|your|a|an|my) [^.!?:]{1,60}:",
    r"(?:(?:final |short )?answer|a|result|response)\s*:",
    r"(?:yes|no)[,.!;:—-]+\s",
    "so |thus,? |therefore,? |in short,? |in summary,? |to sum up,? |well,? ",
    "as an ai(?: language)?(?: model| assistant)?,",
    r"(?:the )?(?:correct |right |final )*(?:answer|result) (?:is|would be)\b(?! not\b)\s*:?",
    "(?:it|that|this|they|these|those)(?: is| are| was| were| would be|'s|'re) (?!not\\b)",
)
_OPENING = re.compile(
    _any(rf"{_COURTESIES}(?=[\s!,.:;]|$)[\s!,.:;—-]*", *_FRAMES) + r"\s*", re.IGNORECASE
)
_FAREWELLS = _any(
    "(?:please )?(?:let me know|feel free|don't hesitate|do not hesitate)",
    "(?:i )?hope (?:this|that|it) helps|happy to help|have a (?:great|nice|good)",
    "(?:is there|do you have|if you (?:have|need)) (?:anything|any (?:more|other|further)|further)",
    "if there(?:'s| is) anything else|would you like|can i help|you're welcome",
    "thanks for|thank you for|good luck",
)
_CLOSING = re.compile(rf"(?<=[.!?:)])\s+{_FAREWELLS}\b[^\n]{{0,200}}$", re.IGNORECASE)
_REFUSAL = re.compile(
    _any(
        r"(?:i(?:'m| am) )?(?:very |so )?(?:sorry|afraid)\b",
        "(?:as an ai[^,]{0,40}, ?)?(?:unfortunately,? )?i (?:really )?"
        "(?:can(?:no|')t|can not|couldn't|don't|do not|am (?:unable|not able)|won't) "
        r"(?:help|assist|answer|know|have|provide|find|tell|say|access|comply|to)\b",
        r"(?:unknown|not sure|no idea|n/a)\W*$",
    ),
    re.IGNORECASE,
)
_YES = _any(
    "yes|yeah|yep|yup",
    "(?:correct|true|right|indeed|absolutely|definitely|certainly|of course|sure|exactly)"
    r"(?=\W*$|[,.!])",
)
_NO = _any(
    "no(?! (?:more|less|fewer|later|one|matter|doubt|problem|need|charge)\\b)|nope|nah",
    "(?:false|incorrect|wrong|negative|not (?:really|exactly|true|correct|at all|yet))"
    r"(?=\W*$|[,.!])",
)
_SUBJECT = "(?:it|you|they|he|she|there)"
_VERB = "(?:is|are|does|do|can|will|has|have|was|were|should|may)"
_DOES_NOT = rf"{_SUBJECT} (?:{_VERB}(?:n't| not)|can't|cannot|won't)"
_SAYS_YES = re.compile(rf"{_YES}\b", re.IGNORECASE)
_SAYS_NO = re.compile(rf"{_NO}(?![\w'])", re.IGNORECASE)
_IMPLIES_NO = re.compile(rf"{_DOES_NOT}(?![\w'])", re.IGNORECASE)
_IMPLIES_YES = re.compile(rf"{_SUBJECT} {_VERB}\b", re.IGNORECASE)
_ASKS = re.compile(rf"{_VERB}\b|could\b|did\b|am\b|would\b", re.IGNORECASE)


def unmarked(text: str) -> str:
    """The text in one Unicode form and one line, without Markdown."""
    text = _LINK.sub(r"\1", text)
    text = _EMPHASIS.sub(r"\2", _MARKUP.sub("", text))
    return normalised(text)


def spans(text: str) -> frozenset[str]:
    """What stands between backticks."""
    return frozenset(" ".join(found.casefold().split()) for found in _SPAN.findall(text))


def letters(plain: str) -> frozenset[str]:
    """Capital letters that stand alone, as in "option A"; neither "I" nor an article."""
    found = set()
    for match in _LETTER.finditer(plain):
        article = match[0] == "A" and _ARTICLE.match(plain, match.end())
        if not (article and (match.start() == 0 or plain[match.start() - 2] in '.!?:"')):
            found.add(match[0])
    return frozenset(found)


def bare(plain: str) -> str:
    """The text of `unmarked` without courtesies and frames at either end; never empty for text."""
    text, before = plain.strip(), ""
    while text != before:
        before = text
        text = _CLOSING.sub("", text, count=1).strip()
    before = ""
    while text != before:
        before = text
        found = _OPENING.match(text)
        text = text[found.end() :].strip() if found else text
        text = text or before
    return text


def asks_yes_or_no(question: str) -> bool:
    """Whether the question begins like one that yes or no answers."""
    return bool(_ASKS.match(question.strip()))


def polarity(plain: str, *, asked: bool) -> Polarity:
    """Whether the text of `unmarked` begins by saying yes or no; asked: the question wants that."""
    start = plain.lstrip("\"'([ ")
    if _SAYS_NO.match(start) or (asked and _IMPLIES_NO.match(start)):
        return "no"
    if _SAYS_YES.match(start) or (asked and _IMPLIES_YES.match(start)):
        return "yes"
    return ""


def refuses(plain: str) -> bool:
    """Whether the text of `unmarked` says that there is no answer."""
    return bool(_REFUSAL.match(plain.lstrip("\"' ")))
