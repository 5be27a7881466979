"""What evidence is made of: one question, what was found beside it, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from askonce.cache.ask import Ask
    from askonce.canonical.answer import Answer
    from askonce.canonical.entry import Entry
    from askonce.ports import Neighbour
    from askonce.trust.account.asked import Place
    from askonce.trust.sight import Verdict

JUDGED = 4
"""Candidates whose answers are compared with a fresh one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question that had neighbours, and what came of it."""

    place: Place
    request: str
    mode: Literal["shadow", "on"]
    text: str
    near: Sequence[Neighbour]
    verdict: Verdict
    served: Entry | None
    """What the cache answered."""
    fresh: Answer | None
    """What the engine answered."""
    would: bool
    """In shadow mode: the cache would have answered."""
    ask: Ask

    def places(self, first: int) -> list[int]:
        """What is compared: that place first, then the nearest."""
        others = [at for at in range(len(self.near)) if at != first]
        return [first, *others][:JUDGED]
