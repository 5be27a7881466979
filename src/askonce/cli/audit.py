"""`askonce audit`: look at the evidence, judge answers by hand, take bad entries away."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from askonce.cache.audits import text_of
from askonce.cache.word import take_word
from askonce.canonical.entry import unseal
from askonce.cli.entries import NoSink
from askonce.cli.invalidate import open_desk, user
from askonce.cli.legible import legible
from askonce.clock import SystemClock
from askonce.errors import CacheFault, ConfigError, EntryUnreadable
from askonce.stores.hot import HotEntries
from askonce.tiers.exact import ExactTier
from askonce.wiring import open_log, open_parts

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Coroutine
    from typing import Any

    from askonce.config import Config
    from askonce.ports import Agreement, Evidence, EvidenceLog
    from askonce.wiring import Parts

    Work = Callable[[Parts, EvidenceLog], Coroutine[Any, Any, int]]

_PAGE = 1000


def audit(config: Config, arguments: argparse.Namespace) -> int:
    """Run one of the four; returns the exit code."""
    if arguments.action != "list" and not arguments.id:
        raise ConfigError(f"audit {arguments.action} needs a request id or an entry's key")
    if arguments.limit < 1:
        raise ConfigError("--limit is 1 or more")
    if arguments.action == "judge" and not arguments.verdict:
        raise ConfigError("audit judge needs a request id and right or wrong")
    works: dict[str, Work] = {
        "list": lambda _, log: _list(log, arguments.limit, arguments.only),
        "show": lambda parts, log: _show(parts, log, arguments.id),
        "judge": lambda parts, log: _judge(parts, log, arguments.id, arguments.verdict),
        "retract": lambda parts, log: _retract(parts, log, arguments.id),
    }
    return asyncio.run(_with_parts(config, works[arguments.action]))


async def _with_parts(config: Config, work: Work) -> int:
    parts = await open_parts(config, clock=SystemClock(), sink=NoSink())
    log = parts.evidence or open_log(config, clock=SystemClock(), sink=NoSink())
    if log is None:
        await parts.close()
        raise ConfigError("trust.enabled is false: there is no evidence")
    try:
        return await work(parts, log)
    except CacheFault as fault:
        raise ConfigError(f"the evidence cannot be used: {fault}") from fault
    finally:
        await log.close()
        await parts.close()


async def _list(log: EvidenceLog, limit: int, verdict: str | None) -> int:
    """The newest records, newest last."""
    found: list[Evidence] = []
    seq = 0
    while page := await log.since(seq, _PAGE):
        seq = page[-1].seq
        told = [one for one in page if one.source != "asked"]
        found += [one for one in told if verdict is None or one.verdict == verdict]
        del found[:-limit]
    for one in found:
        print(_line(one))
    return 0


async def _show(parts: Parts, log: EvidenceLog, name: str) -> int:
    """All records of a request or an entry, and the entry itself."""
    records = await _named(log, name)
    for one in records:
        print(_line(one))
    for key in dict.fromkeys(one.entry for one in records):
        print(f"\nentry {key.hex()}")
        print(await _entry(parts, key))
    return 0 if records else _unknown(name)


async def _judge(parts: Parts, log: EvidenceLog, name: str, verdict: str) -> int:
    clock = SystemClock()
    exact = ExactTier(parts.store, HotEntries(0), clock=clock, sink=NoSink())
    agreement: Agreement = "same" if verdict == "right" else "different"
    if await take_word(name, agreement, log=log, exact=exact, clock=clock) is None:
        return _unknown(name)
    print(f"noted: {verdict}")
    return 0


async def _retract(parts: Parts, log: EvidenceLog, name: str) -> int:
    """The entry goes everywhere, and its evidence is marked."""
    key = _key(name)
    if key is None:
        hits = [one for one in await log.of_request(name) if one.source == "hit"]
        if not hits:
            return _unknown(name)
        key = hits[0].entry
    there = await parts.store.get(key) is not None
    marked = await (await open_desk(parts)).retract(key, log, by=user())
    print(f"entry {key.hex()[:16]} {'removed' if there else 'was gone'}, {marked} records marked")
    return 0


async def _named(log: EvidenceLog, name: str) -> list[Evidence]:
    key = _key(name)
    return await (log.of_request(name) if key is None else log.of_entry(key))


async def _entry(parts: Parts, key: bytes) -> str:
    sealed = await parts.store.get(key)
    try:
        entry = None if sealed is None else unseal(key, sealed)
    except EntryUnreadable:
        entry = None
    if entry is None:
        return "  gone"
    question, answer = legible(entry.question), legible(text_of(entry.answer) or "(not one text)")
    return f"  question: {question}\n  answer:   {answer}"


def _key(name: str) -> bytes | None:
    """An entry's key in full; request ids are shorter."""
    try:
        return bytes.fromhex(name) if len(name) == 64 else None
    except ValueError:
        return None


def _unknown(name: str) -> int:
    print(f"there is no evidence about {name}")
    return 1


def _line(one: Evidence) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.at))
    marks = " retracted" if one.retracted else ""
    return (
        f"{when}  {one.source:<8} {one.verdict:<9} {one.how or '-':<10} score {one.score:+.2f}"
        f"  {one.namespace}  request {one.request_id or '-'}  entry {one.entry.hex()}{marks}"
    )
