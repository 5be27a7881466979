"""`askonce stats` and `askonce clear`: what the cache holds, seen and removed from outside."""

from __future__ import annotations

import asyncio
import sys
import urllib.request
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from askonce.cli.figures import live_table
from askonce.clock import SystemClock
from askonce.errors import CacheFault, ConfigError
from askonce.ports import SupportsOwners, SupportsTags
from askonce.wiring import Parts, open_exact_store, open_parts

if TYPE_CHECKING:
    from askonce.config import Config
    from askonce.events import Event

OWNERS = 20
"""Tenants' namespaces that `stats` lists."""
PATIENCE = 2.0
"""Seconds a running server gets to show its metrics."""


class NoSink:
    """A sink for commands, which show no metrics."""

    def emit(self, event: Event) -> None:
        """Let the event go."""


class Chosen(NamedTuple):
    """What to clear: with neither tier named, both."""

    exact: bool = False
    semantic: bool = False
    tag: str | None = None
    yes: bool = False


def stats(config: Config) -> int:
    """Print the figures of the running server, else what its files hold."""
    page = _scrape(config)
    lines = list(live_table(page)) if page else asyncio.run(_held(config))
    print("\n".join(lines + asyncio.run(_owned(config))))
    return 0


async def _owned(config: Config) -> list[str]:
    """Who has most of the store, where it can be read from outside and counts by owner."""
    if config.exact.store.partition(":")[0] == "memory":
        return []
    store = open_exact_store(config, clock=SystemClock(), sink=NoSink())
    try:
        held = await store.owned(OWNERS) if isinstance(store, SupportsOwners) else []
    except CacheFault:
        held = []
    finally:
        await store.close()
    title = f"{'namespace':20} {'tenant':16} {'entries':>10} {'MB':>9}"
    rows = [
        f"{each.owner.namespace or 'default':20} {each.owner.tenant:16}"
        f" {each.entries:>10} {each.size / 1e6:>9.1f}"
        for each in held
    ]
    return [title, *rows] if rows else []


def _scrape(config: Config) -> str:
    host = f"[{config.server.host}]" if ":" in config.server.host else config.server.host
    url = f"http://{host}:{config.server.port}/metrics"
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=PATIENCE) as answer:
            page = str(answer.read().decode())
    except (OSError, ValueError):
        return ""
    return page if "askonce_requests_total" in page else ""


async def _held(config: Config) -> list[str]:
    where = f"{config.server.host}:{config.server.port}"
    lines = [f"no AskOnce runs at {where}; its store and {config.server.data_dir} hold:"]
    parts = await open_parts(config, clock=SystemClock(), sink=NoSink())
    try:
        held = await parts.store.stats()
        lines.append(f"  exact     {counted(held.entries)}, {held.size / 1e6:.1f} MB")
        lines.append(f"  semantic  {await _semantic_held(parts)}")
    except CacheFault as fault:
        lines.append(f"  they cannot be read: {fault}")
    finally:
        await parts.close()
    return lines


async def _semantic_held(parts: Parts) -> str:
    if parts.index is None:
        return f"off: {parts.semantic_off}" if parts.semantic_off else "off"
    return counted(await parts.index.count())


def clear(config: Config, chosen: Chosen) -> int:
    """Remove entries, while the server runs or not; returns the exit code."""
    if config.exact.store.partition(":")[0] == "memory" and not chosen.semantic:
        raise ConfigError("the exact store is in the server's memory: restart the server instead")
    if not (chosen.yes or _agreed(chosen)):
        print("nothing was removed")
        return 1
    print(asyncio.run(_clear(config, chosen)))
    return 0


def _agreed(chosen: Chosen) -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("clear asks before it removes; say --yes where nobody can answer")
    return input(f"Remove {_named(chosen)}? [y/N] ").strip().lower() in {"y", "yes"}


def _named(chosen: Chosen) -> str:
    if chosen.tag is not None:
        return f"all entries tagged {chosen.tag!r}"
    if chosen.exact == chosen.semantic:
        return "all entries of both tiers"
    return f"all entries of the {'exact' if chosen.exact else 'semantic'} tier"


async def _clear(config: Config, chosen: Chosen) -> str:
    both = chosen.exact == chosen.semantic
    wants_index = chosen.tag is None and config.semantic.enabled and (both or chosen.semantic)
    semantic = msgspec.structs.replace(config.semantic, enabled=wants_index)
    config = msgspec.structs.replace(config, semantic=semantic)
    parts = await open_parts(config, clock=SystemClock(), sink=NoSink())
    try:
        return await _remove(parts, chosen, both=both)
    except CacheFault as fault:
        raise ConfigError(f"entries cannot be removed: {fault}") from fault
    finally:
        await parts.close()


async def _remove(parts: Parts, chosen: Chosen, *, both: bool) -> str:
    """A semantic entry is a pointer: without its exact entry it is never served."""
    if chosen.tag is not None:
        if not isinstance(parts.store, SupportsTags):
            raise ConfigError("this store does not know tags")
        tagged = await parts.store.delete_tag(chosen.tag)
        return f"removed {counted(tagged)} tagged {chosen.tag!r}"
    lines = []
    if both or chosen.exact:
        lines.append(f"removed {counted(await parts.store.clear(), 'exact ')}")
    if both or chosen.semantic:
        lines.append(await _remove_semantic(parts))
    return "\n".join(lines)


async def _remove_semantic(parts: Parts) -> str:
    if parts.index is None:
        return f"semantic entries were left: {parts.semantic_off or 'the semantic tier is off'}"
    return f"removed {counted(await parts.index.clear(), 'semantic ')}"


def counted(number: int, kind: str = "") -> str:
    """A number of entries as a person says it."""
    return f"{number} {kind}{'entry' if number == 1 else 'entries'}"
