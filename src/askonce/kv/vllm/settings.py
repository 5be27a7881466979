"""What an operator may say in vLLM's configuration."""

from __future__ import annotations

import logging
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from askonce.errors import ConfigError
from askonce.kv.admission import Admission, Limits
from askonce.kv.audit import Comparison, Sample
from askonce.kv.auditor import Auditor
from askonce.kv.block import usable
from askonce.kv.curves import Curve
from askonce.kv.floats import FLOATS
from askonce.kv.pool import PoolSettings
from askonce.units import Bytes, Seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET_VARIABLE = "ASKONCE_KV_SECRET"  # noqa: S105 - a name, not a secret
MIB = 1024 * 1024
_log = logging.getLogger(__name__)
_DAY = 24 * 3600.0
_LEAST_EXCHANGE = 1.0
"""Seconds: all slots of the board are looked at as often."""


NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]


class VllmSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keys of `kv_connector_extra_config`, or of an entry in `secondary_tiers`."""

    url: str
    """Of the store: `redis://`, `valkey://`, `memcached://` and their kin."""
    secret_file: str = ""
    """File with the secret that seals blocks; else the variable ASKONCE_KV_SECRET, else none."""
    tenant: str = ""
    """Keeps deployments apart that share a store."""
    weights: str = ""
    """Folder of the weights, where vLLM's own name of the model is not one."""
    adapters: tuple[str, ...] = ()
    """Folders of adapters that are loaded by name: new contents share nothing with old ones."""
    storage: Literal["raw", "int8"] = "raw"
    """How blocks are stored; `int8` is smaller and not exact."""
    ttl: NotNegative = _DAY
    """Seconds that a stored block lives; 0 leaves it to the store's eviction."""
    lookup_deadline: Positive = 0.05
    load_deadline: Positive = 1.0
    store_deadline: Positive = 5.0
    invalidate_on_reset: bool = True
    """When vLLM empties its caches, the store's blocks of this model are void for all replicas."""
    min_tokens: int = 64
    """A shorter hit is computed instead of loaded."""
    gate: Literal["on", "off"] = "on"
    """A hit that is cheaper to compute is not loaded."""
    prefill: tuple[NotNegative, NotNegative, NotNegative] | None = None
    """What a prompt takes: milliseconds, microseconds a token, nanoseconds a token squared. The
    connector sees that for itself; the tier's gate needs it."""
    admission: Literal["all", "learned"] = "all"
    """Store everything, or what the replicas' traffic shows to be worth it; connector only."""
    store_bytes: int = 0
    """What the store holds, which learned admission divides among the blocks of all replicas that
    exchange what they saw; without the exchange, among those of this one."""
    replica_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    """With `learned`: what this replica may fill of that; 0 for no bound of its own."""
    exchange_every: float = 5.0
    """With `learned`: seconds between two exchanges with the other replicas, which must have the
    same; 0 for none."""
    audit: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.001
    """Share of hits that are computed all the same, and held against what is stored."""
    audit_tolerance: NotNegative = 0.0
    """Error from which a stored block is wrong; 0 for what is usual for the type of KV."""
    audit_action: Literal["report", "invalidate"] = "report"
    """What a wrong block leads to; `invalidate` takes all of this model's blocks back."""
    staging_bytes: int = 512 * MIB
    """Host memory for blocks on their way, half of it for each direction; connector only."""

    def __post_init__(self) -> None:
        """Raises ValueError for what cannot go together."""
        if self.prefill is not None and not self.prefill[1]:
            raise ValueError("`prefill` needs microseconds a token")
        if self.admission == "learned" and self.store_bytes <= 0:
            raise ValueError('"admission": "learned" needs `store_bytes`, the size of the store')
        if self.exchange_every and not _LEAST_EXCHANGE <= self.exchange_every <= _DAY:
            raise ValueError("`exchange_every` is 0, or from a second to a day")

    def pool(self) -> PoolSettings:
        """The pool's share."""
        return PoolSettings(
            lookup_deadline=Seconds(self.lookup_deadline),
            load_deadline=Seconds(self.load_deadline),
            store_deadline=Seconds(self.store_deadline),
            ttl=Seconds(self.ttl) if self.ttl else None,
        )

    def curve(self) -> Curve | None:
        """Of prefills, where the operator has told it."""
        if self.prefill is None:
            return None
        fixed, token, square = self.prefill
        return Curve(
            name="as told", fixed=fixed / 1e3, per_token=token / 1e6, per_square=square / 1e9
        )

    def auditor(self, kv_dtype: str) -> Auditor | None:
        """What holds blocks against each other; None where nothing is audited."""
        dtype = kv_dtype.rpartition("/")[2]
        if not self.audit:
            return None
        if dtype not in FLOATS:
            _log.warning("AskOnce audits no KV of %s: it cannot tell its values", kv_dtype)
            return None
        lossy = self.storage != "raw"
        comparison = Comparison(dtype, lossy=lossy, tolerance=self.audit_tolerance)
        return Auditor(comparison, action=self.audit_action)

    def sample(self, kv_dtype: str) -> Sample | None:
        """Which hits are audited, others on each replica; None for none of them."""
        told = kv_dtype.rpartition("/")[2] in FLOATS
        chance = random.SystemRandom()  # vLLM seeds the module's own alike on all replicas
        return Sample(self.audit, chance.random) if self.audit and told else None

    def learned(self, block_bytes: int) -> Admission | None:
        """What decides on storing; None where everything is stored."""
        if self.admission == "all":
            return None
        base = Limits(
            budget=Bytes(self.store_bytes),
            own_budget=Bytes(self.replica_bytes) if self.replica_bytes else None,
            block_bytes=Bytes(block_bytes),
        )
        return Admission(base.within(Seconds(self.ttl or _DAY)))

    def secret(self) -> bytes:
        """What seals blocks; empty for none. Raises ConfigError."""
        if not self.secret_file:
            return usable(os.environ.get(SECRET_VARIABLE, "").encode())
        try:
            secret = Path(self.secret_file).read_bytes().strip()
        except OSError as reason:
            raise ConfigError(f"the secret of the KV store cannot be read: {reason}") from None
        if not secret:
            raise ConfigError(f"there is no secret in {self.secret_file}")
        return usable(secret)


def settings_from(told: Mapping[str, object]) -> VllmSettings:
    """Read the keys; raises ConfigError that names the wrong one."""
    try:
        return msgspec.convert(dict(told), VllmSettings)
    except msgspec.ValidationError as reason:
        raise ConfigError(f"the settings of the KV store cannot be used: {reason}") from None
