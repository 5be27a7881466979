"""Exact hits and misses of LiteLLM's proxy and of AskOnce, over HTTP and round by round."""

from __future__ import annotations

import contextlib
import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from bench import memcached, servers
from bench.load import NUMBER, Run, has_wrk, load, paced
from bench.peers import places
from bench.peers.attacks import ask, attack, pairs
from bench.peers.engine import engine
from bench.report import tell
from bench.samples import HEADERS, answer_body, request_body
from bench.stats import Report, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bench.options import Options
    from bench.peers.attacks import Pair, Toll
    from bench.servers import Server

CROWD = 32
EVERY = 0.1
"""Seconds between two misses: more than the slowest takes for one."""
OWN = "AskOnce, SQLite"
DIRECT = "direct"
TUNED = {"LITELLM_MODE": "PRODUCTION", "LITELLM_LOG": "ERROR"}
KEYED = "enable_caching_on_provider_specific_optional_params"
"""Puts fields that only some engines know into the key; off unless it is set."""
OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
"""Prices from its package: else it asks for them at each start."""


class Kind(NamedTuple):
    """One way to load a server."""

    name: str
    connections: int
    every: float = 0.0
    """Seconds between two requests, none of which was sent before; 0 asks for hits."""


KINDS = (Kind("hit at 1", 1), Kind(f"hit at {CROWD}", CROWD), Kind("miss", 1, EVERY))
Runs = dict[str, dict[Kind, list[Run]]]


def measure(folder: Path, options: Options, report: Report) -> None:
    """Start all, load them in turn, and ask them for what they may not have."""
    if not has_wrk():
        report.notes.append("wrk is not installed (Debian package wrk): slower own client used")
    core = servers.cores()
    with ExitStack() as stack:
        origin = stack.enter_context(servers.origin(folder, answer_body(), core.client))
        attacked = stack.enter_context(engine({}))
        subjects = {DIRECT: origin}
        _start_own(stack, folder, origin.port, subjects, report)
        _start_litellm(stack, folder, (origin.port, attacked), subjects, report)
        runs = _rounds(folder, subjects, options, report)
        tolls = _attacks(stack, folder, attacked, subjects, report)
    _tell(report, runs)
    for name, toll in tolls.items():
        _tell_toll(report, name, toll, pairs(attacked))


def _start_own(
    stack: ExitStack, folder: Path, origin: int, subjects: dict[str, Server], report: Report
) -> None:
    """With its default store, and with the first that can be had of those in other processes."""
    core = servers.cores()
    plain = servers.gateway(folder / "own", origin, core.server)
    subjects[OWN] = stack.enter_context(plain)
    for name, opened in (("Redis", _valkey_url), ("Memcached", _memcached_url)):
        try:
            url = stack.enter_context(opened(folder))
        except places.Missing as reason:
            report.notes.append(f"AskOnce, {name}: {reason}: not measured")
            continue
        more = f'[exact]\nstore = "{url}"\nmemory_bytes = 0\ndeadline = 0.1\n'
        place = folder / f"own-{name.lower()}"
        shared = servers.gateway(place, origin, core.server, more=more)
        subjects[f"AskOnce, {name}"] = stack.enter_context(shared)
        return


@contextlib.contextmanager
def _valkey_url(folder: Path) -> Iterator[str]:
    from askonce.stores.urls import BUILT_IN

    if "redis" not in BUILT_IN:
        raise places.Missing("this version has no such store")
    place = folder / "own-valkey"
    place.mkdir()
    with places.valkey(place, servers.cores().client) as (port, _):
        yield f"redis://127.0.0.1:{port}/0"


@contextlib.contextmanager
def _memcached_url(folder: Path) -> Iterator[str]:
    del folder
    if memcached.program() is None:
        raise places.Missing("there is no memcached (`make servers` lays one)")
    with memcached.memcached(servers.cores().client) as port:
        yield f"memcached://127.0.0.1:{port}"


def _start_litellm(
    stack: ExitStack,
    folder: Path,
    engines: tuple[int, int],
    subjects: dict[str, Server],
    report: Report,
) -> None:
    for store in ("in memory", "Redis"):
        for tuned in (False, True):
            name = f"LiteLLM{' tuned' if tuned else ''}, {store}"
            tell(f"peers: starting {name}")
            place = folder / name.replace(" ", "-").replace(",", "")
            place.mkdir()
            try:
                proxy = _litellm(place, engines, redis=store == "Redis", tuned=tuned)
                subjects[name] = stack.enter_context(proxy)
            except places.Missing as reason:
                report.notes.append(f"{name}: {reason}: not measured")


@contextlib.contextmanager
def _litellm(
    folder: Path, engines: tuple[int, int], *, redis: bool, tuned: bool
) -> Iterator[Server]:
    """The proxy in front of both engines; tuned: as its pages on production advise."""
    program = places.python("litellm").with_name("litellm")
    core = servers.cores()
    with ExitStack() as stack:
        cache: dict[str, object] = {"type": "local"}
        if redis:
            port, _ = stack.enter_context(places.valkey(folder, core.client))
            cache = {"type": "redis", "host": "127.0.0.1", "port": port}
        settings: dict[str, object] = {"cache": True, "cache_params": cache}
        if tuned:
            settings |= {
                "request_timeout": 600,
                "set_verbose": False,
                "json_logs": True,
                KEYED: True,
            }
        config = {
            "model_list": [
                _model("bench-model", engines[0]),
                _model("attacked-model", engines[1]),
            ],
            "litellm_settings": settings,
            "general_settings": {"master_key": HEADERS["Authorization"].split()[1]},
        }
        file = folder / "config.yaml"
        file.write_text(json.dumps(config))  # JSON is YAML
        port = servers.free_port()
        argv = [str(program), "--config", str(file), "--host", "127.0.0.1", "--port", str(port)]
        argv += ["--num_workers", "1", *(["--run_granian"] if tuned else [])]
        environ = {**OFFLINE, **(TUNED if tuned else {})}
        path = "/health/liveliness"
        log = folder / "litellm.log"
        started = places.started(argv, port, core.server, log, environ, path=path)
        yield stack.enter_context(started)


def _model(name: str, engine: int) -> dict[str, object]:
    where = {"model": f"openai/{name}", "api_base": f"http://127.0.0.1:{engine}/v1"}
    return {"model_name": name, "litellm_params": {**where, "api_key": "sk-none"}}


def _rounds(folder: Path, subjects: dict[str, Server], options: Options, report: Report) -> Runs:
    """The runs of each server and kind; a server that fails leaves with a note."""
    runs: Runs = {name: {kind: [] for kind in KINDS} for name in subjects}
    for server in subjects.values():
        for _ in range(2):  # the first answers of some take seconds
            ask(server.port, json.loads(request_body(1000)))
    for turn in range(options.rounds + 1):
        for kind in KINDS:
            for name in [each for each in runs if kind.every or each != DIRECT]:
                try:
                    found = _load(folder, subjects[name], kind, options.seconds if turn else 1)
                except SystemExit as failure:
                    if turn:  # what is not warm yet may fail
                        report.notes.append(f"{name}, {kind.name}: {failure}: not measured")
                        del runs[name]
                    continue
                if turn:
                    runs[name][kind].append(found)
                tell(f"peers {turn}/{options.rounds}: {name}, {kind.name} {found.rate:,.0f}/s")
    return runs


def _load(folder: Path, server: Server, kind: Kind, seconds: int) -> Run:
    """One load; where nothing was answered, one more that is three times as long."""
    try:
        return _load_for(folder, server, kind, seconds)
    except SystemExit:
        return _load_for(folder, server, kind, 3 * seconds)


def _load_for(folder: Path, server: Server, kind: Kind, seconds: int) -> Run:
    if kind.every:
        return paced(server, request_body(1000, f"What is {NUMBER}?"), kind.every, seconds=seconds)
    return load(folder, server, request_body(1000), kind.connections, seconds=seconds)


def _attacks(
    stack: ExitStack,
    folder: Path,
    engine: int,
    subjects: Mapping[str, Server],
    report: Report,
) -> dict[str, Toll]:
    own = servers.gateway(folder / "attacked", engine, servers.cores().server)
    attacked = {"AskOnce": stack.enter_context(own)}
    proxies = {name: each for name, each in subjects.items() if name.startswith("LiteLLM")}
    tolls = {}
    for name, server in (attacked | proxies).items():
        try:
            tolls[name] = attack(server.port, pairs(engine))
        except OSError as failure:
            report.notes.append(f"{name}: {failure!r} when attacked: not measured")
    return tolls


def _tell(report: Report, runs: Runs) -> None:
    direct = runs.pop(DIRECT)
    one, crowd, miss = KINDS
    for kind in (one, crowd):
        for share in ("p50", "p99"):
            taken = {name: _sample(found[kind], share, 1e3) for name, found in runs.items()}
            _rows(report, f"{kind.name}, {share}", taken, "ms")
        rates = {name: _sample(found[kind], "per_core") for name, found in runs.items()}
        _rows(report, f"{kind.name}, for a second of one core", rates, "/s")
    clock = {name: _sample(found[crowd], "rate") for name, found in runs.items()}
    _rows(report, f"{crowd.name}, by the clock", clock, "/s")
    itself = _sample(direct[miss], "p50", 1e3)
    added = {name: _sample(each[miss], "p50", 1e3).minus(itself) for name, each in runs.items()}
    _rows(report, "miss, added p50", added, "ms")


def _sample(runs: list[Run], what: str, times: float = 1.0) -> Sample:
    return Sample(tuple(getattr(run, what) * times for run in runs))


def _rows(report: Report, what: str, found: Mapping[str, Sample], unit: str) -> None:
    """A row for each, and below a peer's how many times faster AskOnce is."""
    for name, sample in found.items():
        report.add(f"{what}: {name}", sample, unit)
        if name.startswith("AskOnce"):
            continue
        own = _counterpart(name, found)
        if unit == "/s":
            report.add(f"  {own} over it", found[own].over(sample), "x")
        else:
            report.add(f"  over {own}", sample.over(found[own]), "x")


def _counterpart(name: str, found: Mapping[str, Sample]) -> str:
    """AskOnce with a store in another process where the peer has one."""
    shared = [each for each in found if each.startswith("AskOnce") and each != OWN]
    return shared[0] if shared and name.endswith("Redis") else OWN


def _tell_toll(report: Report, name: str, toll: Toll, tried: list[Pair]) -> None:
    apart = sum(not pair.same for pair in tried)
    wrong = Sample((len(toll.wrong),))
    report.add(f"wrong exact hits in {apart} pairs that differ: {name}", wrong, "")
    for what, names in (
        ("wrong hits for", toll.wrong),
        ("refused", toll.refused),
        ("never found again", toll.uncached),
        ("asked twice for nothing", toll.needless),
    ):
        if names:
            report.notes.append(f"{name}, {what}: {', '.join(names)}")
