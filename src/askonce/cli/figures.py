"""What a running server's `/metrics` says, as a small table; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from prometheus_client.parser import text_string_to_metric_families

from askonce.events import Tier

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Sample = tuple[str, frozenset[tuple[str, str]]]


def live_table(page: str) -> Iterator[str]:
    """Lines of text from a page in Prometheus' format."""
    samples = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    yield from _tiers(samples)
    for kind in ("prompt", "completion"):
        saved = samples.get(_one("askonce_tokens_saved_total", kind=kind), 0)
        yield f"{kind} tokens saved  {saved:.0f}"
    for name, said in (
        ("askonce_held_entries", "entries held"),
        ("askonce_held_bytes", "bytes held"),
        ("askonce_admission_refused_total", "answers not stored"),
        ("askonce_guard_vetoes_total", "candidates vetoed"),
        ("askonce_steps_skipped_total", "cache steps skipped"),
        ("askonce_evictions_total", "entries evicted"),
    ):
        yield from _each(samples, name, said)
    yield from _audits(samples)
    yield from (f"breaker open  {part}" for part in _open_breakers(samples))


def _tiers(samples: Mapping[Sample, float]) -> Iterator[str]:
    served = {tier: _sum(samples, "askonce_requests_total", tier) for tier in get_args(Tier)}
    total = sum(served.values())
    yield f"{'answered by':12} {'requests':>10} {'share':>8} {'mean ms':>9}"
    for tier, requests in served.items():
        if requests:
            spent = _sum(samples, "askonce_request_seconds_sum", tier)
            mean = spent / requests * 1e3
            yield f"{tier:12} {requests:>10.0f} {requests / total:>8.1%} {mean:>9.2f}"
    yield f"{'all':12} {total:>10.0f}"


def _audits(samples: Mapping[Sample, float]) -> Iterator[str]:
    made = {
        said: samples.get(_one("askonce_audits_total", verdict=said), 0.0)
        for said in ("same", "different", "unsure")
    }
    if audits := sum(made.values()):
        hits = _sum(samples, "askonce_requests_total", "semantic")
        share = f", {audits / hits:.1%} of {hits:.0f} hits by meaning" if hits else ""
        found = ", ".join(f"{many:.0f} {said}" for said, many in made.items())
        yield f"hits audited  {audits:.0f}{share}: {found}"


def _one(name: str, **labels: str) -> Sample:
    return name, frozenset(labels.items())


def _sum(samples: Mapping[Sample, float], name: str, tier: str) -> float:
    return sum(
        value
        for (known, labels), value in samples.items()
        if known == name and ("tier", tier) in labels
    )


def _each(samples: Mapping[Sample, float], name: str, said: str) -> Iterator[str]:
    for (known, labels), value in sorted(samples.items(), key=lambda item: sorted(item[0][1])):
        if known == name and value:
            yield f"{said}  {' '.join(each for _, each in sorted(labels))}  {value:.0f}"


def _open_breakers(samples: Mapping[Sample, float]) -> list[str]:
    return [
        dict(labels)["part"]
        for (name, labels), value in samples.items()
        if name == "askonce_breaker_state" and value
    ]
