"""The epoch of a scope: one number in the store that takes everything back when it grows.

It is kept as a sealed block without payload, so nobody without the secret can move it. A replica
trusts what it read for one second at most. It never goes back to an earlier one: where the record
is gone, damaged or older than what was seen, blocks of any epoch so far may have been taken back
by a record that is lost, so a new and larger one is made from the time.
"""

from __future__ import annotations

import logging
import secrets
import threading
from typing import TYPE_CHECKING, Final

from askonce.errors import StoreError, places
from askonce.kv.block import HEADER_BYTES, BlockKey, Sealer, told_by
from askonce.kv.bulkhead import unbind
from askonce.units import Seconds

if TYPE_CHECKING:
    from askonce.kv.ports import BlockTransport
    from askonce.ports import Clock

INTERVAL: Final = Seconds(0.5)
"""Between two readings."""
LEASE: Final = Seconds(1.0)
"""How long a reading is trusted, from its beginning."""
_AGAIN: Final = Seconds(0.1)
"""After a reading that failed: another one may still be in time."""
_DEADLINE = Seconds(0.25)
_PATIENCE: Final = Seconds(1.0)
_log = logging.getLogger(__name__)
_KEY: Final = BlockKey(b"askonce kv epoch record of scope")
_RANDOM_BITS = 20


class Epochs:
    """Follows the epoch of one scope; any number of threads may ask."""

    def __init__(
        self, transport: BlockTransport, scope: bytes, clock: Clock, *, secret: bytes = b""
    ) -> None:
        """scope: 32 bytes, of all that is taken back together: the model's digest, as a rule."""
        self._transport = transport
        self._sealer = Sealer(scope, secret=secret)
        self._name = self.name_of(scope)
        self._clock = clock
        self._turn = threading.Lock()
        """Held while the store is asked; `_lock` never is."""
        self._lock = threading.Lock()
        self._current: int | None = None
        self._seen = 0
        self._read_at = Seconds(float("-inf"))
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @staticmethod
    def name_of(scope: bytes) -> bytes:
        """The record's key in the store."""
        return b"ak1:epoch:" + scope.hex().encode()

    def current(self) -> int | None:
        """The epoch, or None while it is not known for sure; never blocks."""
        with self._lock:
            fresh = self._clock.monotonic() - self._read_at < LEASE
            return self._current if fresh else None

    @property
    def latest(self) -> int:
        """The last one that was seen, however long ago; 0 before the first.

        Good enough to store under: where it is out of date, nobody looks there any more.
        """
        with self._lock:
            return self._seen

    @property
    def age(self) -> Seconds:
        """Since the last good reading began; infinite before the first."""
        with self._lock:
            return Seconds(self._clock.monotonic() - self._read_at)

    def refresh(self) -> bool:
        """Read the record, and make a new one where there is none to be trusted; blocks."""
        with self._turn:
            began = self._clock.monotonic()
            deadline = Seconds(began + _DEADLINE)
            found = self._read(deadline)
            if found is None:
                return False
            if found == 0 or found < self._seen:
                found = self._renewed(found, deadline)
            return self._adopt(found, began)

    def bump(self, *, timeout: Seconds = _PATIENCE) -> int:
        """Take everything back that was stored until now; blocks.

        Raises StoreError where the store cannot be told; this replica then serves nothing old all
        the same, and tells it later.
        """
        try:
            with self._turn:
                return self._bumped(timeout)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a third party's transport; costs misses
            with self._lock:
                self._seen, self._current = self._next(self._seen), None
            _log.error("a KV transport raised %s\n%s", type(error).__name__, places(error))
            raise StoreError(f"a KV transport raised {type(error).__name__}") from None

    def start(self) -> None:
        """Follow the record from now on, on a thread of its own."""
        self._thread = threading.Thread(target=self._follow, name="askonce-kv-epoch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Follow no longer."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_DEADLINE * 4)

    def _follow(self) -> None:
        unbind()
        while not self._stop.is_set():
            began, known = self._clock.monotonic(), False
            try:
                known = self.refresh()
            except Exception as error:  # noqa: BLE001 - a third party's transport; costs misses
                _log.error("a KV transport raised %s\n%s", type(error).__name__, places(error))
            spent = self._clock.monotonic() - began
            self._stop.wait(max(INTERVAL - spent, _AGAIN) if known else _AGAIN)

    def _bumped(self, timeout: Seconds) -> int:
        began = self._clock.monotonic()
        deadline = Seconds(began + timeout)
        known = self._read(deadline) or 0
        with self._lock:
            fresh = self._next(max(known, self._seen))
            self._seen, self._current = fresh, None
        self._write(fresh, deadline, replace=True)
        if not self._adopt(self._read(deadline), began):
            raise StoreError("the store did not take the new epoch")
        return fresh

    def _read(self, deadline: Seconds) -> int | None:
        """The record's epoch; 0 where there is none to be trusted, None where nobody knows."""
        header = bytearray(HEADER_BYTES)
        (said,) = self._transport.fetch(
            [self._name], [memoryview(header)], [memoryview(bytearray())], deadline=deadline
        )
        if said in {"missing", "size"}:
            return 0
        if said != "done":
            return None
        told = told_by(header)
        if told is None or self._sealer.check(header, b"", _KEY, epoch=told.epoch):
            return 0
        return told.epoch

    def _renewed(self, found: int, deadline: Seconds) -> int | None:
        """Store a new epoch, then see whose it became."""
        fresh = self._next(max(found, self._seen))
        self._write(fresh, deadline, replace=False)
        stored = self._read(deadline)
        if stored is not None and (stored == 0 or stored < self._seen):
            self._write(fresh, deadline, replace=True)
            stored = self._read(deadline)
        return stored

    def _write(self, epoch: int, deadline: Seconds, *, replace: bool) -> None:
        header = self._sealer.seal(_KEY, b"", epoch=epoch)
        self._transport.put(
            [self._name], [header], [b""], ttl=None, deadline=deadline, replace=replace
        )

    def _adopt(self, found: int | None, began: Seconds) -> bool:
        with self._lock:
            if not found or found < self._seen:
                return False
            self._current = self._seen = found
            self._read_at = began
            return True

    def _next(self, after: int) -> int:
        """Larger than any so far, and chosen by nobody else: milliseconds, then chance."""
        now = int(self._clock.now() * 1000) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        return max(after + 1, now)
