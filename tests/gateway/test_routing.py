"""Models find their upstream."""

from __future__ import annotations

import pytest

from askonce.errors import ConfigError, RequestError
from askonce.gateway.routing import Upstreams
from askonce.testing.upstreams import ScriptedUpstream

pytestmark = pytest.mark.anyio


async def test_the_first_pattern_that_matches_serves() -> None:
    """Order of the configuration decides, patterns are case-sensitive shell patterns."""
    small, large = ScriptedUpstream(), ScriptedUpstream()
    upstreams = Upstreams([(("gpt-*-mini", "o?"), small), (("gpt-*",), large)])
    assert upstreams.for_model("gpt-5-mini") is small
    assert upstreams.for_model("o1") is small
    assert upstreams.for_model("gpt-5") is upstreams.for_model("gpt-5") is large
    assert upstreams.default is small
    assert upstreams.all == [small, large]
    with pytest.raises(RequestError) as caught:
        upstreams.for_model("GPT-5")
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")


async def test_what_is_remembered_is_bounded() -> None:
    """Callers cannot fill the memory with model names."""
    upstreams = Upstreams([(("*",), ScriptedUpstream())])
    for i in range(3000):
        upstreams.for_model(f"m{i}")
    upstreams.for_model("x" * 100_000)
    assert len(upstreams._chosen) <= 1024
    assert all(len(name) < 300 for name in upstreams._chosen)


async def test_closing_closes_all() -> None:
    """Every upstream is closed; without any there is nothing to start."""
    several = [ScriptedUpstream(), ScriptedUpstream()]
    await Upstreams([(("*",), upstream) for upstream in several]).close()
    assert all(upstream.closed for upstream in several)
    with pytest.raises(ConfigError):
        Upstreams([])
