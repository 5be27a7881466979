"""Which request headers may change an answer."""

from __future__ import annotations

import pytest

from askonce.policy.headers import telling


@pytest.mark.parametrize(
    "name",
    [b"user-agent", b"traceparent", b"x-stainless-os", b"x-forwarded-for", b"cookie", b"x-mine"],
)
def test_what_changes_no_answer_is_left_out(name: bytes) -> None:
    """Known headers, known families, and those that the operator names."""
    assert not telling(["X-Mine"])(name)


@pytest.mark.parametrize("name", [b"authorization", b"x-goog-api-key", b"openai-beta", b"x-new"])
def test_everything_else_tells(name: bytes) -> None:
    """A header that nobody knows is part of the key."""
    assert telling([])(name)


def test_what_is_remembered_is_bounded() -> None:
    """Callers choose names; any number of them is answered right."""
    tells = telling([])
    assert all(tells(b"x-%d" % number) for number in range(3000))
    assert not tells(b"host")
