"""Calls get the product's own keys, partitions and admission, and every line is accounted for."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from tests.lab.traffic.logs import START, call, silent, traffic_of, write

from askonce.config import Config
from askonce.lab.traffic.ingest import ingest

if TYPE_CHECKING:
    from pathlib import Path

CHOICE = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
COMPLETION = {
    "choices": [CHOICE],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4},
}


def test_keys_are_those_of_the_product(tmp_path: Path) -> None:
    """Fields without effect do not part requests; tenants and namespaces do."""
    same = call("a")
    same["request"] = {**same["request"], "user": "u", "stream": True}
    lines = [call("a"), same, call("a", tenant="t"), call("a", namespace="n"), call("b")]
    traffic = traffic_of(tmp_path, lines)
    assert [one.key for one in traffic.calls] == [0, 0, 1, 2, 3]
    shared = [one.shared for one in traffic.calls]
    assert shared[0] == shared[1] == shared[2]
    assert len(set(shared)) == 3
    assert traffic.places[0] == traffic.places[3]
    assert len(traffic.partitions) == 3
    assert traffic.text(3) == "b"
    traffic.close()


def test_admission_is_that_of_the_product(tmp_path: Path) -> None:
    """Truncated answers and failures are not stored; tool calls are not found by meaning."""
    cut = {**COMPLETION, "choices": [{**CHOICE, "finish_reason": "length"}]}
    tool = {"tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]}
    lines = [
        call("a", None, answer=COMPLETION),
        call("a", None, answer=cut),
        call("a", None, answer=tool),
        call("a", status=500),
        call("a", None),
        call("a", None, answer={"choices": []}),
        call("a", headers={"cache-control": "no-store"}),
    ]
    traffic = traffic_of(tmp_path, lines)
    stored = [(one.stored, one.findable, one.answer >= 0) for one in traffic.calls]
    assert stored == [
        (True, True, True),
        (False, False, False),
        (True, False, False),
        (False, False, False),
        (True, True, False),
        (False, False, False),
        (False, False, True),
    ]
    assert traffic.refused == {"truncated": 1, "status": 1, "not_in_the_log": 1, "no_choices": 1}
    traffic.close()


def test_an_answer_that_broke_off_is_not_stored(tmp_path: Path) -> None:
    """A line of our own without its answer tells of that; one of another log tells nothing."""
    traffic = traffic_of(
        tmp_path, [call("a", None, v=1, answer=None), call("a", None), call("a", "yes", v=1)]
    )
    assert [one.stored for one in traffic.calls] == [False, True, True]
    assert traffic.refused == {"broken": 1, "not_in_the_log": 1}
    traffic.close()


def test_tokens_are_told_or_guessed(tmp_path: Path) -> None:
    """A request that was told before lends its count; else four letters are one token."""
    lines = [call("x" * 400), call("a", None, answer=COMPLETION), call("a", "yes")]
    traffic = traffic_of(tmp_path, lines)
    assert traffic.calls[0].prompt > 100
    assert [(one.prompt, one.completion) for one in traffic.calls[1:]] == [(3, 4), (3, 4)]
    assert traffic.estimated == 1
    traffic.close()


def test_lines_that_are_no_calls_are_counted_with_their_places(tmp_path: Path) -> None:
    """By reason, with file and line number."""
    traffic = traffic_of(
        tmp_path,
        [
            call("a"),
            call("b", endpoint="/v1/embeddings"),
            {"request": {"model": "m"}},
            call("a", headers={"x-askonce-ttl": "soon"}),
            7,
        ],
    )
    assert traffic.skipped.lines == {
        "endpoint_not_cached": ["log.jsonl:2"],
        "invalid_type": ["log.jsonl:3"],
        "invalid_cache_control": ["log.jsonl:4"],
        "not_a_json_object": ["log.jsonl:5"],
    }
    assert (traffic.lines, len(traffic.calls)) == (5, 1)
    traffic.close()


def test_calls_are_brought_into_their_order(tmp_path: Path) -> None:
    """Several files, in any order; how many were out of it is told."""
    later = write(tmp_path / "b.jsonl", [call("b", at=9.0)])
    first = tmp_path / "a.jsonl.gz"
    first.write_bytes(gzip.compress(write(tmp_path / "a", [call("a", at=1.0)]).read_bytes()))
    traffic = ingest([later, first], Config(), limit=0, progress=silent)
    assert [one.time - START for one in traffic.calls] == [1.0, 9.0]
    assert traffic.disordered == 1
    traffic.close()


def test_without_times_calls_come_a_second_apart(tmp_path: Path) -> None:
    """The first call decides whether times are believed."""
    lines = [{**call("a"), "time": None}, call("b", at=50.0)]
    traffic = traffic_of(tmp_path, lines)
    assert [one.time for one in traffic.calls] == [1.0, 2.0]
    assert (traffic.timed, traffic.untimed) == (False, 2)
    traffic.close()


@pytest.mark.parametrize("limit", [2, 3])
def test_reading_stops_at_the_limit(tmp_path: Path, limit: int) -> None:
    """And says when there was more."""
    log = write(tmp_path / "a.jsonl", [call(text) for text in "abc"])
    traffic = ingest([log], Config(), limit=limit, progress=silent)
    assert len(traffic.calls) == limit
    assert traffic.cut == (limit < 3)
    traffic.close()
