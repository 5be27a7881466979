"""What engines say on `/metrics` about the shared KV tier, added up."""

from __future__ import annotations

import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from askonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client import Metric

    Totals = Mapping[tuple[str, str], float]

_PATIENCE = 5.0
_OWN = "askonce_kv_"
_LABELS = ("source", "verdict")
"""Those that are told apart."""


def fleet_table(pages: Iterable[str]) -> Iterator[str]:
    """Lines of text from pages in Prometheus' format, one for each engine."""
    totals = _totals(pages)
    for source in ("computed", "local", "store"):
        tokens = _of(totals, "prompt_tokens_total", source)
        yield f"prompt tokens, {source:9} {tokens:.0f}"
    for name, said in (
        ("saved_seconds_total", "seconds saved"),
        ("lost_seconds_total", "seconds lost"),
        ("forgone_seconds_total", "seconds forgone to audits"),
    ):
        yield f"{said:24} {_of(totals, name):.1f}"
    yield from _audit(totals)


def page_at(url: str) -> str:
    """The page of one engine; raises ConfigError."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=_PATIENCE) as answer:
            page = str(answer.read().decode())
    except (OSError, ValueError, HTTPException) as reason:
        raise ConfigError(f"{url} cannot be read: {reason}") from None
    if _OWN not in page:
        raise ConfigError(f"{url} tells nothing about the KV tier")
    return page


def _audit(totals: Totals) -> Iterator[str]:
    agreed, disagreed, undone = (
        _of(totals, "audited_blocks_total", verdict)
        for verdict in ("agrees", "disagrees", "undone")
    )
    audited = agreed + disagreed
    yield f"{'blocks audited':24} {audited:.0f}, and {undone:.0f} that could not be"
    if audited:
        mean = _of(totals, "audit_error_total") / audited
        worst = totals.get(("audit_error_max", ""), 0.0)
        yield f"{'blocks that disagree':24} {disagreed:.0f}, {disagreed / audited:.2%}"
        yield f"{'error of a block':24} {mean:.2g} on average, {worst:.2g} at most"


def _totals(pages: Iterable[str]) -> Totals:
    totals: dict[tuple[str, str], float] = {}
    for page in pages:
        for family in _families(page):
            for sample in family.samples:
                if sample.name.startswith(_OWN):
                    label = next((sample.labels[n] for n in _LABELS if n in sample.labels), "")
                    at = sample.name.removeprefix(_OWN), label
                    before = totals.get(at, 0.0)
                    largest = at[0].endswith("_max")
                    totals[at] = max(before, sample.value) if largest else before + sample.value
    return totals


def _families(page: str) -> list[Metric]:
    try:
        return list(text_string_to_metric_families(page))
    except (ValueError, KeyError, IndexError) as reason:
        raise ConfigError(f"a page of metrics cannot be read: {reason}") from None


def _of(totals: Totals, name: str, label: str = "") -> float:
    return totals.get((name, label), 0.0)
