"""Traces of every format come out as chains of blocks."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from askonce.errors import ConfigError
from askonce.lab.kv.traces import DIALOGUE_BLOCK, read

if TYPE_CHECKING:
    from pathlib import Path


def lines(*rows: dict[str, Any]) -> str:
    """JSON lines."""
    return "\n".join(json.dumps(row) for row in rows) + "\n"


def test_mooncake(tmp_path: Path) -> None:
    """Only full blocks count, times are in seconds, and requests come in order."""
    path = tmp_path / "chat.jsonl.gz"
    rows = [
        {"timestamp": 2000, "input_length": 1500, "output_length": 5, "hash_ids": [0, 1, 2]},
        {"timestamp": 500, "input_length": 100, "output_length": 7, "hash_ids": [9]},
    ]
    path.write_bytes(gzip.compress(lines(*rows).encode()))
    trace = read(path)
    assert trace.name == "chat"
    assert [one.at for one in trace.requests] == [0.5, 2.0]
    assert [one.blocks for one in trace.requests] == [(), (0, 1)]


def test_azure(tmp_path: Path) -> None:
    """Lengths and times alone: no block is ever shared."""
    path = tmp_path / "code.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:03.9799600,1200,10\n"
        "2023-11-16 18:17:04.9799600,1200,8\n"
        "2023-11-16 18:17:05.0319600,1200,8\n"
    )
    trace = read(path, limit=2)
    first, second = trace.requests
    assert second.at == pytest.approx(1.0)
    assert len(first.blocks) == 2
    assert not set(first.blocks) & set(second.blocks)


def test_agents(tmp_path: Path) -> None:
    """A session's calls share what they keep, sessions share nothing, threads go their own ways."""
    calls = [
        {"th": "main", "t": 0.0, "in": 4200, "out": 9, "keep": 0, "new": [[1, 65]]},
        {"th": "main", "t": 5.0, "in": 6200, "out": 9, "keep": 64, "new": [[70, 32]]},
        {"th": "sub", "t": 2.0, "in": 2100, "out": 9, "keep": 0, "new": [[200, 32]]},
    ]
    row = {"block_size": 64, "requests": calls}
    path = tmp_path / "agents.jsonl"
    path.write_text(lines(row, row))
    trace = read(path)
    one, other = trace.sessions
    assert [len(call.blocks) for call in one] == [2, 1, 3]
    assert one[2].blocks[:2] == one[0].blocks
    assert one[1].blocks[0] not in one[0].blocks
    assert not set(one[0].blocks) & set(other[0].blocks)


def test_dialogues(tmp_path: Path) -> None:
    """Every answer is a call behind all messages before it; equal openings share blocks."""
    policy = {"role": "system", "content": "be kind. " * 200}
    asked = {"role": "user", "content": "hello"}
    answer = {"role": "assistant", "content": "hi"}
    path = tmp_path / "talk.jsonl"
    path.write_text(lines({"messages": [policy, asked, answer, asked, answer]}) * 2)
    first, second = read(path).sessions
    assert len(first) == 2
    assert first[1].tokens > first[0].tokens
    assert first[1].at > first[0].at
    assert first[0].blocks == second[0].blocks
    assert len(first[0].blocks) >= 1800 // 4 // DIALOGUE_BLOCK


def test_sessions_are_laid_out_in_a_window(tmp_path: Path) -> None:
    """They begin at seeded random times; requests come out in order."""
    call = {"th": "m", "t": 1.0, "in": 3000, "out": 1, "keep": 0, "new": [[1, 40]]}
    path = tmp_path / "agents.jsonl"
    path.write_text(lines(*[{"block_size": 64, "requests": [call]}] * 20))
    sessions = read(path, limit=10)
    trace = sessions.laid_out(100.0)
    times = [one.at for one in trace.requests]
    assert len(times) == 10
    assert times == sorted(times)
    assert 1.0 <= times[0] <= times[-1] <= 101.0
    assert sessions.laid_out(100.0) == trace
    assert trace.laid_out(5.0) is trace


@pytest.mark.parametrize("text", ["", "{}\n", "not json\n", '{"hash_ids": 3}\n', "[1]\n"])
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str) -> None:
    """The error names the file."""
    path = tmp_path / "odd.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"odd\.jsonl"):
        read(path)


def test_a_broken_archive_is_refused(tmp_path: Path) -> None:
    """A cut gzip file is an error of the file, not of the program."""
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}" * 1000)[:20])
    with pytest.raises(ConfigError, match="cut"):
        read(path)
    with pytest.raises(ConfigError, match="absent"):
        read(tmp_path / "absent.jsonl")
