"""A prefix on real vLLM engines: computed, held by the engine, and loaded from the store.

    python -m bench.kv_vllm [--rounds 7] [--alone]

SmolLM2-135M in 32-bit floats, and one Redis over TCP. For AskOnce, for LMCache's server mode and
for the connector that vLLM ships as its example, over files, one engine computes prefixes of 500
tokens and ends; a fresh one asks for each: loaded, then held by itself, then another one cold. All
take turns, round by round; only ratios and differences mean anything on a shared machine.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kv.vllm.replicas import ROOT, replica, transfer
from tests.kv.vllm.smollm import VOCABULARY, made
from tests.servers import redis as servers

from bench.lmcache import ENVIRONMENT, PACKAGES, lmcache
from bench.report import machine, table, tell
from bench.stats import Bar, Report, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from tests.kv.vllm.replicas import Replica

TOKENS, BLOCK = 500, 32
SHARED = (TOKENS - 1) // BLOCK * BLOCK
OURS, THEIRS, EXAMPLE = "AskOnce", "LMCache, server mode", "vLLM's example"
CONTENDERS = (OURS, THEIRS, EXAMPLE)
KINDS = ("remote", "local", "cold")
MORE_THAN_LOCAL, OF_THEIRS = Bar("<=", 60.0), Bar("<=", 0.2)
"""Milliseconds that a remote hit may cost more than a local one, and its share of LMCache's."""
_REST = 0.5
"""Seconds after a request in which what it left to store is stored."""
_ASLEEP = 4.0
"""Seconds after which another engine's workers, all bound to the same cores, no longer spin: vLLM's
do so for three after their last work. Then they sleep, so each engine is woken by a short prompt
before it is measured: else what is asked first would pay for that."""
Seconds = dict[str, dict[str, list[float]]]
"""By contender and kind."""


def main() -> int:
    """Print the table; how many bars were missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.kv_vllm")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--alone", action="store_true", help="AskOnce, and no other engine beside")
    chosen = parser.parse_args()
    rounds: int = chosen.rounds
    contenders = (OURS,) if chosen.alone else CONTENDERS
    where = machine()
    with (
        tempfile.TemporaryDirectory() as name,
        servers.redis("redis7", Path(name)) as store,
    ):
        seconds = _measure(Path(name), store.port, rounds, contenders)
    report = _report(seconds)
    print(f"{where}\nmedian of {rounds} interleaved rounds\n\n{table([report])}", flush=True)
    return sum(
        line.bar is not None and not line.bar.cleared_by(line.sample) for line in report.lines
    )


def _measure(folder: Path, store: int, rounds: int, contenders: Sequence[str]) -> Seconds:
    prompts = [_prompt(seed) for seed in range(rounds + 1)]
    for name in contenders:
        tell(f"kv_vllm: {name} computes {len(prompts)} prefixes")
        with _engine(name, store, folder) as engine:
            for prompt in [_prompt(998), *prompts]:
                _ask(engine, prompt, cached=0)
            _await_rest(store)
    seconds: Seconds = {name: {kind: [] for kind in KINDS} for name in contenders}
    with ExitStack() as stack:
        engines = {name: stack.enter_context(_engine(name, store, folder)) for name in contenders}
        for number, prompt in enumerate(prompts):
            tell(f"kv_vllm: round {number} of {rounds}")
            for index, (name, engine) in enumerate(engines.items()):
                time.sleep(_ASLEEP)
                _ask(engine, _prompt(5000 + number)[:BLOCK], cached=0)
                fresh = _prompt(1000 + len(engines) * number + index)
                took = (
                    _ask(engine, prompt, cached=SHARED),
                    _ask(engine, prompt, cached=SHARED),
                    _ask(engine, fresh, cached=0),
                )
                for kind, each in zip(KINDS, took, strict=True) if number else ():
                    seconds[name][kind].append(each)
    return seconds


def _report(seconds: Seconds) -> Report:
    report = Report("kv_vllm", f"time to first token, {TOKENS} tokens, {SHARED} of them shared")
    more = {}
    for name in seconds:
        took = {kind: _ms(each) for kind, each in seconds[name].items()}
        for kind in ("cold", "local", "remote"):
            report.add(f"{name}: {kind}", took[kind], "ms")
        more[name] = took["remote"].minus(took["local"])
    for name in seconds:
        bar = MORE_THAN_LOCAL if name == OURS else None
        report.add(f"{name}: remote hit over local one", more[name], "ms", bar)
    if THEIRS in more:
        report.add("of LMCache's", more[OURS].over(more[THEIRS]), "x", OF_THEIRS)
    report.notes.append(
        "the first round, in which connections are made and memory is touched, is left out;"
        " LMCache 0.5.6 runs on CPUs in this mode only, and is made for GPUs"
    )
    return report


@contextmanager
def _engine(name: str, store: int, folder: Path) -> Iterator[Replica]:
    """With its scheduler and worker in a process of their own, as servers have it."""
    model = made() or sys.exit("run `python tests/kv/vllm/smollm.py` first")
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT, PACKAGES)))
    beside = {"PYTHONPATH": path, **ENVIRONMENT} if name == THEIRS else None
    with (
        _connector(name, store, folder) as connector,
        replica(model, folder, connector, processes=True, beside=beside, max_num_seqs=4) as engine,
    ):
        yield engine


def _connector(name: str, store: int, folder: Path) -> AbstractContextManager[dict[str, Any]]:
    if name == THEIRS:
        return lmcache(store, folder, BLOCK)
    if name == OURS:
        url = f"redis://127.0.0.1:{store}"
        return nullcontext(transfer(url, gate="on", lookup_deadline=1.0, load_deadline=5.0))
    extra = {"shared_storage_path": str(folder / "example")}
    return nullcontext(
        {
            "kv_connector": "ExampleConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": extra,
        }
    )


def _ask(engine: Replica, prompt: list[int], *, cached: int) -> float:
    said = engine.tell("generate", prompts=[prompt], patience=120)
    assert said["cached"] == [cached], said["cached"]
    time.sleep(_REST)
    return float(said["seconds"])


def _await_rest(store: int) -> None:
    """Until nothing more is stored."""
    before = ""
    while (now := servers.tell(store, "DBSIZE")) != before:
        before = now
        time.sleep(2)


def _prompt(seed: int) -> list[int]:
    chance = random.Random(seed)
    return [chance.randrange(3, VOCABULARY) for _ in range(TOKENS)]


def _ms(seconds: list[float]) -> Sample:
    return Sample(tuple(1e3 * each for each in seconds))


if __name__ == "__main__":
    sys.exit(main())
