"""The conformance check finds what a connector leaks, and nothing in AskOnce's own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip(
    "vllm", reason="there is no vLLM: run `make test-kv-vllm`", exc_type=ImportError
)

from tests.servers.redis import redis

from askonce.cli import main
from askonce.kv.vllm.conformance import check

pytestmark = [
    pytest.mark.slow,
    pytest.mark.servers,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore"),
]
DIMENSIONS = {
    "cache salt",
    "cache salt, and none",
    "LoRA name",
    "LoRA, and none",
    "LoRA content",
    "prompt embeddings",
    "multimodal item",
    "tensor parallel size",
    "KV data type",
    "KV layout",
    "block size",
    "model revision",
}


@pytest.mark.parametrize(
    "more", ["", ', "admission": "learned", "store_bytes": 1000000000'], ids=["all", "learned"]
)
def test_the_own_connector_leaks_nothing(
    more: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It shares with its like, and in no dimension with another; so the command succeeds."""
    with redis("redis7", tmp_path) as store:
        extra = f'{{"lookup_deadline": 1.0, "load_deadline": 5.0{more}}}'
        code = main(["kv", "conformance", "--url", store.unix_url, "--extra", extra])
    lines = capsys.readouterr().out.splitlines()
    told = {line[:24].strip(): line[25:].split()[0] for line in lines}
    assert told.pop("control") == "shared"
    assert told == dict.fromkeys(DIMENSIONS, "isolated")
    assert code == 0


def test_a_careless_connector_is_found_out(tmp_path: Path) -> None:
    """One that names blocks by their tokens alone leaks in every dimension."""
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        found = {each.dimension: each.verdict for each in check("careless:Careless", {}, tmp_path)}
    finally:
        sys.path.pop(0)
    assert found.pop("control") == "shared"
    assert found == dict.fromkeys(DIMENSIONS, "LEAK")
