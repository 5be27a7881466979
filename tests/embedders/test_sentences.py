"""sentence-transformers: by a stand-in for the package, and by itself where it is installed."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from askonce.config import SemanticConfig
from askonce.embedders.sentences import SentenceEmbedder
from askonce.errors import ConfigError, EmbedderError, MissingExtra
from askonce.testing import FakeClock, RecordingSink
from askonce.testing.embedders import HashingEmbedder, check_embedder

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


class StandIn:
    """As much of a SentenceTransformer as is used."""

    max_seq_length = 64

    def __init__(self, folder: str, **settings: Any) -> None:
        """settings: as they must be, so that no hub is asked and no foreign code runs."""
        assert settings == {"device": "cpu", "local_files_only": True, "trust_remote_code": False}
        if "broken" in folder:
            raise OSError("no model")
        self.scale = 5.0

    def tokenizer(self, text: str, **settings: Any) -> dict[str, list[int]]:
        """A token a word, and two marks."""
        return {"input_ids": [0] * (len(text.split()) + 2)}

    def encode(self, text: str, **settings: Any) -> Any:
        """Letters counted; not of unit length."""
        if text == "explode":
            raise RuntimeError("out of memory")
        vector = HashingEmbedder()._vector(f"\x02{text.lower()}\x03") * self.scale
        return vector * (np.nan if text == "nan" else 1.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What stands for a model's folder."""
    path = tmp_path / "model"
    path.mkdir()
    (path / "weights").write_bytes(b"1")
    return path


@pytest.fixture
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    package, torch = ModuleType("sentence_transformers"), ModuleType("torch")
    package.SentenceTransformer = StandIn  # type: ignore[attr-defined]
    torch.set_num_threads = lambda _: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    monkeypatch.setitem(sys.modules, "torch", torch)


async def opened(folder: Path) -> SentenceEmbedder:
    """The embedder of a folder."""
    config = SemanticConfig(embedder="sentence-transformers", model=str(folder))
    return await SentenceEmbedder.open(config, clock=FakeClock(), sink=RecordingSink())


@pytest.mark.usefixtures("_stand_in")
async def test_it_keeps_the_promises(folder: Path) -> None:
    """It is an Embedder."""
    await check_embedder(lambda: opened(folder), window=64)


@pytest.mark.usefixtures("_stand_in")
async def test_other_files_are_another_space(folder: Path) -> None:
    """The id follows what the folder holds."""
    ids = set()
    for name, content in (("weights", b"1"), ("weights", b"2"), ("more", b"2")):
        (folder / name).write_bytes(content)
        embedder = await opened(folder)
        ids.add(embedder.id)
        await embedder.close()
    assert len(ids) == 3


@pytest.mark.usefixtures("_stand_in")
async def test_what_fails_in_the_model_is_an_error(folder: Path) -> None:
    """A fault, or a vector that is none."""
    embedder = await opened(folder)
    for text in ("explode", "nan"):
        with pytest.raises(EmbedderError):
            await embedder.embed(text)
    await embedder.close()


@pytest.mark.usefixtures("_stand_in")
async def test_what_is_no_model_is_refused(folder: Path) -> None:
    """No folder, or one that does not load."""
    (folder / "broken").mkdir()
    for path in (folder / "none", folder / "broken"):
        with pytest.raises(ConfigError):
            await opened(path)


async def test_a_missing_package_names_its_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Choosing it without installing it is a configuration error."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"askonce\[sentence-transformers\]"):
        await opened(folder)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A real model of a few kilobytes, with random weights."""
    pytest.importorskip("sentence_transformers")
    import torch
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel, BertTokenizerFast

    letters = [chr(code) for code in range(33, 127)]
    known = ["what", "is", "the", "capital", "of", "france", "convert", "100", "usd", "to", "eur"]
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*marks, *letters, *(f"##{letter}" for letter in letters), *known]
    bert = tmp_path / "bert"
    bert.mkdir()
    (bert / "vocab.txt").write_text("\n".join(words))
    torch.manual_seed(7)
    sizes = SimpleNamespace(hidden_size=64, num_hidden_layers=1, num_attention_heads=2)
    config = BertConfig(
        vocab_size=len(words),
        intermediate_size=64,
        max_position_embeddings=128,
        initializer_range=1.0,
        **vars(sizes),
    )
    BertModel(config).save_pretrained(bert)
    BertTokenizerFast(str(bert / "vocab.txt"), model_max_length=128).save_pretrained(bert)
    settings = json.loads((bert / "tokenizer_config.json").read_text())
    assert settings["model_max_length"] == 128
    words_in = models.Transformer(str(bert), max_seq_length=128)
    pooled = models.Pooling(words_in.get_word_embedding_dimension())
    path = tmp_path / "tiny"
    SentenceTransformer(modules=[words_in, pooled], device="cpu").save(str(path))
    return path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(180)
async def test_the_real_package_keeps_the_promises(tiny: Path) -> None:
    """It is an Embedder; how far its vectors mean anything is the model's matter."""
    embedder = await opened(tiny)
    one, other = await embedder.embed("a text"), await embedder.embed("another text, and longer")
    assert one.shape == other.shape == (64,)
    assert float(one @ other) < 1.0
    await embedder.close()
    await check_embedder(lambda: opened(tiny), window=128)
