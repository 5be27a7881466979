"""The admin API over a running service's parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from askonce.errors import ConfigError
from askonce.gateway.admin.app import admin_app
from askonce.gateway.admin.entries import Entries
from askonce.gateway.admin.evidence import EvidenceDesk
from askonce.gateway.admin.explain import Explainer
from askonce.gateway.admin.explain import Parts as ExplainerParts
from askonce.gateway.admin.state import State
from askonce.gateway.admin.taking_back import TakingBack
from askonce.settings.files import admin_token

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from askonce.config import Config
    from askonce.gateway.admin.operations import Operation
    from askonce.gateway.envelope import Envelope
    from askonce.gateway.http import Handler
    from askonce.gateway.routing import Upstreams
    from askonce.ports import Clock, Headers
    from askonce.wiring import Built, Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminParts:
    """What operators may look at and change."""

    config: Config
    parts: Parts
    built: Built
    upstreams: Upstreams
    read_envelope: Callable[[Headers], Envelope]
    render: Callable[[], bytes]
    clock: Clock


def admin_of(over: AdminParts) -> Handler:
    """The ASGI application; raises ConfigError."""
    return admin_app(operations_of(over), tokens_of(over.config))


def tokens_of(config: Config) -> Mapping[str, str]:
    """Tokens by name; raises ConfigError for one that is too short to be one."""
    tokens = config.admin.tokens or {"operator": admin_token(Path(config.server.data_dir))}
    short = [name for name, token in tokens.items() if len(token) < 16]
    if short:
        raise ConfigError(f"admin.tokens.{short[0]} must have at least 16 characters")
    return tokens


def operations_of(over: AdminParts) -> list[Operation]:
    """All that operators can do here."""
    parts, built = over.parts, over.built
    if built.watch is None or built.desk is None or parts.revocations is None:
        raise ConfigError("there is no log of what was taken back")
    entries = Entries(parts.store, built.watch, built.desk, parts.evidence, clock=over.clock)
    explainer = Explainer(
        ExplainerParts(
            config=over.config,
            entries=entries,
            upstreams=over.upstreams,
            read_envelope=over.read_envelope,
            embedder=parts.embedder,
            index=parts.index,
        )
    )
    state = State(parts.store, parts.index, built.watch, built.steps, over.render)
    taking_back = TakingBack(built.desk, parts.revocations)
    found = [*entries.operations(), *taking_back.operations()]
    found += [*explainer.operations(), *state.operations()]
    found += EvidenceDesk(parts.evidence, built.exact, clock=over.clock).operations()
    return found
