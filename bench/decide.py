"""Verifier and decision about five near questions: alone, beside learning, and in memory.

`python -m bench.decide time ROUNDS` and `python -m bench.decide memory DECISIONS` measure in a
process of their own and print what they see, a line each.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeVar

import msgspec
import uvloop

from bench.report import tell
from bench.servers import cores, spawn
from bench.stats import Bar, Report, Sample, percentile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.trust.sight import Lesson, Verdict
    from askonce.worker import Worker
    from bench.options import Options
    from bench.questions import Case

Line = TypeVar("Line")

CANDIDATES = 5
DECISIONS = 1000
"""Of each kind in a round, each about a question that was never asked before."""
EVERY = 0.002
"""Seconds between two decisions."""
BEFORE = 1000
"""Looks learned before anything is measured, which fills memory: fits are as long as ever."""
LIMIT = Bar("<", 1.2)
KNOWN = 250
"""Cases whose candidates are read before, and taken in turn."""
NAMESPACES = 64
IN_MEMORY = 100_000
POOL = 600
"""Questions that take turns in the memory run: more, with their candidates, than readings kept."""
FLAT = Bar("<=", 1.05)
BOUNDS = "4.5 MiB a namespace of 64, 48 MiB of readings, 12 MiB of places, 16 MiB of names"
PARTITION = b"p" * 32
KINDS = {
    "known": "read before",
    "new": "never read",
    "learning": "never read, beside learning",
}
_BATCH = 16
_LOOP = range(20_000)


class Spans(msgspec.Struct):
    """One round of one kind: milliseconds by the clock and of processor, of each decision."""

    kind: str
    clock: list[float]
    used: list[float]
    loop: float
    """Milliseconds of a fixed computation, measured among them."""
    lessons: float = 0.0
    """A second."""


class Memory(msgspec.Struct):
    """The process after so many decisions."""

    decisions: int
    rss: int


def run(folder: Path, options: Options) -> Report:
    """Decide in a process bound to one core; fill the memory of another."""
    del folder
    report = Report("decide", f"verifier and decision, {CANDIDATES} candidates of up to 20 words")
    try:
        import numpy  # noqa: F401, ICN001 - only whether it is there
    except ImportError:
        report.notes.append("numpy is not installed (askonce[semantic]): not measured")
        return report
    spans = _child("time", options.rounds, Spans)
    for kind, words in KINDS.items():
        rounds = [each for each in spans if each.kind == kind]
        for share, bar in ((0.5, None), (0.99, LIMIT)):
            sample = Sample(tuple(percentile(each.clock, share) for each in rounds))
            report.add(f"p{share * 100:.0f}, candidates {words}", sample, "ms", bar)
        for share in (0.5, 0.99):
            used = Sample(tuple(percentile(each.used, share) for each in rounds))
            report.add(f"  p{share * 100:.0f} of processor", used, "ms")
            report.add("    over a fixed loop", used.over(_loop(rounds)), "x")
    taught = [each.lessons for each in spans if each.kind == "learning"]
    report.add("looks learned a second, beside that", Sample(tuple(taught)), "")
    _remember(report, _child("memory", min(options.requests, IN_MEMORY), Memory))
    return report


def _loop(rounds: list[Spans]) -> Sample:
    return Sample(tuple(each.loop for each in rounds))


def _remember(report: Report, seen: list[Memory]) -> None:
    for each in seen[1::3]:
        sample = Sample((each.rss / 2**20,))
        report.add(f"RSS after {each.decisions:,} decisions learned", sample, "MiB")
    late = [each.rss for each in seen if each.decisions >= 0.6 * seen[-1].decisions]
    growth = Sample((late[-1] / late[0],))
    report.add("RSS, last over the one after 60 %", growth, "x", FLAT)
    report.notes.append(f"{NAMESPACES} namespaces; bounds: {BOUNDS}")


def _child(what: str, number: int, kind: type[Line]) -> list[Line]:
    argv = [sys.executable, "-m", "bench.decide", what, str(number)]
    child = spawn(argv, cores().server, stdout=subprocess.PIPE)
    assert child.stdout is not None
    lines = [msgspec.json.decode(line, type=kind) for line in iter(child.stdout.readline, b"")]
    if child.wait():
        raise SystemExit(f"{argv} ended with {child.returncode}")
    return lines


class Bench:
    """A desk that is warm, and questions for it."""

    def __init__(self) -> None:
        """Make a desk that is warm with its first label."""
        from askonce.trust.account.ledger import Policy
        from askonce.trust.desk import TrustDesk
        from askonce.trust.prior import shipped
        from askonce.trust.sight import Manners
        from askonce.units import Cosine
        from bench.questions import DIM

        manners = Manners(floor=Cosine(0.9), enough=1.0, namespaces=NAMESPACES)
        self.desk = TrustDesk(shipped(), DIM, policy=Policy(), manners=manners, seed=b"bench")
        self.random = Random(1)
        self._number = count()

    def cases(self, many: int) -> list[Case]:
        """Questions, each beside near ones."""
        from bench.questions import case

        return [case(self.random, CANDIDATES, PARTITION) for _ in range(many)]

    def judge(self, case: Case, namespace: str = "bench") -> Verdict:
        """One decision."""
        from askonce.trust.account.asked import Place

        place = Place(namespace.encode(), PARTITION)
        return self.desk.judge(place, case.text, case.read, case.near, f"r{next(self._number)}")

    def lessons(self, case: Case, verdict: Verdict, namespace: str = "bench") -> list[Lesson]:
        """What a miss teaches: whether each candidate's answer was the same, here by a coin."""
        from askonce.ports import Evidence
        from askonce.trust.names import question_digest
        from askonce.units import UnixTime

        first = Evidence(
            at=UnixTime(1.7e9),
            namespace=namespace,
            partition=PARTITION,
            request_id=f"r{next(self._number)}",
            question=question_digest(PARTITION, case.text),
            entry=b"",
            score=verdict.score,
            verdict="same",
            how="equal",
            source="miss",
            probability=1.0,
            mode="on",
        )
        records = [
            msgspec.structs.replace(
                first,
                entry=each.item.key,
                verdict="same" if self.random.random() < 0.5 else "different",
                look=b"" if place else self.desk.packed(verdict),
            )
            for place, each in enumerate(case.near)
        ]
        return self.desk.take(records)


async def _time(rounds: int) -> None:
    from askonce.worker import Worker

    bench = Bench()
    taught = [
        lesson for case in bench.cases(BEFORE) for lesson in bench.lessons(case, bench.judge(case))
    ]
    for _ in bench.desk.study(taught):
        pass
    worker = Worker("bench-trust", limit=64, nice=10)
    for turn in range(rounds):
        cases = bench.cases(DECISIONS)
        _print(await _decided(bench, "new", cases))
        _print(await _decided(bench, "known", _asked_anew(bench, cases)))
        _print(await _beside(bench, worker, taught))
        tell(f"decide {turn + 1}/{rounds}")
    await worker.close()


def _asked_anew(bench: Bench, cases: Sequence[Case]) -> list[Case]:
    """Other questions beside the same candidates."""
    from bench.questions import beside, reworded

    return [
        beside(
            "so, " + reworded(case.text, bench.random),
            [each.item.text for each in case.near],
            PARTITION,
        )
        for case in cases[-KNOWN:] * (len(cases) // KNOWN)
    ]


async def _decided(bench: Bench, kind: str, cases: Sequence[Case]) -> Spans:
    """As the gateway runs: one decision now and then, and a calm collector."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    clock, used, loops = [], [], []
    for case in cases:
        await asyncio.sleep(EVERY)
        began, before = time.perf_counter(), time.thread_time()
        bench.judge(case)
        clock.append((time.perf_counter() - began) * 1e3)
        used.append((time.thread_time() - before) * 1e3)
        before = time.thread_time()
        sum(_LOOP)
        loops.append((time.thread_time() - before) * 1e3)
    return Spans(kind, clock, used, percentile(loops, 0.5))


async def _beside(bench: Bench, worker: Worker, taught: Sequence[Lesson]) -> Spans:
    """The same while lessons never end."""
    from askonce.cache.learning import SHARE
    from askonce.worker import gently

    learned, stopped = 0, False

    async def learn() -> None:
        nonlocal learned
        while not stopped:
            pieces = bench.desk.study(bench.random.sample(taught, _BATCH))
            await worker.run(partial(gently, pieces, SHARE))
            learned += _BATCH

    cases = bench.cases(DECISIONS)
    began, learning = time.perf_counter(), asyncio.create_task(learn())
    spans = await _decided(bench, "learning", cases)
    spans.lessons = learned / (time.perf_counter() - began)
    stopped = True
    await learning
    return spans


def _memory(decisions: int) -> None:
    """Decide and learn in all namespaces in turn, and look at the process after every tenth."""
    bench = Bench()
    pool = bench.cases(POOL)
    for number in range(1, decisions + 1):
        case, namespace = pool[number % POOL], f"ns-{number % NAMESPACES}"
        verdict = bench.judge(case, namespace)
        for _ in bench.desk.study(bench.lessons(case, verdict, namespace)):
            pass
        if number % (decisions // 10) == 0:
            _print(Memory(number, _resident()))
            tell(f"decide: {number:,} of {decisions:,} remembered")


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _print(line: msgspec.Struct) -> None:
    print(msgspec.json.encode(line).decode(), flush=True)


def main(what: str, number: int) -> None:
    """Measure one of the two."""
    if what == "time":
        uvloop.run(_time(number))
    else:
        _memory(number)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
