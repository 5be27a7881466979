"""Answers that have a structure: JSON, code blocks and lists, as values to compare."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from askonce.trust.text.lexicon import listed as words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from askonce.ports import Agreement

_FENCE = re.compile(r"\s{0,12}(```+|~~~+)\s*([^\s`]*)[^`]*$")
_BULLET = re.compile(r"^\s*(?:[-*•+]|(\d{1,3})[.)])\s+(\S.*)$")
_TOKEN = re.compile(r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\w+(?:\.\d+)?|[^\w\s])|\s+""")
_FREE = words(
    """
    js javascript jsx ts typescript tsx java c cpp c++ cs csharp go rust rs kotlin swift php
    sql css scss json jsonc html xml dart scala perl r lua
    """
)
_DEEPEST = 32

NO_JSON = object()
"""Stands for a text that is no JSON object or array."""


class Fenced(msgspec.Struct, frozen=True):
    """The code blocks of a text, and the text without them."""

    text: str
    prose: str
    free: bool
    """All blocks are in languages where line breaks and indentation mean nothing."""


def fenced(text: str) -> Fenced:
    """Take a text apart; it may have no code block."""
    if "```" not in text and "~~~" not in text:
        return Fenced("", text, free=False)
    inside: list[str] = []
    outside: list[str] = []
    languages: list[str] = []
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark is None or (fence and not _closes(line, fence)):
            (inside if fence else outside).append(line)
        elif fence:
            fence = ""
        else:
            fence = mark[1]
            languages.append(mark[2].casefold())
    free = bool(languages) and all(language in _FREE for language in languages)
    return Fenced("\n".join(inside), "\n".join(outside), free)


def _closes(line: str, fence: str) -> bool:
    mark = line.strip()
    return mark.startswith(fence) and not mark.strip(fence[0])


def json_value(text: str) -> Any:  # noqa: ANN401 - a JSON value
    """The object or array that the text, or its only code block, is; else NO_JSON."""
    found = fenced(text)
    candidate = found.text if found.text and len(found.prose.split()) <= 12 else text
    if candidate.lstrip()[:1] not in {"{", "["}:
        return NO_JSON
    try:
        return msgspec.json.decode(candidate)
    except (msgspec.DecodeError, RecursionError):
        return NO_JSON


def compare_json(
    one: Any,  # noqa: ANN401
    other: Any,  # noqa: ANN401
    texts: Callable[[str, str], Agreement],
    depth: int = 0,
) -> Agreement:
    """Compare by value; texts: compares two strings. An absent member is as good as null."""
    if depth > _DEEPEST:
        return "unsure"
    if isinstance(one, dict) and isinstance(other, dict):
        names = one.keys() | other.keys()
        return worst(
            compare_json(one.get(name), other.get(name), texts, depth + 1) for name in names
        )
    if isinstance(one, list) and isinstance(other, list):
        return _compare_arrays(one, other, texts, depth)
    if isinstance(one, str) and isinstance(other, str):
        return texts(one, other)
    return (
        "same" if one == other and isinstance(one, bool) == isinstance(other, bool) else "different"
    )


def _compare_arrays(
    one: list[Any], other: list[Any], texts: Callable[[str, str], Agreement], depth: int
) -> Agreement:
    if len(one) != len(other):
        return "different"
    pairs = zip(one, other, strict=True)
    found = worst(compare_json(left, right, texts, depth + 1) for left, right in pairs)
    if found == "different" and _bag(one) == _bag(other):
        return "unsure"
    return found


def _bag(array: list[Any]) -> list[bytes]:
    return sorted(msgspec.json.encode(value, order="sorted") for value in array)


def worst(found: Iterator[Agreement]) -> Agreement:
    """Different if any is, else unsure if any is, else same."""
    unsure = False
    for agreement in found:
        if agreement == "different":
            return "different"
        unsure |= agreement == "unsure"
    return "unsure" if unsure else "same"


CodeLines = tuple[tuple[int, tuple[str, ...]], ...]
"""Depth of indentation and tokens of each line that is neither empty nor a comment."""


def code_lines(code: str, *, free: bool) -> CodeLines:
    """Code as what counts in it: white space only where it parts, or indents unless it is free."""
    lines: list[tuple[int, tuple[str, ...]]] = []
    indents = [0]
    for line in code.expandtabs(4).splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "//", "--")):
            continue
        indent = len(line) - len(line.lstrip())
        while indent < indents[-1]:
            indents.pop()
        if indent > indents[-1]:
            indents.append(indent)
        tokens = tuple(found[1] for found in _TOKEN.finditer(stripped) if found[1])
        lines.append((len(indents) - 1, _one_quote(tokens)))
    if free:
        return ((0, tuple(token for _, tokens in lines for token in tokens)),)
    return tuple(lines)


def _one_quote(tokens: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        f'"{token[1:-1]}"' if token[0] == "'" and '"' not in token else token for token in tokens
    )


def compare_code(one: CodeLines, other: CodeLines) -> Agreement:
    """Same but for layout; different where only literals differ; else unsure."""
    if one == other:
        return "same"
    left = [token for _, tokens in one for token in tokens]
    right = [token for _, tokens in other for token in tokens]
    if len(left) != len(right):
        return "unsure"
    apart = [pair for pair in zip(left, right, strict=True) if pair[0] != pair[1]]
    literal = all(_literal(token) for pair in apart for token in pair)
    return "different" if apart and literal else "unsure"


def _literal(token: str) -> bool:
    return token[0].isdigit() or token[0] in {'"', "'"} or not token[0].isalnum()


class Listed(msgspec.Struct, frozen=True):
    """The items of a list, and whether they are numbered."""

    items: tuple[str, ...]
    numbered: bool


def listed(text: str) -> Listed | None:
    """The list that the text is, with at most a line before and after it."""
    items: list[str] = []
    numbers = others = 0
    for line in text.splitlines():
        found = _BULLET.match(line)
        if found:
            items.append(found[2].strip())
            numbers += found[1] is not None
        elif line.strip():
            others += 1
    if len(items) < 2 or others > 2:
        return None
    return Listed(tuple(items), numbers == len(items))
