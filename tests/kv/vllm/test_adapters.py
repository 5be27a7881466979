"""Adapters are known by what their files hold."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

from askonce.kv.vllm.adapters import Adapters

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW = b"o" * 32, b"n" * 32


def test_what_was_read_before_an_adapter_was_loaded_anew_does_not_count() -> None:
    """Its requests would share blocks with those of the contents before."""
    reading, first, second = threading.Event(), threading.Event(), threading.Event()
    held = iter([(OLD, first), (NEW, second)])

    def read(_: Path) -> bytes:
        digest, gate = next(held)
        reading.set()
        assert gate.wait(5.0)
        return digest

    adapters = Adapters(read)
    named = SimpleNamespace(lora_int_id=1, lora_path="/a", load_inplace=True)
    adapters.meet(named)
    assert reading.wait(5.0)
    reading.clear()
    adapters.meet(named)
    first.set()
    assert reading.wait(5.0)
    assert adapters.digest(named) is None
    second.set()
    adapters.close()
    assert adapters.digest(named) == NEW
