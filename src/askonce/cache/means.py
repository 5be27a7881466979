"""What learning works with, and what it may cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from askonce.cache.steps import Steps
    from askonce.ports import Clock, EvidenceLog, Judge, Sink, Verifier
    from askonce.tiers.exact import ExactTier
    from askonce.tiers.semantic import SemanticTier
    from askonce.trust.account.purse import Purse
    from askonce.trust.desk import TrustDesk
    from askonce.trust.names import Namespaces
    from askonce.units import Seconds
    from askonce.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What audits may cost."""

    audits_per_hour: float
    audits_at_once: int
    max_answer_bytes: int
    second_deadline: Seconds
    """What a second opinion may take of a request's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What learning works with."""

    process: str
    """A name that no other process has that shares the log, nor had."""
    embedder: str
    """Its id: of what another one measured nothing is taken."""
    desk: TrustDesk
    log: EvidenceLog
    judge: Judge
    worker: Worker
    """The thread in which verifiers learn."""
    names: Namespaces
    exact: ExactTier
    semantic: SemanticTier
    steps: Steps
    clock: Clock
    sink: Sink
    purse: Purse
    second: Verifier | None = None
    """Asked where the learned score is close to the threshold."""
