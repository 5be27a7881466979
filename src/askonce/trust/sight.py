"""What the desk looks at, decides and learns from, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from askonce.trust.account.thrift import Thrift
from askonce.units import Cosine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Neighbour
    from askonce.trust.account.asked import Place
    from askonce.trust.looks import Seen
    from askonce.trust.verifier import Learner, Look


class Manners(msgspec.Struct, frozen=True, kw_only=True):
    """How the desk decides beside the ledger's policy."""

    floor: Cosine
    """Least cosine of the static rule."""
    enough: float = 200.0
    """Labels from which a namespace is warm, open or not."""
    cold_audit: float = 0.3
    """Share of the static rule's hits that are audited at most."""
    thrift: Thrift = Thrift()
    namespaces: int = 64
    """Most of them with a verifier of their own; the longest unused forget what they learned."""
    band: float = 1.0
    """Log odds on each side of the threshold within which a second opinion is asked for."""
    remembered: int = 8000
    """Labelled pairs that each verifier learns from, 1 KiB each."""


class Verdict(NamedTuple):
    """What to do with one question."""

    order: tuple[int, ...] = ()
    """Places of the neighbours that may be served, best first."""
    best: int = -1
    """Place of the neighbour that the score is about; -1 without neighbours."""
    score: float = 0.0
    """Log odds that the best one's answer is right."""
    audit: bool = False
    chance: float = 1.0
    """Probability that this request's label will be seen."""
    watched: bool = True
    """A hit may be audited; else `chance` says nothing."""
    seen: Seen | None = None
    vetoes: tuple[str, ...] = ()
    """Guards that spoke against neighbours of the static rule."""
    counted: bool = False
    """The ledger has counted it as served."""

    @property
    def serve(self) -> bool:
        """Whether the cache may answer."""
        return bool(self.order)


class Sight(NamedTuple):
    """A question beside its neighbours, measured and not yet decided."""

    place: Place
    text: str
    near: Sequence[Neighbour]
    """Best first."""
    seen: Seen | None = None
    odds: float | None = None
    """The learned score of the best; None without neighbours."""

    @property
    def best(self) -> int:
        """Place of the neighbour that the score is about; -1 without neighbours."""
        if not self.near:
            return -1
        return 0 if self.seen is None else self.seen.look.best


class Lesson(NamedTuple):
    """Labels of one look, for the verifier of its namespace."""

    learner: Learner
    look: Look
    same: tuple[bool | None, ...]
    weight: float
