"""Real engines need vLLM; without it these tests are skipped, or fail if REQUIRE_ENGINES is set."""

from __future__ import annotations

import importlib
import os
import random
import signal
from typing import TYPE_CHECKING

import pytest
from tests.kv.vllm.tiny import VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Prompt = list[int]
_WITHOUT = "there is no vLLM: run `make test-kv-vllm`"

if os.environ.get("REQUIRE_ENGINES"):
    importlib.import_module("vllm")
    # Left to its default it would end this process alone, and vLLM's own would run on.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small model."""
    pytest.importorskip("vllm", reason=_WITHOUT, exc_type=ImportError)
    from tests.kv.vllm.tiny import make_model

    return make_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
def prompts() -> Callable[..., Prompt]:
    """Prompts of chance, each of so many tokens; the same seed gives the same one."""

    def make(length: int, seed: int) -> Prompt:
        chance = random.Random(seed)
        return [chance.randrange(3, VOCABULARY) for _ in range(length)]

    return make
