"""Piles of combining marks, on which Unicode's normal forms take quadratic time."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Final

_MOST: Final = 30
"""Marks on one letter; no language writes more (UAX #15, section 13)."""
_STRIDE: Final = 6
_FIRST, _LAST = 0x300, 0x1FFFF
"""All combining marks lie between these."""


def piled_up(text: str) -> bool:
    """Whether more marks stand on one letter than any language writes; linear in time.

    A pile shows in every sixth character as well, so hardly any text is read whole.
    """
    if text.isascii():
        return False
    hint, pile = _patterns()
    return hint.search(text[::_STRIDE]) is not None and pile.search(text) is not None


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    marks = "".join(filter(unicodedata.combining, map(chr, range(_FIRST, _LAST))))
    seen = (_MOST + 1) // _STRIDE
    return re.compile(f"[{marks}]{{{seen}}}"), re.compile(f"[{marks}]{{{_MOST + 1}}}")
