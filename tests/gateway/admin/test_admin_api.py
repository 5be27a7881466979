"""The operators' API before a running gateway."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.gateway.house import CHAT, House, body_of, config_of, marks, near, open_house

from askonce.errors import ConfigError
from askonce.gateway.admin.build import AdminParts, admin_of, tokens_of
from askonce.gateway.envelope import envelope_reader
from askonce.gateway.routing import Upstreams
from askonce.gateway.tenants import partitioner
from askonce.policy.confirmation import OPERATOR
from askonce.testing.server import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from askonce.testing.caller import Answer

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TOKEN = "authorization: Bearer 0123456789abcdef"
MEANING = {"floor": 0.5}
FIRST, AGAIN = "What is the capital of France", "What is the capital of France?"


class Office:
    """The API over a house, on a port of its own."""

    def __init__(self, house: House, port: int) -> None:
        self.house = house
        self.port = port

    async def send(self, method: str, path: str, body: Any = None, auth: str = TOKEN) -> Answer:
        """One request."""
        from askonce.testing.caller import Caller

        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        raw = b"" if body is None else msgspec.json.encode(body)
        try:
            return await Caller(reader, writer).ask(method, f"/askonce/v1{path}", raw, auth)
        finally:
            writer.close()

    async def told(self, method: str, path: str, body: Any = None) -> Any:
        """The body of an answer that says all is well."""
        answer = await self.send(method, path, body)
        assert answer.status == 200, answer.body
        return msgspec.json.decode(answer.body)


@asynccontextmanager
async def office(tmp_path: Path, **sections: Any) -> AsyncIterator[Office]:
    """A house with its operators' API."""
    async with open_house(tmp_path, **sections) as house:
        config = msgspec.structs.replace(
            house.service._config,
            admin=msgspec.structs.replace(
                house.service._config.admin, tokens={"alice": TOKEN.rpartition(" ")[2]}
            ),
        )
        partition = partitioner(config.tenants, b"secret")
        over = AdminParts(
            config=config,
            parts=house.parts,
            built=house.built,
            upstreams=Upstreams(house.parts.upstreams),
            read_envelope=envelope_reader(config.controls, partition, ()),
            render=house.service._figures.render,
            clock=house.service._clock,
        )
        async with serving(admin_of(over)) as port:
            yield Office(house, port)


async def key_of_hit(house: House, body: dict[str, Any]) -> str:
    """What `Cache-Status` says of the entry, with debugging on."""
    found = [mark for mark in marks(await house.ask(body)) if mark.startswith("key=")]
    return found[0].removeprefix('key="').rstrip('"')


DEBUG = {"debug": True}
BASIC = "authorization: Basic 0123456789abcdef"


@pytest.mark.parametrize("auth", ["x-nothing: 1", "authorization: Bearer wrong", BASIC])
async def test_without_a_token_nothing_is_told(tmp_path: Path, auth: str) -> None:
    """Neither what there is nor what is not."""
    async with office(tmp_path) as admin:
        for path in ("/stats", "/openapi.json", "/invalidate", "/nothing", "/entries/"):
            method = "POST" if path == "/invalidate" else "GET"
            answer = await admin.send(method, path, auth=auth)
            assert answer.status == 401
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_taking_back_holds_at_once_and_is_on_record(tmp_path: Path) -> None:
    """By whom and why."""
    async with office(tmp_path) as admin:
        await admin.house.ask(body_of())
        body = {"what": {"model": "m"}, "why": "new weights"}
        seq = (await admin.told("POST", "/invalidate", body))["seq"]
        assert "hit" not in marks(await admin.house.ask(body_of()))
        listed = await admin.told("GET", "/invalidations?limit=5")
        assert listed["last"] == seq
        (rule,) = listed["rules"]
        assert (rule["by"], rule["why"], rule["seq"]) == ("alice", "new weights", seq)
        assert rule["what"]["model"] == "m"


async def test_an_entry_is_shown_and_deleted(tmp_path: Path) -> None:
    """What it answers, where it comes from, whether it serves."""
    async with office(tmp_path, controls=DEBUG) as admin:
        await admin.house.ask(body_of(), "x-askonce-tags: red")
        key = await key_of_hit(admin.house, body_of())
        shown = await admin.told("GET", f"/entries/{key}")
        assert (shown["state"], shown["model"], shown["tags"]) == ("live", "m", ["red"])
        assert shown["answer"]
        assert (await admin.told("DELETE", f"/entries/{key}"))["was_there"] is True
        assert (await admin.send("GET", f"/entries/{key}")).status == 404
        assert "hit" not in marks(await admin.house.ask(body_of()))


async def test_a_rule_shows_on_what_it_took_back(tmp_path: Path) -> None:
    """The store may still hold it."""
    async with office(tmp_path, controls=DEBUG) as admin:
        await admin.house.ask(body_of())
        key = await key_of_hit(admin.house, body_of())
        await admin.told("POST", "/invalidate", {"what": {"model": "m"}})
        assert (await admin.told("GET", f"/entries/{key}"))["state"] == "taken_back"


async def test_answers_are_found_and_taken_back_by_meaning(tmp_path: Path) -> None:
    """A dry run lists what would go and leaves it."""
    async with office(tmp_path, embedder=near(), semantic=MEANING) as admin:
        await admin.house.ask(body_of(FIRST))
        await admin.house.ask(body_of("Who wrote the Iliad and the Odyssey"))
        found = await admin.told("POST", "/entries/alike", {"text": AGAIN, "floor": 0.9})
        assert [each["text"] for each in found["found"]] == [FIRST]
        asked = {"text": AGAIN, "floor": 0.9}
        listed = await admin.told("POST", "/invalidate/alike", asked)
        assert (len(listed["found"]), listed["taken"]) == (1, False)
        assert "hit" in marks(await admin.house.ask(body_of(FIRST)))
        taken = await admin.told("POST", "/invalidate/alike", {**asked, "dry_run": False})
        assert taken["taken"] is True
        assert "hit" not in marks(await admin.house.ask(body_of(FIRST)))
        assert "hit" in marks(await admin.house.ask(body_of("Who wrote the Iliad and the Odyssey")))


async def test_without_meaning_it_says_so(tmp_path: Path) -> None:
    """A gateway without the semantic tier cannot look for one."""
    async with office(tmp_path) as admin:
        answer = await admin.send("POST", "/entries/alike", {"text": "x"})
        assert (answer.status, b"not_configured" in answer.body) == (409, True)


async def test_a_request_is_explained(tmp_path: Path) -> None:
    """Why it hits, why it misses, what tells it from another."""
    async with office(tmp_path, embedder=near(), semantic={"floor": 0.9}) as admin:
        await admin.house.ask(body_of(FIRST), auth="x-nothing: 1")
        explain = {"request": body_of(FIRST), "headers": {}}
        told = await admin.told("POST", "/explain", explain)
        assert told["exact"]["state"] in {"live", "absent"}
        far = await admin.told(
            "POST", "/explain", {"request": body_of("Who?"), "other": body_of("Why?")}
        )
        assert far["semantic"] == "miss"
        assert far["differs"] == ["$.messages[0].content"]
        varied = {"request": body_of("Who?", n=2)}
        assert (await admin.told("POST", "/explain", varied))["why"] == "variety"
        bad = await admin.send("POST", "/explain", {"request": {"model": 1}})
        assert bad.status == 400


async def test_state_is_told(tmp_path: Path) -> None:
    """What is held, what was counted, which parts are left alone."""
    async with office(tmp_path, embedder=near(), semantic=MEANING) as admin:
        await admin.house.ask(body_of(FIRST))
        stats = await admin.told("GET", "/stats")
        assert (stats["entries"], stats["questions"], stats["blind"]) == (1, 1, False)
        names = {each["name"] for each in stats["figures"]}
        assert "askonce_requests_total" in names
        assert (await admin.told("GET", "/breakers"))["states"]["store"] == "closed"


async def test_evidence_is_read_judged_and_retracted(tmp_path: Path) -> None:
    """An operator's word is evidence, and a bad entry goes with all that is known of it."""
    trust = {"enabled": True}
    async with office(
        tmp_path, embedder=near(), semantic=MEANING, trust=trust, controls=DEBUG
    ) as admin:
        await admin.house.ask(body_of(FIRST))
        answer = await admin.house.ask(body_of(AGAIN))
        assert "detail=semantic" in marks(answer)
        request = answer.headers["x-request-id"]
        noted = {"request_id": request, "verdict": "wrong"}
        assert (await admin.told("POST", "/evidence/judge", noted))["seq"] > 0
        records = (await admin.told("GET", f"/evidence?request_id={request}"))["records"]
        assert [each["source"] for each in records] == ["hit", "operator"]
        key = records[0]["key"]
        assert (await admin.told("GET", f"/evidence?key={key}"))["records"] == records
        await admin.told("POST", "/evidence/judge", {**noted, "verdict": "right"})
        entry = await admin.house.built.exact.find(bytes.fromhex(key))
        assert entry is not None
        assert OPERATOR in entry.vouched
        assert len((await admin.told("GET", "/evidence?limit=1"))["records"]) == 1
        gone = await admin.told("POST", f"/entries/{key}/retract")
        assert gone["evidence_marked"] == 3
        assert "hit" not in marks(await admin.house.ask(body_of(FIRST)))
        unknown = await admin.send("POST", "/evidence/judge", {**noted, "request_id": "no"})
        assert unknown.status == 404


async def test_bad_input_is_refused_in_plain_words(tmp_path: Path) -> None:
    """With the right status, and nothing changed."""
    async with office(tmp_path) as admin:
        for method, path, body, status, code in (
            ("POST", "/invalidate", {"what": {"modle": "m"}}, 400, "invalid_body"),
            ("POST", "/invalidate", {"what": {"key": "xy"}}, 400, "invalid_key"),
            ("POST", "/invalidate", {"what": {"tenant": "0123456789abcdef"}}, 400, "invalid_key"),
            ("POST", "/invalidate", {"what": {"prompt": "You are kind."}}, 400, "invalid_key"),
            ("GET", "/invalidations?after=9223372036854775808", None, 400, "invalid_query"),
            ("GET", "/invalidations?after=-1", None, 400, "invalid_query"),
            ("POST", "/invalidate", [], 400, "invalid_body"),
            ("POST", "/invalidate", {}, 400, "invalid_body"),
            ("GET", "/entries/zz", None, 400, "invalid_key"),
            ("GET", "/invalidations?limit=0", None, 400, "invalid_query"),
            ("GET", "/nothing", None, 404, "unknown_path"),
            ("GET", "/stats/", None, 404, "unknown_path"),
            ("PUT", "/stats", None, 405, "method_not_allowed"),
            ("GET", "/evidence", None, 409, "not_configured"),
            ("POST", f"/entries/{'0' * 64}/retract", None, 409, "not_configured"),
            ("POST", "/invalidate", {"what": {}, "why": "x" * (5 << 20)}, 413, "body_too_large"),
        ):
            answer = await admin.send(method, path, body)
            assert answer.status == status, (path, answer.body)
            assert msgspec.json.decode(answer.body)["error"]["code"] == code, path
        assert (await admin.told("GET", "/invalidations"))["rules"] == []


async def test_a_log_that_fails_is_a_503(tmp_path: Path) -> None:
    """The operator must know that nothing was taken back."""
    async with office(tmp_path) as admin:
        log = admin.house.parts.revocations
        assert log is not None
        await log.close()
        answer = await admin.send("POST", "/invalidate", {"what": {}})
        assert answer.status == 503


async def test_it_describes_itself(tmp_path: Path) -> None:
    """Every operation is in the OpenAPI page, with its shapes."""
    async with office(tmp_path, embedder=near(), trust={"enabled": True}) as admin:
        page = await admin.told("GET", "/openapi.json")
        assert page["openapi"].startswith("3.1")
        assert page["paths"]["/askonce/v1/entries/{key}"]["get"]["parameters"][0]["in"] == "path"
        assert "Selector" in page["components"]["schemas"]
        shapes = msgspec.json.encode(page).decode()
        assert set(page["paths"]) >= {"/askonce/v1/evidence", "/askonce/v1/explain"}
        assert "#/components/schemas/TakeBack" in shapes


async def test_it_answers_at_its_own_port_alone(tmp_path: Path) -> None:
    """The callers' port knows no operators, and the operators' none of the callers' paths."""
    from tests.servers.process import free_port

    port = free_port()
    async with open_house(tmp_path, admin={"port": port}) as house:
        assert (await house.send("GET", "/askonce/v1/stats", b"", TOKEN)).status == 404
        gateway = house.service.gateway()
        handler = gateway._handler_of(
            {"server": ("127.0.0.1", port), "method": "GET", "path": CHAT}
        )
        assert handler == house.service.admin


def test_tokens_are_long_and_one_is_made_once(tmp_path: Path) -> None:
    """Without a configured token the data directory keeps one."""
    config = config_of(tmp_path)
    made = tokens_of(config)["operator"]
    assert len(made) == 64
    assert tokens_of(config)["operator"] == made
    assert (tmp_path / "admin-token").stat().st_mode & 0o777 == 0o600
    short = msgspec.structs.replace(
        config, admin=msgspec.structs.replace(config.admin, tokens={"bob": "short"})
    )
    with pytest.raises(ConfigError, match=r"admin\.tokens\.bob"):
        tokens_of(short)
