"""Whatever is done to what a store holds, a load brings the right bytes or says that it does not.

`KV_TRIALS` says how often that is tried; `make test-kv` tries it a million times.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import pytest

from askonce.kv.block import HEADER_BYTES, BlockKey, Sealer
from askonce.kv.namespace import Hashing, Identity, Layout, namespace_of
from askonce.kv.shelf import Shelf
from askonce.kv.transports.memory import MemoryTransport
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.kv.ports import Arrived, Outcome, Outcomes

TRIALS = int(os.environ.get("KV_TRIALS", "20000"))
SIZE, BATCH = 96, 64
EPOCH = 1 << 60
SECRET = b"0123456789abcdef"
IDENTITY = Identity(
    model=b"m" * 32,
    layout=Layout(kv_dtype="float16", block_tokens=16, block_bytes=SIZE, layout="NHD"),
    hashing=Hashing(algorithm="sha256_cbor", seed="0"),
    engine="vllm-0.33",
)


def _layout(**changes: object) -> Identity:
    return msgspec.structs.replace(
        IDENTITY, layout=msgspec.structs.replace(IDENTITY.layout, **changes)
    )


OTHERS = {
    "dtype": _layout(kv_dtype="fp8_e4m3"),
    "tensor parallel": _layout(tensor_parallel=2),
    "layout": _layout(layout="HND"),
    "block size": _layout(block_tokens=32),
    "model revision": msgspec.structs.replace(IDENTITY, model=b"n" * 32),
    "adapter": msgspec.structs.replace(IDENTITY, adapters=(b"a" * 32,)),
    "salt": msgspec.structs.replace(IDENTITY, tenant="other"),
    "engine": msgspec.structs.replace(IDENTITY, engine="vllm-0.34"),
    "hashing": msgspec.structs.replace(IDENTITY, hashing=Hashing(algorithm="sha256", seed="0")),
}


class Planted(MemoryTransport):
    """A store whose values are put under its keys by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[bytes] = []

    def fetch(
        self,
        keys: Sequence[bytes],
        headers: Sequence[memoryview],
        payloads: Sequence[memoryview],
        *,
        deadline: Seconds,
        arrived: Arrived | None = None,
    ) -> Outcomes:
        """The values in order, whatever the keys."""
        told: list[Outcome] = []
        for value, header, payload in zip(self.values, headers, payloads, strict=True):
            if len(value) == HEADER_BYTES + payload.nbytes:
                header[:], payload[:] = value[:HEADER_BYTES], value[HEADER_BYTES:]
            told.append("done" if len(value) == HEADER_BYTES + payload.nbytes else "size")
        return told


class Bench:
    """Right blocks, and every way to spoil them."""

    def __init__(self, secret: bytes, seed: int) -> None:
        self.random = random.Random(seed)
        self.secret = secret
        self.transport = Planted()
        self.shelf = Shelf(self.transport, namespace_of(IDENTITY), secret=secret)
        self.sealer = Sealer(namespace_of(IDENTITY), secret=secret)
        self.keys = [BlockKey(self.random.randbytes(32), number % 3) for number in range(BATCH)]
        self.payloads = [self.random.randbytes(SIZE) for _ in self.keys]
        self.right = [self.sealed(self.sealer, index) for index in range(BATCH)]
        self.other = {
            name: [self.sealed(Sealer(namespace_of(who), secret=secret), i) for i in range(BATCH)]
            for name, who in OTHERS.items()
        }
        self.older = [self.sealed(self.sealer, index, epoch=EPOCH - 1) for index in range(BATCH)]
        again = [self.random.randbytes(SIZE) for _ in self.keys]
        self.again = [self.sealed(self.sealer, i, payload=again[i]) for i in range(BATCH)]
        self.views = [memoryview(bytearray(SIZE)) for _ in self.keys]

    def sealed(
        self, sealer: Sealer, index: int, *, epoch: int = EPOCH, payload: bytes = b""
    ) -> bytes:
        body = payload or self.payloads[index]
        return sealer.seal(self.keys[index], body, epoch=epoch) + body

    def flipped(self, index: int) -> bytes:
        value = bytearray(self.right[index])
        bit = self.random.randrange(len(value) * 8)
        value[bit >> 3] ^= 1 << (bit & 7)
        return bytes(value)

    def cut(self, index: int) -> bytes:
        return self.right[index][: self.random.randrange(HEADER_BYTES + SIZE)]

    def grown(self, index: int) -> bytes:
        return self.right[index] + self.random.randbytes(1 + self.random.randrange(64))

    def swapped(self, index: int) -> bytes:
        return self.right[(index + 1 + self.random.randrange(BATCH - 1)) % BATCH]

    def replayed(self, index: int) -> bytes:
        return self.older[index]

    def torn(self, index: int) -> bytes:
        at = 96 + self.random.randrange(HEADER_BYTES + SIZE - 96)
        return self.right[index][:at] + self.again[index][at:]

    def foreign(self, index: int) -> bytes:
        head = self.right[index][: self.random.choice((0, 4, 20, 88))]
        return head + self.random.randbytes(HEADER_BYTES + SIZE - len(head))

    def unlike(self, index: int) -> bytes:
        return self.other[self.random.choice(list(OTHERS))][index]

    def load(self, kind: Callable[[int], bytes]) -> list[tuple[str, bool]]:
        """Outcome of each key, and whether its bytes are the right ones."""
        self.transport.values = [kind(index) for index in range(BATCH)]
        told = self.shelf.load(self.keys, self.views, epoch=EPOCH, deadline=Seconds(1e18))
        same = [view == right for view, right in zip(self.views, self.payloads, strict=True)]
        return list(zip(told, same, strict=True))


EXPECTED = {
    "flipped": {
        *("flaw_magic", "flaw_version", "flaw_namespace", "flaw_key", "flaw_group", "flaw_epoch"),
        *("flaw_codec", "flaw_length", "flaw_checksum", "flaw_seal"),
    },
    "cut": {"size"},
    "grown": {"size"},
    "swapped": {"flaw_key", "flaw_group"},
    "replayed": {"flaw_epoch"},
    "torn": {"flaw_checksum", "flaw_seal"},
    "foreign": {
        *("flaw_magic", "flaw_version", "flaw_namespace", "flaw_key", "flaw_checksum"),
        *("flaw_codec", "flaw_group"),
    },
    "unlike": {"flaw_namespace"},
}
"""Writes are torn after the fields, which are the same in both; before that, nothing is torn."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("secret", [b"", SECRET], ids=["plain", "secret"])
def test_no_wrong_bytes(secret: bytes) -> None:
    """Spoilt blocks are refused, each kind by the flaws that it has, and right ones are not."""
    bench = Bench(secret, seed=len(secret))
    kinds = {name: getattr(bench, name) for name in EXPECTED}
    seen: Counter[tuple[str, str]] = Counter()
    wrong = trials = 0
    while trials < TRIALS // 2:
        assert bench.load(bench.right.__getitem__) == [("done", True)] * BATCH
        for name, kind in kinds.items():
            for told, same in bench.load(kind):
                seen[name, told] += 1
                wrong += told == "done" and not same
            trials += BATCH
    sys.stdout.write(f"\n{trials} trials, {wrong} wrong: {dict(sorted(seen.items()))}\n")
    assert wrong == 0
    for name, told in seen:
        assert told in EXPECTED[name], f"{name} was {told}"
    assert {name for name, _ in seen} == set(EXPECTED)


@pytest.mark.parametrize("name", OTHERS)
def test_every_dimension_has_keys_of_its_own(name: str) -> None:
    """An engine that differs in one dimension does not even ask for the same names."""
    transport = MemoryTransport()
    keys, view = [BlockKey(b"k" * 32)], [memoryview(bytearray(SIZE))]
    soon = Seconds(1e18)
    mine = Shelf(transport, namespace_of(IDENTITY))
    other = Shelf(transport, namespace_of(OTHERS[name]))
    assert mine.store(keys, view, epoch=EPOCH, ttl=None, deadline=soon) == ["done"]
    assert mine.exists(keys, epoch=EPOCH, deadline=soon) == ["done"]
    assert other.exists(keys, epoch=EPOCH, deadline=soon) == ["missing"]
    assert mine.exists(keys, epoch=EPOCH + 1, deadline=soon) == ["missing"]
