"""`askonce invalidate`: take answers back on every replica, while they run or not."""

from __future__ import annotations

import asyncio
import getpass
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from askonce.canonical.request import prompt_digest
from askonce.cli.entries import NoSink
from askonce.cli.legible import legible
from askonce.clock import SystemClock
from askonce.errors import CacheFault, ConfigError
from askonce.invalidation.desk import InvalidationDesk, Request
from askonce.invalidation.watch import Watch
from askonce.ports import Selector
from askonce.units import Cosine, Seconds, UnixTime
from askonce.wiring import open_parts

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Coroutine
    from typing import Any

    from askonce.config import Config
    from askonce.ports import Revocation, RevocationLog
    from askonce.wiring import Parts

    Work = Callable[[Parts, argparse.Namespace], Coroutine[Any, Any, int]]

_PAGE = 1000
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def invalidate(config: Config, arguments: argparse.Namespace) -> int:
    """Take back what the flags name, or list what was; returns the exit code."""
    where = config.invalidation.log or config.exact.store
    if where.partition(":")[0] == "memory":
        raise ConfigError("the log is in the server's memory: use the admin API, or restart it")
    if arguments.list:
        return asyncio.run(_with_parts(config, arguments, _list))
    what = selector_of(arguments, SystemClock().now())
    named_too = arguments.all or what != Selector()
    if arguments.like is not None and named_too:
        raise ConfigError("--like goes alone: answers are named by meaning or by fields, not both")
    if arguments.like is not None:
        return asyncio.run(_with_parts(config, arguments, _alike))
    if arguments.dry_run:
        raise ConfigError("--dry-run lists answers by meaning: it needs --like")
    if not named_too:
        raise ConfigError("say which answers, or --all")
    if not (arguments.yes or _agreed(named(what))):
        print("nothing was taken back")
        return 1
    return asyncio.run(_with_parts(config, arguments, _take_back))


def selector_of(arguments: argparse.Namespace, now: UnixTime) -> Selector:
    """What the flags name; raises ConfigError."""
    key, tenant = arguments.key, arguments.tenant
    for name, digest in (("key", key), ("tenant", tenant)):
        if digest is not None and not re.fullmatch("[0-9a-f]{64}", digest):
            raise ConfigError(f"a {name} has 64 hexadecimal digits")
    older = arguments.older_than
    return Selector(
        key=key,
        model=arguments.model,
        upstream=arguments.of_upstream,
        revision=arguments.revision,
        namespace=arguments.namespace,
        tenant=tenant,
        prompt=None if arguments.prompt is None else _digest_of(arguments.prompt),
        tag=arguments.tag,
        older_than=None if older is None else UnixTime(now - age(older)),
    )


def age(text: str) -> Seconds:
    """An age as people write it; raises ConfigError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if found is None:
        raise ConfigError(f"{text!r} is no age: write 90s, 5m, 2h or 7d")
    return Seconds(float(found[1]) * _UNITS[found[2]])


def named(what: Selector) -> str:
    """A selector as a person says it."""
    told = []
    for name in what.__struct_fields__:
        value = getattr(what, name)
        if name == "older_than" and value is not None:
            told.append(f"from before {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(value))}")
        elif value is not None:
            told.append(f"{name} {value!r}")
    return f"all answers of {', '.join(told)}" if told else "all answers"


def _digest_of(file: str) -> str:
    try:
        return prompt_digest([Path(file).read_text("utf-8")])
    except (OSError, ValueError) as reason:
        raise ConfigError(f"{file} cannot be read: {reason}") from None


def _agreed(told: str) -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("invalidate asks first; say --yes where nobody can answer")
    return input(f"Take back {told}? [y/N] ").strip().lower() in {"y", "yes"}


async def _with_parts(config: Config, arguments: argparse.Namespace, work: Work) -> int:
    parts = await open_parts(config, clock=SystemClock(), sink=NoSink())
    try:
        return await work(parts, arguments)
    except CacheFault as fault:
        raise ConfigError(f"nothing can be taken back: {fault}") from fault
    finally:
        await parts.close()


async def open_desk(parts: Parts) -> InvalidationDesk:
    """Over the newest rules; raises ConfigError without a log of them, StoreError."""
    watch = Watch(_log_of(parts), clock=SystemClock(), patience=Seconds(5.0))
    await watch.refresh()
    return InvalidationDesk(watch, parts.store, parts.index, parts.embedder, clock=SystemClock())


def _log_of(parts: Parts) -> RevocationLog:
    if parts.revocations is None:
        raise ConfigError("there is no log of what was taken back")
    return parts.revocations


async def _take_back(parts: Parts, arguments: argparse.Namespace) -> int:
    what = selector_of(arguments, SystemClock().now())
    desk = await open_desk(parts)
    seq = await desk.take_back(what, _request(arguments))
    print(f"took back {named(what)} (rule {seq})")
    return 0


async def _alike(parts: Parts, arguments: argparse.Namespace) -> int:
    desk = await open_desk(parts)
    found = await desk.alike(arguments.like, floor=Cosine(arguments.floor))
    for each in found:
        print(f"{each.score:.4f}  {each.item.key.hex()[:16]}  {legible(each.item.text)}")
    if not found or arguments.dry_run:
        print(f"{len(found)} would go" if found else "nothing means about the same")
        return 0
    if not (arguments.yes or _agreed(f"these {len(found)}")):
        print("nothing was taken back")
        return 1
    await desk.take_back_all(found, _request(arguments))
    print(f"took back {len(found)}")
    return 0


async def _list(parts: Parts, _: argparse.Namespace) -> int:
    log, after = _log_of(parts), 0
    if not (await log.read(after, 1)).rules:
        print("nothing was taken back so far")
    while rules := (await log.read(after, _PAGE)).rules:
        for rule in rules:
            print(_line(rule))
        after = rules[-1].seq
    return 0


def _line(rule: Revocation) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(rule.at))
    return f"{when}  {rule.seq}  {named(rule.what)}  by {rule.by or '-'}  {rule.why or '-'}"


def _request(arguments: argparse.Namespace) -> Request:
    return Request(by=user(), why=arguments.why)


def user() -> str:
    """Who runs the command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"
