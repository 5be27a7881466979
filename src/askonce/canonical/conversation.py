"""What was said before a question, as far as it can be left out of the partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.canonical.value import Json

MOST_TURNS: Final = 80
"""Earlier turns of a conversation that is compared by meaning."""
MOST_CHARACTERS: Final = 24_000
"""The same for the length of all of them."""
_SPEAKERS: Final = frozenset({"user", "assistant"})
_FRAMERS: Final = frozenset({"system", "developer"})
_PLAIN: Final = frozenset({"role", "content"})


class Turn(msgspec.Struct, frozen=True, gc=False):
    """One earlier turn that is nothing but text."""

    role: Literal["user", "assistant"]
    text: str


def divided(
    earlier: Sequence[dict[str, Json]],
) -> tuple[Sequence[dict[str, Json]], tuple[Turn, ...]] | None:
    """The messages that must be equal, and the turns that may be compared by meaning.

    None where all must be equal: after anything but text (a tool's result, an image, a name), and
    past the bounds.
    """
    framing = (at for at, one in enumerate(earlier) if one["role"] not in _FRAMERS)
    opening = next(framing, len(earlier))
    said = earlier[opening:]
    if len(said) > MOST_TURNS or not all(map(_is_plain, said)):
        return None
    turns = tuple(Turn(one["role"], one["content"]) for one in said)
    if sum(len(turn.text) for turn in turns) > MOST_CHARACTERS:
        return None
    return earlier[:opening], turns


def _is_plain(message: dict[str, Json]) -> bool:
    return (
        message["role"] in _SPEAKERS
        and message.keys() == _PLAIN
        and type(message["content"]) is str
    )
