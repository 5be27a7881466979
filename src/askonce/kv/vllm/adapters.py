"""Which adapter a request runs with, by the content of its files."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from askonce.kv.bulkhead import Bulkhead
from askonce.kv.namespace import files_digest
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_PATIENCE = Seconds(1.0)


class Adapters:
    """Digests of adapters, each read once on a thread of its own."""

    def __init__(self, read: Callable[[Path], bytes] | None = None) -> None:
        """Read nothing yet."""
        self._read = read or folder_digest
        self._lock = threading.Lock()
        self._known: dict[tuple[int, str], bytes | None] = {}
        self._turns: dict[tuple[int, str], int] = {}
        """How often each was to be read: what came before it was loaded anew tells nothing."""
        self._reader = Bulkhead("askonce-kv-adapters", threads=1, depth=64)

    def meet(self, adapter: Any) -> None:  # noqa: ANN401 - vLLM's LoRARequest
        """A request names this adapter: read it, unless it is known and was not loaded anew."""
        name = _name(adapter)
        with self._lock:
            if name in self._known and not getattr(adapter, "load_inplace", False):
                return
            self._known[name] = None
            self._turns[name] = turn = self._turns.get(name, 0) + 1
        if not self._reader.offer(lambda: self._learn(name, turn)):
            with self._lock:
                del self._known[name]

    def digest(self, adapter: Any) -> bytes | None:  # noqa: ANN401
        """32 bytes, or None while they are not known: then nothing is shared."""
        with self._lock:
            return self._known.get(_name(adapter))

    def close(self) -> None:
        """Read no more."""
        self._reader.close(_PATIENCE)

    def _learn(self, name: tuple[int, str], turn: int) -> None:
        try:
            digest = self._read(Path(name[1]))
        except OSError:
            return
        with self._lock:
            if self._turns[name] == turn:
                self._known[name] = digest


def bound(block_hash: bytes, adapter: bytes) -> bytes:
    """The block's name under an adapter: vLLM's own tells only the adapter's name."""
    return hashlib.blake2b(
        block_hash, key=adapter, digest_size=32, person=b"askonce kv lora"
    ).digest()


def folder_digest(folder: Path) -> bytes:
    """Of an adapter's files, by their whole contents; raises OSError, also where there is none."""
    files = [path for path in folder.iterdir() if path.is_file()]
    if not files:
        raise OSError(f"there is no adapter in {folder}")
    return files_digest(files)


def _name(adapter: Any) -> tuple[int, str]:  # noqa: ANN401
    return adapter.lora_int_id, str(adapter.lora_path)
