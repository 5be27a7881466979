"""Which hits are audited: drawn by a known probability, within a budget of calls.

The draw depends on nothing but the request's id, a secret and the probability, so that it can be
repeated, and callers who choose their ids cannot steer it. The budget never refuses a draw after
the fact, which would make the probability a lie: it lowers the probability before.
"""

from __future__ import annotations

import hashlib

import msgspec


class AuditPlan(msgspec.Struct, frozen=True):
    """How the probability of an audit depends on how close the decision was."""

    base: float = 0.02
    """Far above the threshold."""
    near: float = 0.2
    """At the threshold."""
    width: float = 0.1
    """Margin over the threshold within which the probability falls from `near` to `base`."""
    floor: float = 0.002
    """Least probability while the budget lasts at all."""
    cap: float = 0.5
    calls_per_hour: float = 60.0
    burst: float = 10.0
    """Calls that may come at once after a quiet time."""


class Draw(msgspec.Struct, frozen=True):
    """Whether one hit is audited, and by which probability that was drawn."""

    audit: bool
    probability: float
    """0 when the budget was spent: then this hit tells nothing, and no weight stands for it."""


def probability(margin: float, plan: AuditPlan) -> float:
    """Of an audit at this margin (score less threshold, at least 0), the budget aside."""
    nearness = max(0.0, 1.0 - max(margin, 0.0) / plan.width) if plan.width > 0 else 0.0
    chance = plan.base + (plan.near - plan.base) * nearness
    return min(max(chance, plan.floor), plan.cap)


def uniform(request_id: str, secret: bytes) -> float:
    """A number in [0, 1) that only the holder of the secret (at most 64 bytes) can foretell."""
    data = request_id.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(data, key=secret, digest_size=8, person=b"askonce.audit").digest()
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)


class Allowance:
    """A token bucket: so much an hour, and no more than a burst at once. Time is passed in."""

    def __init__(self, *, per_hour: float, burst: float) -> None:
        """Start full."""
        self._rate = per_hour / 3600.0
        self._burst = burst
        self._level = burst
        self._at: float | None = None

    def level(self, now: float) -> float:
        """What may be spent at this monotonic time."""
        if self._at is not None and now > self._at:
            self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now if self._at is None else max(now, self._at)
        return self._level

    def share(self, now: float) -> float:
        """How full it is, 0 to 1; 0 as soon as less than one is left."""
        level = self.level(now)
        return level / self._burst if level >= 1 else 0.0

    def take(self, now: float, amount: float = 1.0) -> bool:
        """Spend, unless less is left."""
        if self.level(now) < amount:
            return False
        self._level -= amount
        return True

    def settle(self, amount: float) -> None:
        """Correct an estimate by what more (or less, if negative) was used; may go below 0."""
        self._level = min(self._burst, self._level - amount)


class Auditor:
    """Draws audits under one plan; holds the budget."""

    def __init__(self, plan: AuditPlan, *, secret: bytes) -> None:
        """secret: the same in all processes that serve one namespace, unknown to callers."""
        self._plan = plan
        self._secret = secret
        self._allowance = Allowance(per_hour=plan.calls_per_hour, burst=plan.burst)

    def draw(self, request_id: str, margin: float, now: float) -> Draw:
        """Decide for one hit at this monotonic time.

        The probability falls with the budget, so that calls come evenly and it is rarely spent.
        """
        share = self._allowance.share(now)
        if share == 0.0:
            return Draw(audit=False, probability=0.0)
        chance = max(probability(margin, self._plan) * share, self._plan.floor)
        audit = uniform(request_id, self._secret) < chance
        if audit:
            self._allowance.take(now)
        return Draw(audit=audit, probability=chance)
