"""What an operator writes into vLLM's configuration is read strictly."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import askonce.kv.vllm
from askonce.errors import ConfigError
from askonce.kv.vllm.settings import settings_from

if TYPE_CHECKING:
    from pathlib import Path


def test_a_url_is_enough() -> None:
    """Everything else has a default, and reaches the pool."""
    settings = settings_from({"url": "redis://kv"})
    pool = settings.pool()
    assert (pool.lookup_deadline, pool.load_deadline, pool.ttl) == (0.05, 1.0, 86_400.0)
    assert settings_from({"url": "x", "ttl": 0}).pool().ttl is None


def test_a_told_prefill_is_a_curve() -> None:
    """In the units of `askonce kv plan`."""
    curve = settings_from({"url": "x", "prefill": [5, 20, 0.5]}).curve()
    assert curve is not None
    assert curve.seconds(1000) == pytest.approx(0.005 + 0.020 + 0.0005)
    assert settings_from({"url": "x"}).curve() is None


@pytest.mark.parametrize(
    ("told", "named"),
    [
        ({}, "url"),
        ({"url": "x", "urll": 1}, "urll"),
        ({"url": "x", "ttl": "long"}, "ttl"),
        ({"url": "x", "admission": "learned"}, "store_bytes"),
        ({"url": "x", "exchange_every": 0.5}, "exchange_every"),
        ({"url": "x", "exchange_every": -1}, "exchange_every"),
        ({"url": "x", "exchange_every": float("inf")}, "exchange_every"),
        ({"url": "x", "exchange_every": float("nan")}, "exchange_every"),
        ({"url": "x", "replica_bytes": -1}, "replica_bytes"),
        ({"url": "x", "gate": "ajar"}, "gate"),
        ({"url": "x", "prefill": [1, 0, 0]}, "prefill"),
        ({"url": "x", "prefill": [1, -1, 0]}, "prefill"),
        ({"url": "x", "audit": 1.5}, "audit"),
        ({"url": "x", "audit_action": "ignore"}, "audit_action"),
    ],
)
def test_what_cannot_be_used_is_named(told: dict[str, object], named: str) -> None:
    """A missing, a misspelt and a wrong key, and one that needs another."""
    with pytest.raises(ConfigError, match=named):
        settings_from(told)


def test_an_audit_needs_kv_whose_values_can_be_told(caplog: pytest.LogCaptureFixture) -> None:
    """A small share by default; none of 0, and none of FP8, which the log says."""
    settings = settings_from({"url": "x"})
    assert settings.audit == 0.001
    assert settings.auditor("auto/bfloat16") is not None
    assert settings.sample("auto/bfloat16") is not None
    assert not caplog.messages
    assert settings.auditor("fp8/uint8") is None
    assert settings.sample("fp8/uint8") is None
    assert "fp8/uint8" in caplog.text
    without = settings_from({"url": "x", "audit": 0})
    assert without.auditor("float32") is None
    assert without.sample("float32") is None


def test_replicas_that_are_seeded_alike_audit_other_hits() -> None:
    """As vLLM seeds them, with 0 unless it is told another number."""
    settings, drawn = settings_from({"url": "x", "audit": 0.5}), []
    for _ in range(2):
        random.seed(0)
        sample = settings.sample("float32")
        assert sample is not None
        drawn.append([sample.chooses() for _ in range(64)])
    assert drawn[0] != drawn[1]


def test_the_secret_is_a_file_or_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file wins, its last line end does not count; gone, empty or short is an error."""
    monkeypatch.setenv("ASKONCE_KV_SECRET", "from the environment")
    assert settings_from({"url": "x"}).secret() == b"from the environment"
    file = tmp_path / "secret"
    file.write_text("from a file, as it is\n")
    told = {"url": "x", "secret_file": str(file)}
    assert settings_from(told).secret() == b"from a file, as it is"
    for unusable in ("", "\n", "too short\n"):
        file.write_text(unusable)
        with pytest.raises(ConfigError, match="secret"):
            settings_from(told).secret()
    file.unlink()
    with pytest.raises(ConfigError, match="secret"):
        settings_from(told).secret()


def test_only_the_two_doors_are_there() -> None:
    """Importing the package needs no vLLM, and another name is an error as anywhere."""
    with pytest.raises(AttributeError, match="AskTwice"):
        askonce.kv.vllm.AskTwice  # noqa: B018


@pytest.mark.parametrize("name", ["lookup_deadline", "load_deadline", "store_deadline", "ttl"])
def test_no_time_is_negative(name: str) -> None:
    """With such a deadline nothing would ever be shared, and nobody would know why."""
    with pytest.raises(ConfigError, match=name):
        settings_from({"url": "x", name: -1})
