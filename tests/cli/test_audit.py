"""`askonce audit` lists, shows, takes verdicts and retracts, while no server runs."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import msgspec
import pytest

from askonce.canonical.answer import read_completion
from askonce.canonical.entry import Entry, seal, unseal
from askonce.cli import main
from askonce.clock import SystemClock
from askonce.policy.confirmation import OPERATOR
from askonce.settings import load_config
from askonce.testing import RecordingSink
from askonce.testing.answers import Asked, Chat
from askonce.testing.evidence import example_evidence
from askonce.units import Seconds, UnixTime
from askonce.wiring import open_log, open_parts

if TYPE_CHECKING:
    from pathlib import Path

    from askonce.ports import Evidence

KEY = bytes(range(32))
ASKED = Asked("POST", "/v1/chat/completions", (), b'{"model": "m", "messages": []}')


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A data directory with one entry, a hit on it, and a verdict about another."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("ASKONCE_SEMANTIC__ENABLED", "false")
    monkeypatch.setenv("ASKONCE_TRUST__ENABLED", "true")
    asyncio.run(filled())


async def filled() -> None:
    parts = await open_parts(
        load_config(None, os.environ), clock=SystemClock(), sink=RecordingSink()
    )
    log = open_log(load_config(None, os.environ), clock=SystemClock(), sink=RecordingSink())
    assert log is not None
    await parts.store.put(KEY, seal(entry()), ttl=Seconds(600))
    await log.append(
        [about("hit", "unsure", "asked", KEY), about("miss", "different", "other", b"o" * 32)]
    )
    await log.close()
    await parts.close()


def entry() -> Entry:
    """A stored answer to a question."""
    now = SystemClock().now()
    return Entry(
        key=KEY,
        answer=read_completion(Chat(text="An animal.")(ASKED).body),
        created_at=now,
        exact_until=UnixTime(now + 600),
        semantic_until=UnixTime(now + 600),
        tags=(),
        model="m",
        upstream="u",
        question="What is a cat?",
        engine_time=Seconds(0),
    )


def about(source: str, verdict: str, request: str, key: bytes) -> Evidence:
    """A record."""
    one = example_evidence(1, request_id=request, entry=key)
    return msgspec.structs.replace(one, source=source, verdict=verdict)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and everything that was printed."""
    code = main(["audit", *words])
    told = capsys.readouterr()
    return code, told.out + told.err


def test_the_newest_records_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, the last ones, or those of one verdict."""
    code, everything = run(capsys, "list")
    assert code == 0
    assert everything.count("\n") == 2
    assert "request other" in run(capsys, "list", "--limit", "1")[1]
    assert run(capsys, "list", "--only", "different")[1].count("\n") == 1


def test_a_request_is_shown_with_its_entry(capsys: pytest.CaptureFixture[str]) -> None:
    """Its records, and the question and the answer that it was given, while they are there."""
    code, told = run(capsys, "show", "asked")
    assert code == 0
    assert "question: What is a cat?" in told
    assert "answer:   An animal." in told
    assert "gone" in run(capsys, "show", "other")[1]
    assert "request asked" in run(capsys, "show", KEY.hex())[1]
    assert run(capsys, "show", "z" * 64)[0] == 1


def test_a_verdict_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    """An operator's word becomes a record of its own."""
    assert run(capsys, "judge", "asked", "wrong") == (0, "noted: wrong\n")
    assert "operator different" in run(capsys, "list")[1]
    assert run(capsys, "judge", "unknown", "right")[0] == 1


def test_a_right_answer_needs_no_other_confirmation(capsys: pytest.CaptureFixture[str]) -> None:
    """An operator's word opens an entry to all callers; where the entry has gone it is let be."""
    assert run(capsys, "judge", "asked", "right")[0] == 0
    config = load_config(None, os.environ)

    async def vouched() -> tuple[bytes, ...]:
        parts = await open_parts(config, clock=SystemClock(), sink=RecordingSink())
        sealed = await parts.store.get(KEY)
        await parts.close()
        assert sealed is not None
        return unseal(KEY, sealed).vouched

    assert asyncio.run(vouched()) == (OPERATOR,)
    assert run(capsys, "judge", "other", "right")[0] == 0


@pytest.mark.parametrize("name", ["asked", KEY.hex()])
def test_an_entry_is_retracted(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """By the request it answered or by its key: it is gone by a rule, and its evidence says so."""
    code, told = run(capsys, "retract", name)
    assert (code, "removed, 1 records marked" in told) == (0, True)
    assert main(["invalidate", "--list"]) == 0
    assert f"all answers of key '{KEY.hex()}'" in capsys.readouterr().out
    assert "retracted" in run(capsys, "show", "asked")[1]
    assert "was gone" in run(capsys, "retract", name)[1]
    assert run(capsys, "retract", "other")[0] == 1


@pytest.mark.parametrize("words", [("show",), ("judge", "asked"), ("retract",)])
def test_what_is_missing_is_told(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """A command without what it needs says so."""
    code, told = run(capsys, *words)
    assert code == 2
    assert "needs" in told


def test_a_list_of_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Zero is not all."""
    code, told = run(capsys, "list", "--limit", "0")
    assert (code, "--limit is 1 or more" in told) == (2, True)


def test_without_evidence_there_is_nothing_to_audit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With trust off there is no log."""
    monkeypatch.setenv("ASKONCE_TRUST__ENABLED", "false")
    assert run(capsys, "list")[0] == 2
