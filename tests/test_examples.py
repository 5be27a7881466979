"""What the README shows is what the repository runs."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


def test_the_readme_shows_the_first_example() -> None:
    """The README's code is the example's, to the letter."""
    code = (ROOT / "examples" / "first_answers.py").read_text()
    shown = (ROOT / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    assert shown
    assert code.endswith(shown)


@pytest.fixture
def learning() -> dict[str, Any]:
    """The example's own names; it reads files, so not inside the event loop."""
    return runpy.run_path(str(ROOT / "examples" / "learning_to_trust.py"))


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.timeout(300)
async def test_the_cache_learns_to_trust_and_to_stop(learning: dict[str, Any]) -> None:
    """With the real embedder over the real path: shadow mode, on, audited, and through a drift."""
    lines: list[str] = []
    found = await learning["story"](lines.append)
    told, known = found["shadow"]
    assert {one.how for one in told} == {"engine", "shadow"}
    would = sum(one.how == "shadow" for one in told)
    assert 0.9 * would <= sum(known.shadow.values()) <= would, "a busy worker lets some cases go"
    told, known = found["on"]
    hits = [one for one in told if one.how == "cache"]
    assert len(hits) > len(told) / 2
    assert sum(not one.right for one in hits) <= 3
    assert sum(known.audits.values()) > 5
    told, drifted, noticed = found["drift"]
    assert 0 < noticed <= 200
    assert drifted.threshold > known.threshold
    assert drifted.audits["different"] > known.audits["different"]
    assert len([one for one in told if one.how == "cache" and not one.right]) < 100
    assert any("threshold went up" in line for line in lines)
