"""Lookups by meaning of redisvl's SemanticCache, of GPTCache and of AskOnce, round by round."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import time
from contextlib import ExitStack
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from bench import servers
from bench.peers import places
from bench.peers.attacks import SETTLED, ask
from bench.peers.engine import engine
from bench.peers.wordings import DIFFERENT, SAME, answers
from bench.report import tell
from bench.stats import Report, Sample, percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from bench.options import Options

    Opened = Callable[[Path], AbstractContextManager["Library"]]

ENTRIES = 400
LOOKUPS = 80
"""In a round, half of them with the vectors at hand."""
OWN = "AskOnce"
PATIENCE = 180.0
LONGEST = 0.2
"""Seconds that AskOnce's step may take when wrong hits are counted: none is to be late."""


class Round(NamedTuple):
    """What the lookups of one round took."""

    spans: list[float]
    """Seconds of each."""
    used: float
    """Seconds of processor for one, in all threads of the library's process."""


Looked = dict[str, dict[bool, list[Round]]]
"""Rounds by library and by whether its texts had to be embedded; the first is for warming."""
FIGURES: dict[str, Callable[[Round], float]] = {
    "p50": lambda round_: percentile(round_.spans, 0.5) * 1e3,
    "p99": lambda round_: percentile(round_.spans, 0.99) * 1e3,
    "processor": lambda round_: round_.used * 1e3,
}


class Library:
    """A library in a child process."""

    def __init__(self, child: subprocess.Popen[bytes], log: Path) -> None:
        """Wait until it is ready; raises Missing with what it said last."""
        self._child, self._log = child, log
        self._reply()

    def do(self, **job: object) -> Any:  # noqa: ANN401 - what the job brings
        """Have one job done; raises Missing."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(job).encode() + b"\n")
            self._child.stdin.flush()
        except OSError:
            pass  # its last words are told below
        return self._reply()

    def _reply(self) -> Any:  # noqa: ANN401 - as `do`
        assert self._child.stdout is not None
        if not select.select([self._child.stdout], [], [], PATIENCE)[0]:
            raise places.Missing(f"did not answer in {PATIENCE:g} s")
        line = self._child.stdout.readline()
        if not line:
            raise places.Missing(f"ended: {places.last(self._log.read_text(errors='replace'))}")
        return json.loads(line)


def measure(folder: Path, options: Options, report: Report) -> None:
    """Count wrong hits of fresh caches, then fill new ones and look up in turn."""
    kinds = _kinds()
    known, lookups = _texts(options)
    for name, opened in kinds.items():
        if name == OWN or "tuned" in name:
            continue
        with _noted(report, name), opened(_place(folder, f"{name}-wrong")) as library:
            _tell_wrong(report, name, _asked_of_library(library))
    with _noted(report, OWN):
        _tell_wrong(report, OWN, _asked_of_gateway(folder))
    with ExitStack() as stack:
        libraries: dict[str, Library] = {}
        for name, opened in kinds.items():
            with _noted(report, name):
                library = stack.enter_context(opened(_place(folder, name)))
                _fill(library, folder, known)
                libraries[name] = library
                tell(f"peers: {name} has {ENTRIES:,} entries")
        _tell(report, _rounds(libraries, lookups, report))


def _kinds() -> dict[str, Opened]:
    """AskOnce first: it makes the vectors that all others are given."""

    def own(folder: Path) -> AbstractContextManager[Library]:
        return _library(sys.executable, "askonce", folder, "")

    @contextlib.contextmanager
    def redisvl(folder: Path, *, socket: bool = False) -> Iterator[Library]:
        program = str(places.python("redisvl"))
        with places.valkey(folder, servers.cores().client, search=True) as (port, file):
            url = f"unix://{file}" if socket else f"redis://127.0.0.1:{port}"
            with _library(program, "redisvl", folder, url) as library:
                yield library

    def gptcache(folder: Path, *, quiet: bool = False) -> AbstractContextManager[Library]:
        program = str(places.python("gptcache"))
        return _library(program, "gptcache", folder, "quiet" if quiet else "")

    return {
        OWN: own,
        "redisvl": redisvl,
        "redisvl tuned": lambda folder: redisvl(folder, socket=True),
        "GPTCache": gptcache,
        "GPTCache tuned": lambda folder: gptcache(folder, quiet=True),
    }


@contextlib.contextmanager
def _library(program: str, kind: str, folder: Path, url: str) -> Iterator[Library]:
    log = folder / f"{kind}.log"
    argv = [program, "-m", "bench.peers.worker", kind, str(folder), url]
    pipe = subprocess.PIPE
    with log.open("wb") as out:
        core = servers.cores().server
        child = servers.spawn(argv, core, cwd=folder, stdin=pipe, stdout=pipe, stderr=out)
    try:
        yield Library(child, log)
    finally:
        child.kill()
        child.communicate()


@contextlib.contextmanager
def _noted(report: Report, name: str) -> Iterator[None]:
    """What is missing becomes a note."""
    try:
        yield
    except places.Missing as reason:
        report.notes.append(f"{name}: {reason}: not measured")


def _place(folder: Path, name: str) -> Path:
    place = folder / name.replace(" ", "-")
    place.mkdir()
    return place


def _texts(options: Options) -> tuple[list[str], list[list[list[str]]]]:
    """Cached questions with those whose vectors are at hand, and the lookups of each round."""
    from bench.questions import asked, reworded

    random = Random(5)
    cached = list(dict.fromkeys(asked(random) for _ in range(2 * ENTRIES)))[:ENTRIES]
    rounds = [
        [[reworded(random.choice(cached), random) for _ in range(LOOKUPS // 2)] for _ in range(2)]
        for _ in range(options.rounds + 1)
    ]
    return [*cached, *(text for at_hand, _ in rounds for text in at_hand)], rounds


def _fill(library: Library, folder: Path, known: Sequence[str]) -> None:
    library.do(embed=known, file=str(folder / "vectors.npy"))
    library.do(put=[(text, f"An answer to: {text}") for text in known[:ENTRIES]])


def _rounds(
    libraries: dict[str, Library], lookups: list[list[list[str]]], report: Report
) -> Looked:
    """What each library took, round by round; one that fails leaves with a note."""
    looked: Looked = {name: {False: [], True: []} for name in libraries}
    for turn, round_ in enumerate(lookups):
        for embeds, texts in enumerate(round_):
            for name in list(looked):
                with _noted(report, name):
                    spans, _, used = libraries[name].do(get=texts)
                    looked[name][bool(embeds)].append(Round(spans, used))
                    p50 = percentile(spans, 0.5) * 1e3
                    tell(f"peers {turn}/{len(lookups) - 1}: {name}, p50 {p50:.2f} ms")
                if len(looked[name][bool(embeds)]) <= turn:
                    del looked[name]
    return looked


def _tell(report: Report, looked: Looked) -> None:
    for embeds, how in ((False, "vectors at hand"), (True, "with embedding")):
        warm = {name: rounds[embeds][1:] for name, rounds in looked.items()}
        for what, figure in FIGURES.items():
            found = {name: Sample(tuple(map(figure, rounds))) for name, rounds in warm.items()}
            for name, sample in found.items():
                report.add(f"lookup by meaning, {how}, {what}: {name}", sample, "ms")
                if name != OWN and OWN in found:
                    report.add(f"  over {OWN}", sample.over(found[OWN]), "x")
    report.notes.append("processor of redisvl's lookups: without what Valkey uses for them")


def _asked_of_library(library: Library) -> list[str | None]:
    """What is served for each later question, after all earlier ones were cached."""
    told = answers()
    library.do(put=[(pair.cached, told[pair.cached]) for pair in (*DIFFERENT, *SAME)])
    _, found, _ = library.do(get=[pair.asked for pair in (*DIFFERENT, *SAME)])
    return list(found)


def _asked_of_gateway(folder: Path) -> list[str | None]:
    """The same of AskOnce as it starts, where a fresh answer of the engine is no hit."""
    core = servers.cores()
    more = f"deadline = {LONGEST}\n"
    with (
        engine(answers()) as upstream,
        servers.gateway(folder / "wrong", upstream, core.server, semantic=True, more=more) as own,
    ):
        if (state := servers.semantic_state(own.port)) != "on":
            raise places.Missing(f"the semantic tier is {state}")
        for pair in (*DIFFERENT, *SAME):
            ask(own.port, _body(pair.cached))
            time.sleep(SETTLED / 20)
        time.sleep(SETTLED)
        return [_served(own.port, pair.asked) for pair in (*DIFFERENT, *SAME)]


def _served(port: int, text: str) -> str | None:
    headers, body = servers.ask(port, json.dumps(_body(text)).encode())
    if ("x-cache", "HIT") not in headers:
        return None
    return str(json.loads(body)["choices"][0]["message"]["content"])


def _body(text: str) -> dict[str, Any]:
    return {"model": "bench-model", "messages": [{"role": "user", "content": text}]}


def _tell_wrong(report: Report, name: str, found: Sequence[str | None]) -> None:
    told = answers()
    asked = [pair.asked for pair in (*DIFFERENT, *SAME)]
    wrong = [text for text, got in zip(asked, found, strict=True) if got not in {None, told[text]}]
    right = sum(got == told[text] for text, got in zip(asked, found, strict=True))
    report.add(
        f"wrong hits by meaning in {len(asked)} questions: {name}", Sample((len(wrong),)), ""
    )
    report.add(f"  right hits of {len(SAME)} possible", Sample((right,)), "")
