"""What the README shows is what the repository runs."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_readme_shows_the_first_example() -> None:
    """The README's code is the example's, to the letter."""
    code = (ROOT / "examples" / "first_answers.py").read_text()
    shown = (ROOT / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    assert shown
    assert code.endswith(shown)
