"""What callers may ask of the cache, and what the answer says of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.gateway.house import body_of, marks, near, open_house

from askonce.testing.answers import Chat
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

FRANCE = "What is the capital of France please?"
FRANCE_AGAIN = "what is the capital of france please?"


async def test_no_cache_computes_and_replaces(tmp_path: Path) -> None:
    """`no-cache` gets a fresh answer, which is what later callers get."""
    engine = FakeEngine(Chat(text="old"), Chat(text="new"))
    async with open_house(tmp_path, engine) as house:
        await house.ask(body_of())
        fresh = await house.ask(body_of(), "cache-control: no-cache")
        later = await house.ask(body_of())
    assert marks(fresh)[:3] == ["AskOnce", "fwd=request", "fwd-status=200"]
    assert fresh.headers["x-cache"] == "BYPASS"
    assert "age" not in fresh.headers
    assert [a.json["choices"][0]["message"]["content"] for a in (fresh, later)] == ["new", "new"]
    assert later.headers["x-cache"] == "HIT"


async def test_no_store_leaves_no_trace(tmp_path: Path) -> None:
    """`no-store` is answered and not kept, nor does it take what another asks for."""
    async with open_house(tmp_path) as house:
        first = await house.ask(body_of(), "cache-control: no-store")
        second = await house.ask(body_of())
        assert (await house.parts.store.stats()).entries == 1
        third = await house.ask(body_of(), "cache-control: no-store")
        assert len(house.asked) == 2
    assert "stored" not in marks(first)
    assert marks(second)[1] == "fwd=miss"
    assert marks(third)[1] == "hit"


async def test_only_if_cached_never_asks(tmp_path: Path) -> None:
    """`only-if-cached` is 504 in OpenAI's shape with marks, a hit once there is one."""
    async with open_house(tmp_path) as house:
        refused = await house.ask(body_of(), "cache-control: only-if-cached")
        assert not house.asked
        told = await house.metric('askonce_requests_total{outcome="client_error",tier="none"}')
        await house.ask(body_of())
        served = await house.ask(body_of(stream=True), "cache-control: only-if-cached")
    assert refused.status == 504
    assert set(refused.json["error"]) == {"message", "type", "param", "code"}
    assert refused.json["error"]["code"] == "not_cached"
    assert marks(refused) == ["AskOnce", 'detail="only_if_cached"']
    assert refused.headers["x-cache"] == "MISS"
    assert refused.headers["x-request-id"]
    assert told == 1
    assert served.headers["x-cache"] == "HIT"


async def test_age_grows_and_life_does_not(tmp_path: Path) -> None:
    """Age counts from the engine's answer, and being asked for keeps no entry alive."""
    async with open_house(tmp_path) as house:
        await house.ask(body_of(), "x-askonce-ttl: 2")
        seen: list[tuple[str, str]] = []
        async with asyncio.timeout(8):
            while (answer := await house.ask(body_of())).headers["x-cache"] == "HIT":
                seen.append((answer.headers["age"], marks(answer)[2]))
                await asyncio.sleep(0.1)
        assert len(house.asked) == 2
    assert seen[0][1] == "ttl=1"
    assert {("0", "ttl=1"), ("1", "ttl=0")} == set(seen)
    assert marks(answer)[1] in {"fwd=miss", "fwd=stale"}


async def test_max_age_refuses_what_is_older(tmp_path: Path) -> None:
    """`max-age` takes a young entry, and has an older one computed anew."""
    async with open_house(tmp_path) as house:
        await house.ask(body_of())
        young = await house.ask(body_of(), "cache-control: max-age=60")
        none = await house.ask(body_of("other"), "cache-control: max-age=0")
        await asyncio.sleep(1.1)
        old = await house.ask(body_of(), "cache-control: max-age=1")
        after = await house.ask(body_of(), "cache-control: max-age=1")
    assert young.headers["x-cache"] == "HIT"
    assert marks(none)[1] == "fwd=request"
    assert marks(old)[1] == "fwd=stale"
    assert after.headers["x-cache"] == "HIT"


async def test_a_life_of_nothing_is_not_stored(tmp_path: Path) -> None:
    """`X-AskOnce-TTL: 0` keeps nothing."""
    async with open_house(tmp_path) as house:
        await house.ask(body_of(), "x-askonce-ttl: 0")
        assert (await house.ask(body_of())).headers["x-cache"] == "MISS"


async def test_a_life_is_bounded_by_policy(tmp_path: Path) -> None:
    """A longer life than policy allows is cut to it."""
    async with open_house(tmp_path, controls={"max_ttl": 50.0}) as house:
        await house.ask(body_of(), "x-askonce-ttl: 9000")
        assert marks(await house.ask(body_of()))[2] in {"ttl=49", "ttl=50"}


async def test_namespaces_are_apart(tmp_path: Path) -> None:
    """An answer of one namespace is no answer in another."""
    async with open_house(tmp_path, embedder=near()) as house:
        served = [
            (await house.ask(body_of(text), *header)).headers["x-cache"]
            for text, header in [
                (FRANCE, ()),
                (FRANCE, ("x-askonce-namespace: a",)),
                (FRANCE_AGAIN, ("x-askonce-namespace: b",)),
                (FRANCE, ("x-askonce-namespace: a",)),
            ]
        ]
    assert served == ["MISS", "MISS", "MISS", "HIT"]


async def test_tags_take_entries_along(tmp_path: Path) -> None:
    """What was tagged goes with its tag, also from the hot copies."""
    async with open_house(tmp_path) as house:
        await house.ask(body_of("one"), "x-askonce-tags: red, blue")
        await house.ask(body_of("two"), "x-askonce-tags: green")
        store: Any = house.parts.store
        assert await store.delete_tag("red") == 1
        await asyncio.sleep(1.0)
        served = [(await house.ask(body_of(text))).headers["x-cache"] for text in ("one", "two")]
    assert served == ["MISS", "HIT"]


async def test_semantics_can_be_switched_off(tmp_path: Path) -> None:
    """`X-AskOnce-Semantic: off` neither takes nor gives an answer by meaning."""
    off = "x-askonce-semantic: off"
    async with open_house(tmp_path, embedder=near()) as house:
        hidden = await house.ask(body_of(FRANCE), off)
        missed = await house.ask(body_of(FRANCE_AGAIN))
        refused = await house.ask(body_of("what is the capital of France please?"), off)
        served = await house.ask(body_of("What is the capital of france please?"))
    assert [a.headers["x-cache"] for a in (hidden, missed, refused, served)] == [
        "MISS",
        "MISS",
        "MISS",
        "HIT",
    ]
    assert marks(served)[3] == "detail=semantic"


CONTROLS = (
    ("no-cache", "cache-control: no-cache"),
    ("max-age", "cache-control: max-age=0"),
    ("namespace", "x-askonce-namespace: other"),
    ("only-if-cached", "cache-control: only-if-cached"),
)


@pytest.mark.parametrize(("name", "header"), CONTROLS)
async def test_policy_can_forbid_a_control(tmp_path: Path, name: str, header: str) -> None:
    """A control that policy does not allow changes nothing."""
    allow = tuple(each for each, _ in CONTROLS if each != name)
    async with open_house(tmp_path, controls={"allow": allow}) as house:
        first = await house.ask(body_of(), *([header] if name == "only-if-cached" else []))
        again = await house.ask(body_of(), header)
    assert first.status == 200
    assert again.headers["x-cache"] == "HIT"


async def test_controls_are_for_us_alone(tmp_path: Path) -> None:
    """No control reaches the engine; other headers do, and the credential as it came."""
    async with open_house(tmp_path) as house:
        await house.ask(
            body_of(),
            "Cache-Control: no-store, max-age=5",
            "X-AskOnce-TTL: 5",
            "X-AskOnce-Namespace: n",
            "X-AskOnce-Tags: a",
            "X-AskOnce-Semantic: off",
            "X-AskOnce-Anything: x",
            "X-Trace: t",
            "Accept-Encoding: gzip",
        )
        asked = house.asked[0]
    names = [name for name, _ in asked.headers]
    assert not [name for name in names if name.startswith(b"x-askonce") or name == b"cache-control"]
    assert asked.header(b"x-trace") == b"t"
    assert asked.header(b"authorization") == b"Bearer sk-one"
    assert asked.header(b"accept-encoding") == b"identity"
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "header",
    [
        "cache-control: max-age=soon",
        "x-askonce-ttl: -1",
        "x-askonce-ttl: nan",
        "x-askonce-namespace: " + "n" * 129,
        "x-askonce-semantic: maybe",
        "x-askonce-tags: " + ",".join(map(str, range(17))),
    ],
)
async def test_a_control_without_meaning_is_refused(tmp_path: Path, header: str) -> None:
    """A value that means nothing is 400 in OpenAI's shape, and nothing is asked."""
    async with open_house(tmp_path) as house:
        answer = await house.ask(body_of(), header)
        assert not house.asked
    assert answer.status == 400
    assert answer.json["error"]["code"] == "invalid_cache_control"


async def test_keys_and_scores_show_in_debug_mode_alone(tmp_path: Path) -> None:
    """Scores and keys are told only where the operator said so."""
    for debug in (False, True):
        async with open_house(
            tmp_path / str(debug), embedder=near(), controls={"debug": debug}
        ) as house:
            answers = [await house.ask(body_of(text)) for text in (FRANCE, FRANCE, FRANCE_AGAIN)]
        assert [a.headers["x-cache"] for a in answers] == ["MISS", "HIT", "HIT"]
        assert ["key=" in a.headers["cache-status"] for a in answers] == [debug] * 3
        assert ("x-askonce-score" in answers[2].headers) == debug


async def test_tiers_can_be_switched_off_one_by_one(tmp_path: Path) -> None:
    """Meaning alone serves without the exact tier; with neither all is passed on."""
    off = {"enabled": False}
    async with open_house(tmp_path / "a", embedder=near(), exact=off) as house:
        answers = [await house.ask(body_of(text)) for text in (FRANCE, FRANCE, FRANCE_AGAIN)]
    assert [answer.headers["x-cache"] for answer in answers] == ["MISS", "HIT", "HIT"]
    assert {marks(answer)[3] for answer in answers[1:]} == {"detail=semantic"}
    async with open_house(tmp_path / "b", exact=off) as house:
        answers = [await house.ask(body_of()) for _ in range(2)]
        assert (await house.parts.store.stats()).entries == 0
    for answer in answers:
        assert marks(answer) == ["AskOnce", "fwd=bypass", "fwd-status=200"]
        assert answer.headers["x-cache"] == "BYPASS"
