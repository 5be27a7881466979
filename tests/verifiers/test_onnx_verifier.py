"""A cross-encoder from a file gives log odds off the loop, within bounds, or says why not."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest
from tests.verifiers.crossing import write

from askonce.clock import SystemClock
from askonce.errors import ConfigError, MissingExtra, TextTooLong, VerifierBusy
from askonce.testing.verifiers import ScriptedVerifier, check_verifier
from askonce.verifiers.onnx import OnnxVerifier

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def opened(model: Path, **more: int) -> OnnxVerifier:
    return await OnnxVerifier.open(str(model), clock=SystemClock(), **more)


async def test_keeps_every_promise(tmp_path: Path) -> None:
    """The adapter and the fake are verifiers in every sentence of the port."""
    model = write(tmp_path)
    await check_verifier(lambda: opened(model))

    async def fake() -> ScriptedVerifier:
        return ScriptedVerifier(lambda _one, _other: 1.0)

    await check_verifier(fake)


@pytest.mark.parametrize(("logits", "odds"), [(1, -2.25), (2, 4.5)])
async def test_gives_log_odds(tmp_path: Path, logits: int, odds: float) -> None:
    """One logit as it is; of two, how much more yes than no."""
    verifier = await opened(write(tmp_path, logits=logits))
    # [CLS] cat [SEP] dog [SEP] are 1 + 6 + 2 + 7 + 2 = 18 eighths.
    assert await verifier.verify("cat", "dog") == pytest.approx(odds)
    assert verifier.expected_time("cat", "dog") > 0
    await verifier.close()


async def test_more_than_a_few_are_shed(tmp_path: Path) -> None:
    """The queue is bounded."""
    verifier = await opened(write(tmp_path), queue=2)
    calls = [verifier.verify("cat", "dog") for _ in range(5)]
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(one, VerifierBusy) for one in found] == [False, False, True, True, True]
    await verifier.close()


@pytest.mark.parametrize("text", ["cat " * 300, "x" * 100_000])
async def test_long_pairs_are_not_cut(tmp_path: Path, text: str) -> None:
    """They get no opinion."""
    verifier = await opened(write(tmp_path))
    with pytest.raises(TextTooLong):
        await verifier.verify(text, "dog")
    await verifier.close()


async def test_what_is_no_cross_encoder_is_refused(tmp_path: Path) -> None:
    """A model of another kind, a broken one and a missing tokenizer are told when it is opened."""
    wrong = (
        write(tmp_path / "three", logits=3),
        write(tmp_path / "other", name="pixels"),
        write(tmp_path / "nan", nan=True),
    )
    for model in wrong:
        with pytest.raises(ConfigError, match="no cross-encoder"):
            await opened(model)
    model = write(tmp_path / "broken")
    model.write_bytes(b"garbage")
    with pytest.raises(ConfigError, match="not a usable ONNX model"):
        await opened(model)
    (model.parent / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match="no tokenizer"):
        await opened(model)
    with pytest.raises(ConfigError, match="cannot be read"):
        await opened(tmp_path / "absent" / "model.onnx")


async def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the runtime the error says what to install."""
    model = write(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r"askonce\[semantic\]"):
        await opened(model)
