"""Numbers in all their spellings, brought to one."""

from __future__ import annotations

from askonce.trust.text.tokens import Token


def _listed(words: str) -> list[str]:
    return words.split()


_SMALL = {
    word: value
    for value, word in enumerate(
        _listed("""zero - two three four five six seven eight nine ten eleven twelve thirteen
        fourteen fifteen sixteen seventeen eighteen nineteen""")
    )
}
_TENS = {
    word: 10 * (value + 2)
    for value, word in enumerate(_listed("twenty thirty forty fifty sixty seventy eighty ninety"))
}
_ORDINALS = {
    word: value + 1
    for value, word in enumerate(
        _listed("""first - third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth""")
    )
}
_SCALES = {
    "hundred": 100,
    "thousand": 1000,
    "k": 1000,
    "lakh": 100_000,
    "million": 1_000_000,
    "mn": 1_000_000,
    "crore": 10_000_000,
    "billion": 1_000_000_000,
    "bn": 1_000_000_000,
    "trillion": 1_000_000_000_000,
}
_HUGE = 10**15
"""Past it, a row of scales is no number that anyone means."""
_SUFFIXES = frozenset({"st", "nd", "rd", "th"})
_CLOCK = {"noon": "12:00", "midday": "12:00", "midnight": "0:00"}


_SPELT = _SMALL.keys() | _TENS.keys() | _ORDINALS.keys() | _CLOCK.keys()


def numbered(found: list[Token]) -> list[Token]:
    """The tokens with every number, ordinal and time of day in one spelling."""
    if not [token for token in found if token.kind == "number" or token.text in _SPELT]:
        return found
    result: list[Token] = []
    position = 0
    while position < len(found):
        token = found[position]
        after = found[position + 1].text if position + 1 < len(found) else ""
        if token.kind == "number":
            used = _digits(token.text, after, result)
        elif token.kind == "word" and token.text in _CLOCK:
            result.append(Token(_CLOCK[token.text], "number"))
            used = 1
        else:
            used = _spelt(found, position, result)
        if not used:
            result.append(token)
        position += used or 1
    return result


def _digits(text: str, after: str, result: list[Token]) -> int:
    if ":" in text or after in {"am", "pm"}:
        result.append(Token(_clock(text, after), "number"))
        return 2 if after in {"am", "pm"} else 1
    if after in _SCALES and after != "hundred":
        value = float(decimal(text).replace(",", ".")) if decimal(text).count(".") <= 1 else 0.0
        result.append(Token(f"{value * _SCALES[after]:.15g}", "number"))
        return 2
    result.append(Token(decimal(text), "number"))
    return 2 if after in _SUFFIXES else 1


def _clock(text: str, after: str) -> str:
    hour, _, minute = text.partition(":")
    if not hour.isascii() or len(hour) > 2 or not hour.isdigit():
        return text
    value = int(hour) % 12 + (12 if after == "pm" else 0) if after in {"am", "pm"} else int(hour)
    return f"{value}:{minute or '00'}"


def decimal(text: str) -> str:
    """Digits without thousands separators, leading zeros or an empty fraction.

    A lone comma that parts no thousands stays: it may be a decimal or a list.
    """
    if "." in text and "," in text:
        last = "." if text.rfind(".") > text.rfind(",") else ","
        text = text.replace("," if last == "." else ".", "").replace(",", ".")
    elif "," in text:
        parts = text.split(",")
        grouped = all(len(part) == 3 for part in parts[1:])
        if not grouped and len(parts) == 2:
            return text
        text = "".join(parts)
    whole, point, fraction = text.partition(".")
    if not fraction.strip("0"):
        point = fraction = ""
    return (whole.lstrip("0") or "0") + point + fraction


def _spelt(found: list[Token], start: int, result: list[Token]) -> int:
    total, current, position, seen = 0, 0, start, False
    while position < len(found) and found[position].kind == "word":
        word = found[position].text
        if word in _SMALL or word in _TENS or word in _ORDINALS:
            current += _value(word)
        elif seen and word == "one" and current in _TENS.values():
            current += 1
        elif word in _SCALES and seen and current < _HUGE:
            current *= _SCALES[word]
            if _SCALES[word] >= 1000:
                total, current = total + current, 0
        else:
            break
        seen = True
        position += 1
        if word in _ORDINALS or not _continues(word, found, position):
            break
    if seen:
        result.append(Token(str(total + current), "number"))
    return position - start


def _value(word: str) -> int:
    return _SMALL.get(word) or _TENS.get(word) or _ORDINALS.get(word) or 0


def _continues(word: str, found: list[Token], position: int) -> bool:
    if position >= len(found):
        return False
    after = found[position].text
    small = after in _SMALL or after in _ORDINALS or after == "one"
    return after in _SCALES or (small and word in _TENS) or (word in _SCALES and after in _TENS)
