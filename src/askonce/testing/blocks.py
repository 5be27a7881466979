"""What every transport of KV blocks must do, as a suite that any author can run.

    check_block_transport(lambda: MyTransport("…"), wait=time.sleep)

It raises AssertionError with the broken promise in plain words. It uses keys of its own, and leaves
nothing behind that lives longer than a minute.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, cast

from askonce.clock import SystemClock
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.kv.ports import BlockTransport, Outcomes, SupportsRenewal
    from askonce.ports import Clock

HEADER_BYTES = 192
_LIFE = Seconds(60.0)
_ROUNDS = 20


def check_block_transport(
    make_transport: Callable[[], BlockTransport],
    *,
    wait: Callable[[float], None],
    clock: Clock | None = None,
    large: int = 3_000_000,
) -> None:
    """Hold a transport against every sentence of `BlockTransport`.

    wait: lets seconds pass for the store. clock: the one that deadlines are told by. large: bytes
    of the largest payload to try.
    """
    transport = make_transport()
    bench = _Bench(transport, clock or SystemClock(), wait, large)
    try:
        for check in _CHECKS:
            check(bench)
    finally:
        transport.close()
    bench.says(transport.exists([bench.key()], deadline=bench.soon()), ["down"], "after close")


def _holds(broken: str, holds: bool) -> None:  # noqa: FBT001 - an assertion
    if not holds:
        raise AssertionError(broken)


class _Bench:
    """A transport with the words the checks use."""

    def __init__(
        self, transport: BlockTransport, clock: Clock, wait: Callable[[float], None], large: int
    ) -> None:
        self.transport = transport
        self.clock = clock
        self.wait = wait
        self.large = large

    def soon(self, seconds: float = 5.0) -> Seconds:
        return Seconds(self.clock.monotonic() + seconds)

    def key(self) -> bytes:
        """A fresh one, as long as any may be."""
        return b"ak1:check:" + os.urandom(110).hex().encode()

    def put(
        self, key: bytes, header: bytes, payload: bytes, *, life: float = _LIFE, over: bool = False
    ) -> Outcomes:
        return self.transport.put(
            [key], [header], [payload], ttl=Seconds(life), deadline=self.soon(), replace=over
        )

    def fetched(self, keys: Sequence[bytes], size: int) -> tuple[Outcomes, list[bytes]]:
        """Outcomes, and header with payload of each key."""
        headers = [memoryview(bytearray(HEADER_BYTES)) for _ in keys]
        payloads = [memoryview(bytearray(size)) for _ in keys]
        told = self.transport.fetch(keys, headers, payloads, deadline=self.soon())
        return told, [bytes(h) + bytes(p) for h, p in zip(headers, payloads, strict=True)]

    def says(self, told: Outcomes, expected: Sequence[str], when: str) -> None:
        _holds(f"{when}: {told}, expected {list(expected)}", list(told) == list(expected))


def _check_absent(bench: _Bench) -> None:
    keys = [bench.key(), bench.key()]
    nothing = ["missing", "missing"]
    bench.says(bench.transport.exists(keys, deadline=bench.soon()), nothing, "exists of nothing")
    bench.says(bench.fetched(keys, 64)[0], nothing, "fetch of nothing")
    bench.says(bench.transport.delete(keys, deadline=bench.soon()), nothing, "delete of nothing")


def _check_round_trip(bench: _Bench) -> None:
    for size in (0, 1, 4095, 70_000, bench.large):
        key, header, payload = bench.key(), os.urandom(HEADER_BYTES), os.urandom(size)
        bench.says(bench.put(key, header, payload), ["done"], f"put of {size} bytes")
        bench.says(bench.transport.exists([key], deadline=bench.soon()), ["done"], "exists")
        told, values = bench.fetched([key], size)
        bench.says(told, ["done"], f"fetch of {size} bytes")
        _holds(f"{size} bytes came back as others", values == [header + payload])
        bench.says(bench.transport.delete([key], deadline=bench.soon()), ["done"], "delete")
        bench.says(bench.fetched([key], size)[0], ["missing"], "fetch after delete")


def _check_order(bench: _Bench) -> None:
    keys = [bench.key() for _ in range(70)]
    values = [os.urandom(HEADER_BYTES + 500) for _ in keys]
    stored = [index for index in range(70) if index % 3]
    told = bench.transport.put(
        [keys[index] for index in stored],
        [values[index][:HEADER_BYTES] for index in stored],
        [values[index][HEADER_BYTES:] for index in stored],
        ttl=_LIFE,
        deadline=bench.soon(),
    )
    bench.says(told, ["done"] * len(stored), "put of many")
    expected = ["done" if index % 3 else "missing" for index in range(70)]
    bench.says(bench.transport.exists(keys, deadline=bench.soon()), expected, "exists of many")
    told, found = bench.fetched(keys, 500)
    bench.says(told, expected, "fetch of many")
    for index in stored:
        _holds("a key has the bytes of another", found[index] == values[index])
    told, found = bench.fetched([keys[1], keys[1]], 500)
    _holds("a key that is asked for twice is not the same twice", found == [values[1]] * 2)


def _check_replace(bench: _Bench) -> None:
    for size in (100, bench.large):
        key = bench.key()
        first, second = os.urandom(HEADER_BYTES + size), os.urandom(HEADER_BYTES + size + 7)
        bench.put(key, first[:HEADER_BYTES], first[HEADER_BYTES:])
        told = bench.put(key, second[:HEADER_BYTES], second[HEADER_BYTES:])
        bench.says(told, ["present"], "put over what is there")
        _holds(
            "a put that is `present` has changed bytes", bench.fetched([key], size)[1] == [first]
        )
        told = bench.put(key, second[:HEADER_BYTES], second[HEADER_BYTES:], over=True)
        bench.says(told, ["done"], "put with replace")
        _holds("replace has not replaced", bench.fetched([key], size + 7)[1] == [second])


def _check_arrival(bench: _Bench) -> None:
    """What is told on the way is whole already, and only what is done."""
    keys = [bench.key() for _ in range(6)]
    value = os.urandom(HEADER_BYTES + bench.large)
    for key in keys[:4]:
        bench.put(key, value[:HEADER_BYTES], value[HEADER_BYTES:])
    headers = [memoryview(bytearray(HEADER_BYTES)) for _ in keys]
    payloads = [memoryview(bytearray(bench.large)) for _ in keys]
    seen: list[int] = []
    broken: list[int] = []

    def arrived(index: int) -> None:
        seen.append(index)
        if bytes(headers[index]) + bytes(payloads[index]) != value:
            broken.append(index)

    told = bench.transport.fetch(keys, headers, payloads, deadline=bench.soon(), arrived=arrived)
    bench.says(told, ["done"] * 4 + ["missing"] * 2, "fetch with arrivals")
    _holds("a value was told before it was whole", not broken)
    _holds(
        f"arrivals that are none: {seen}",
        len(set(seen)) == len(seen) and set(seen) <= set(range(4)),
    )


def _check_size(bench: _Bench) -> None:
    keys = [bench.key(), bench.key()]
    for key in keys:
        bench.put(key, bytes(HEADER_BYTES), bytes(1000))
    bench.says(bench.fetched(keys, 999)[0], ["size", "size"], "fetch of too little")
    bench.says(bench.fetched(keys, 1001)[0], ["size", "size"], "fetch of too much")
    bench.says(bench.fetched(keys, 1000)[0], ["done", "done"], "fetch after a wrong size")


def _check_life(bench: _Bench) -> None:
    key = bench.key()
    bench.put(key, bytes(HEADER_BYTES), b"short", life=1.0)
    bench.wait(3.0)
    bench.says(bench.transport.exists([key], deadline=bench.soon()), ["missing"], "after its life")
    bench.transport.put([key], [b"h"], [b"for ever"], ttl=None, deadline=bench.soon())
    bench.wait(1.5)
    bench.says(bench.transport.exists([key], deadline=bench.soon()), ["done"], "without a life")
    bench.transport.delete([key], deadline=bench.soon())


def _check_renewal(bench: _Bench) -> None:
    """Where the transport has `renew`: a life grows, and never shrinks."""
    if not hasattr(bench.transport, "renew"):
        return
    transport = cast("SupportsRenewal", bench.transport)
    keys = [bench.key() for _ in range(3)]
    for key in keys[:2]:
        bench.put(key, bytes(HEADER_BYTES), b"short", life=1.5)
    lives = [Seconds(60.0), Seconds(0.5), Seconds(60.0)]
    told = transport.renew(keys, lives, deadline=bench.soon())
    bench.says(told, ["done", "missing", "missing"], "renew of one that lives longer, and nothing")
    bench.wait(0.8)
    there = bench.transport.exists(keys, deadline=bench.soon())
    bench.says(there, ["done", "done", "missing"], "after a life that was not cut")
    bench.wait(1.2)
    there = bench.transport.exists(keys, deadline=bench.soon())
    bench.says(there, ["done", "missing", "missing"], "after a life that was prolonged")
    past = Seconds(bench.clock.monotonic() - 1)
    bench.says(transport.renew(keys[:1], lives[:1], deadline=past), ["late"], "renew too late")
    bench.transport.delete(keys, deadline=bench.soon())


def _check_deadline(bench: _Bench) -> None:
    past = Seconds(bench.clock.monotonic() - 1)
    header, payload = memoryview(bytearray(HEADER_BYTES)), memoryview(bytearray(8))
    key = [bench.key()]
    calls = (
        bench.transport.exists(key, deadline=past),
        bench.transport.fetch(key, [header], [payload], deadline=past),
        bench.transport.put(key, [header], [payload], ttl=_LIFE, deadline=past),
        bench.transport.delete(key, deadline=past),
    )
    for told in calls:
        bench.says(told, ["late"], "a call after its deadline")


def _check_threads(bench: _Bench) -> None:
    """Many at once, each with bytes of its own."""
    wrong: list[str] = []

    def work() -> None:
        for _ in range(_ROUNDS):
            keys = [bench.key() for _ in range(4)]
            values = [os.urandom(HEADER_BYTES + 3000) for _ in keys]
            for key, value in zip(keys, values, strict=True):
                bench.put(key, value[:HEADER_BYTES], value[HEADER_BYTES:])
            told, found = bench.fetched(keys, 3000)
            if told != ["done"] * 4 or found != values:
                wrong.append(f"{told}: equal {found == values}")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _holds(f"threads got in each other's way: {wrong[:3]}", not wrong)


_CHECKS = (
    _check_absent,
    _check_round_trip,
    _check_order,
    _check_replace,
    _check_arrival,
    _check_size,
    _check_life,
    _check_renewal,
    _check_deadline,
    _check_threads,
)
