"""What callers wrote cannot command the terminal of an operator."""

from __future__ import annotations

from askonce.cli.legible import legible


def test_what_a_terminal_obeys_is_spelt_out() -> None:
    """Escapes, returns and signs that are not shown; letters of all scripts and lines stay."""
    assert legible("a\x1b[2Jb\rc") == "a\\x1b[2Jb\\rc"
    assert legible("\u202egnp") == "\\u202egnp"
    assert legible("naïve 東京\nnext") == "naïve 東京\nnext"
