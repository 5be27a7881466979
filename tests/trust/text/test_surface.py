"""Texts about their own letters or about identifiers are known by how their words begin."""

from __future__ import annotations

import pytest

from askonce.trust.text.surface import recased, seen

ABOUT = """
how do i spell it|is it misspelled|a mis-spelt word|any typos|the accent here|what diacritics
use uppercase|use lower-case|make it camel case|in snake_case or snakecase|title case|kebab-case
is it case sensitive|case-insensitive|capitalise it|capital letters|what rhymes|a palindrome
find anagrams|two syllables|which vowels|a consonant|homophones of it|is it pronounced so
pronunciations of it|punctuation|any commas|an apostrophe|hyphenate|synonyms|an antonym|etymology
plural of it|the singular|conjugate it|the past tense|present participle|grammatically|proofread it
translate it|transliterate|transcribe it|verbatim|rewrite it|she rewrote it|reword it|rephrase it
paraphrase it|reformat it|in base64|as ascii|in utf-8|in utf8|unicode|decode it|encode it|the word
the english word|word count|12 words|five words|repeat after me|how many of the letters
number of characters|count all spaces|how many lines|count sentences|count the symbols
number of digits|how many tokens|the letter k|better to say|right to write|does the text end
is this string long|in the phrase|of my sentence|reverse this paragraph|is that passage old
is my json fine|define it|(spelling)|sort: b a|fix this\nb a
"""
NAMING = """
a variable|the env|my var|this function|a method|the class|my password|a passphrase|the username
which user name|a command|the flag|a file|filename|the folder|that directory|a constant|a keyword
the identifier|parameter x|an argument
"""


def _each(table: str) -> list[str]:
    return [text for line in table.strip().split("\n") for text in line.split("|")]


@pytest.mark.parametrize("text", _each(ABOUT.replace("this\nb", "this\x0bb")))
def test_a_text_about_its_own_writing_is_literal(text: str) -> None:
    """None of the many ways to say so is missed."""
    assert seen(text.replace("\x0b", "\n")).literal


@pytest.mark.parametrize("text", _each(NAMING))
def test_a_text_about_identifiers_is_known(text: str) -> None:
    """There case carries meaning in any word."""
    assert seen(text).naming
    assert recased(seen(f"Is {text} called Total?"), seen(f"Is {text} called total?"))


def test_a_plain_question_is_about_neither() -> None:
    """Words that begin alike are not enough."""
    surface = seen("Is the transfer part of my passport file-free lineup?")
    assert (surface.literal, surface.naming) == (False, True)
    surface = seen("where can a sentinel pass the commandos")
    assert (surface.literal, surface.naming) == (False, False)
