"""Documentation says what the code does: keys, commands, metrics, headers, errors, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts import reference

from askonce.policy.controls import CONTROL_HEADERS
from askonce.trust.text.guards import GUARDS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def page(name: str) -> str:
    """The text of one reference page."""
    return (DOCS / "reference" / name).read_text()


@pytest.mark.parametrize("name", ["config.md", "cli.md", "metrics.md"])
def test_generated_pages_are_up_to_date(name: str) -> None:
    """Keys, flags and metrics are documented as they are; scripts/reference.py writes them."""
    assert page(name) == reference.pages()[name]


def test_every_key_says_what_it_does() -> None:
    """No key of the configuration is without a description."""
    rows = [line for line in page("config.md").splitlines() if line.startswith("| `")]
    assert [row for row in rows if row.endswith("|  |")] == []


def test_error_codes_are_documented() -> None:
    """Every error code in the code has a row, and every row is a code of the code."""
    sources = "".join(path.read_text() for path in (ROOT / "src" / "askonce").rglob("*.py"))
    raised = set(re.findall(r'\bcode\s*=\s*"([a-z_]+)"', sources))
    documented = set(re.findall(r"^\| `([a-z_]+)`", page("errors.md"), re.MULTILINE))
    assert documented == raised


def test_control_headers_and_guards_are_documented() -> None:
    """Every header that steers the cache is listed, and every guard."""
    text = page("headers.md")
    listed = {
        name.lower().encode() for name in re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE)
    }
    assert listed >= CONTROL_HEADERS
    guards = text.partition("Guards:")[2]
    assert re.findall(r"`(\w+)`", guards) == list(GUARDS)


def test_links_lead_somewhere() -> None:
    """Every relative link of every page leads to a file that is there."""
    for path in [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text()):
            assert "://" in target or (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_page_is_in_the_navigation() -> None:
    """No page of the site is unreachable."""
    navigation = (ROOT / "zensical.toml").read_text()
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert pages == set(re.findall(r'"([\w/-]+\.md)"', navigation))


def test_change_fragments_are_named_as_they_should_be() -> None:
    """A fragment names a topic and a kind, and holds one paragraph."""
    for path in (ROOT / "changes").iterdir():
        if path.name != "README.md":
            assert re.fullmatch(r"[a-z-]+\.(feature|fix|change|removal)\.md", path.name)
            assert "\n\n" not in path.read_text()
