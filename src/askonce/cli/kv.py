"""`askonce kv`: look at a store of KV blocks, measure it, or take its blocks back."""

from __future__ import annotations

import os
import statistics
import time
from typing import TYPE_CHECKING, cast

from askonce.cli.kv_figures import fleet_table, page_at
from askonce.clock import SystemClock
from askonce.errors import ConfigError, StoreError
from askonce.kv.block import HEADER_BYTES, BlockKey, Sealer, told_by, usable
from askonce.kv.epochs import Epochs
from askonce.kv.namespace import model_digest
from askonce.kv.shelf import Shelf
from askonce.kv.transports.urls import open_transport
from askonce.units import Seconds

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from askonce.kv.ports import BlockTransport, SupportsFigures, SupportsPeek

URL, SECRET = "ASKONCE_KV_URL", "ASKONCE_KV_SECRET"
"""The environment's; a secret is never a flag, which others could see."""
_PATIENCE = 5.0
_ROUNDS = 5
_TOLD = {
    "version": ("redis_version", "valkey_version", "version"),
    "memory used": ("used_memory_human", "bytes"),
    "memory at most": ("maxmemory_human", "limit_maxbytes"),
    "when full": ("maxmemory_policy",),
    "evicted": ("evicted_keys", "evictions"),
    "hits": ("keyspace_hits", "get_hits"),
    "misses": ("keyspace_misses", "get_misses"),
    "connections": ("connected_clients", "curr_connections"),
}
"""What `stat` shows, by the servers' own names of it."""


def kv(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Run one action; returns the exit code."""
    url = arguments.url or environ.get(URL, "")
    if not url:
        raise ConfigError(f"say which store: --url, or {URL}")
    secret = usable(environ.get(SECRET, "").encode())
    transport = open_transport(url)
    try:
        return _ACTIONS[arguments.action](transport, arguments, secret)
    finally:
        transport.close()


def _stat(transport: BlockTransport, arguments: argparse.Namespace, secret: bytes) -> int:
    if not hasattr(transport, "servers"):
        raise ConfigError("this kind of store tells nothing about itself")
    told = cast("SupportsFigures", transport).servers(deadline=_soon())
    for place, fields in told.items():
        print(place if fields is not None else f"{place}: no answer")
        for name, keys in _TOLD.items():
            found = [fields[key] for key in keys if key in fields] if fields else []
            if found:
                print(f"  {name:15} {found[0]}")
    if arguments.scope or arguments.model:
        header = bytearray(HEADER_BYTES)
        (said,) = transport.fetch(
            [Epochs.name_of(_scope(arguments))],
            [memoryview(header)],
            [memoryview(bytearray())],
            deadline=_soon(),
        )
        record = told_by(header) if said == "done" else None
        print(f"epoch {record.epoch}" if record else f"no epoch: {said}")
    if arguments.metrics:
        print("\n".join(fleet_table(page_at(each) for each in arguments.metrics)))
    del secret
    return int(any(fields is None for fields in told.values()))


def _inspect(transport: BlockTransport, arguments: argparse.Namespace, secret: bytes) -> int:
    if not arguments.key or not hasattr(transport, "peek"):
        raise ConfigError("inspect needs a block's key, and a store that can be looked into")
    name = arguments.key.encode()
    head = cast("SupportsPeek", transport).peek(name, HEADER_BYTES, deadline=_soon())
    told = None if head is None else told_by(head)
    if told is None:
        print("there is no block under this key" if head is None else "this is no block")
        return 1
    for field in ("namespace", "block"):
        print(f"{field:13} {getattr(told, field).hex()}")
    for field in ("group", "epoch", "codec", "payload_bytes", "sealed"):
        print(f"{field:13} {getattr(told, field)}")
    flaw = _flaw(transport, name, told.payload_bytes, secret)
    print(f"{'verdict':13} {flaw or 'sound'}")
    return int(flaw is not None)


def _flaw(transport: BlockTransport, name: bytes, size: int, secret: bytes) -> str | None:
    """What is wrong with the block for the key that it lies under."""
    try:
        _, namespace, epoch, block = name.decode().split(":")
        digest, _, group = block.partition(".")
        key = BlockKey(bytes.fromhex(digest), int(group))
        sealer, at = Sealer(bytes.fromhex(namespace), secret=secret), int(epoch, 16)
    except ValueError:
        return "its key is no block's"
    header, payload = bytearray(HEADER_BYTES), bytearray(min(size, 1 << 30))
    (said,) = transport.fetch([name], [memoryview(header)], [memoryview(payload)], deadline=_soon())
    if said != "done":
        return said
    told = told_by(header)
    if told is None or told.codec is None:
        return "codec"
    return sealer.check(header, payload, key, epoch=at, codec=told.codec)


def _bench(transport: BlockTransport, arguments: argparse.Namespace, secret: bytes) -> int:
    count, size = arguments.blocks, arguments.block_bytes
    if count < 1 or size < 1:
        raise ConfigError("--blocks and --block-bytes are from 1 up")
    shelf = Shelf(transport, os.urandom(32), secret=secret)
    keys = [BlockKey(os.urandom(32)) for _ in range(count)]
    blocks = [memoryview(bytearray(os.urandom(size))) for _ in keys]
    views = [memoryview(bytearray(size)) for _ in keys]
    life = Seconds(60.0)
    took = {
        "store": _timed(lambda n: shelf.store(keys, blocks, epoch=n, ttl=life, deadline=_soon())),
        "lookup": _timed(lambda n: shelf.exists(keys, epoch=n, deadline=_soon())),
        "load": _timed(lambda n: shelf.load(keys, views, epoch=n, deadline=_soon())),
    }
    for number in range(_ROUNDS):
        transport.delete(shelf.names(keys, number), deadline=_soon())
    if views != blocks:
        raise StoreError("blocks came back as others")
    for name, seconds in took.items():
        rate = "" if name == "lookup" else f"  {count * size / seconds / 1e9:.2f} GB/s"
        print(f"{name:7} {count} blocks of {size} bytes: {seconds * 1000:.2f} ms{rate}")
    return 0


def _timed(work: Callable[[int], Sequence[str]]) -> float:
    """Seconds of the round in the middle; raises StoreError for a round that did not go well."""
    took = []
    for number in range(_ROUNDS):
        began = time.perf_counter()
        said = set(work(number))
        took.append(time.perf_counter() - began)
        if said != {"done"}:
            raise StoreError(f"the store said: {', '.join(sorted(said))}")
    return statistics.median(took)


def _invalidate(transport: BlockTransport, arguments: argparse.Namespace, secret: bytes) -> int:
    scope = _scope(arguments)
    epoch = Epochs(transport, scope, SystemClock(), secret=secret).bump()
    print(f"scope {scope.hex()}: epoch {epoch}; no replica serves older blocks after one second")
    return 0


def _scope(arguments: argparse.Namespace) -> bytes:
    if arguments.scope:
        try:
            scope = bytes.fromhex(arguments.scope)
        except ValueError:
            scope = b""
        if len(scope) != 32:
            raise ConfigError("a scope has 64 hexadecimal digits")
        return scope
    if arguments.model is None:
        raise ConfigError("say which model: --model DIR, or --scope")
    try:
        return model_digest(arguments.model)
    except (OSError, ValueError) as reason:
        raise ConfigError(f"the model cannot be read: {reason}") from None


def _soon() -> Seconds:
    return Seconds(SystemClock().monotonic() + _PATIENCE)


_ACTIONS: Mapping[str, Callable[[BlockTransport, argparse.Namespace, bytes], int]] = {
    "stat": _stat,
    "inspect": _inspect,
    "bench": _bench,
    "invalidate": _invalidate,
}
