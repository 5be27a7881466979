"""What the pool counts is in the operator's page."""

from __future__ import annotations

from pathlib import Path

from askonce.kv.figures import METRICS
from askonce.kv.pool import PoolSettings
from askonce.kv.shelf import ALL_OUTCOMES

PAGE = Path(__file__).parents[2] / "docs" / "kv" / "operations.md"


def test_every_metric_setting_and_outcome_is_explained() -> None:
    """By its own name."""
    text = PAGE.read_text()
    outcomes = ["flaw_…" if name.startswith("flaw_") else name for name in ALL_OUTCOMES]
    for name in (*METRICS, *PoolSettings.__struct_fields__, *outcomes):
        assert f"`{name}`" in text, name
