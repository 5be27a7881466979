"""Requests that must not, and some that may, have one answer."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bench.samples import HEADERS, PATH

SETTLED = 1.5
"""Seconds after which an answer is stored."""
_TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}


class Pair(NamedTuple):
    """Two requests, one after the other."""

    name: str
    first: dict[str, Any]
    second: dict[str, Any]
    same: bool = False
    """Whether the second is the first one written in another way."""


def pairs(engine: int) -> list[Pair]:
    """Pairs of requests with equal questions; engine: the port that both may name."""
    fields: list[tuple[str, Any, Any]] = [
        ("guided_json", {"type": "object"}, {"type": "array"}),
        ("guided_choice", ["yes", "no"], ["ja", "nein"]),
        ("guided_regex", "[a-z]+", "[0-9]+"),
        ("chat_template_kwargs", {"enable_thinking": True}, {"enable_thinking": False}),
        ("repetition_penalty", 1.0, 1.3),
        ("min_p", 0.0, 0.2),
        ("top_k", 1, 50),
        ("bad_words", ["one"], ["two"]),
        ("reasoning_effort", "low", "high"),
        ("response_format", {"type": "text"}, {"type": "json_object"}),
        ("seed", 1, 2),
        ("logit_bias", {"1": 5}, {"1": -5}),
        ("stop", ["a"], ["b"]),
        ("tools", [_TOOL], None),
        ("some_new_field", "one", "two"),
        ("api_base", f"http://127.0.0.1:{engine}/v1", f"http://127.0.0.1:{engine}/v2"),
    ]
    found = [Pair(name, _body(name, one), _body(name, two)) for name, one, two in fields]
    base = _base("system prompt")
    other = {**base, "messages": [{"role": "system", "content": "Be brief."}, *base["messages"]]}
    found.append(Pair("system prompt", base, other))
    user = _base("user that spells a field")
    del user["temperature"]
    forged = {**user, "user": "atemperature: 0.5"}
    found.append(
        Pair("user that spells a field", forged, {**user, "user": "a", "temperature": 0.5})
    )
    order = _base("order of fields")
    found.append(Pair("order of fields", order, dict(reversed(order.items())), same=True))
    zero = _base("0 and 0.0")
    whole, broken = {**zero, "temperature": 0}, {**zero, "temperature": 0.0}
    found.append(Pair("0 and 0.0", whole, broken, same=True))
    stream = _base("stream false and absent")
    found.append(Pair("stream false and absent", stream, {**stream, "stream": False}, same=True))
    return found


def _base(name: str) -> dict[str, Any]:
    question = f"Which of the two is it, as to {name}?"
    return {
        "model": "attacked-model",
        "messages": [{"role": "user", "content": question}],
        "temperature": 0.2,
        "max_tokens": 64,
    }


def _body(name: str, value: object) -> dict[str, Any]:
    return {**_base(name), **({} if value is None else {name: value})}


@dataclass
class Toll:
    """Names of pairs, by what came of them."""

    wrong: list[str] = field(default_factory=list)
    """Served the answer of another request."""
    refused: list[str] = field(default_factory=list)
    """Not answered."""
    uncached: list[str] = field(default_factory=list)
    """Not even the first request found its own answer again."""
    needless: list[str] = field(default_factory=list)
    """The same request, asked of the engine twice."""
    right: list[str] = field(default_factory=list)


def attack(port: int, tried: list[Pair]) -> Toll:
    """Ask all first ones, all second ones, then the first ones again."""
    first = [ask(port, pair.first) for pair in tried]
    time.sleep(SETTLED)
    second = [ask(port, pair.second) for pair in tried]
    again = [ask(port, pair.first) for pair in tried]
    toll = Toll()
    for pair, one, two, three in zip(tried, first, second, again, strict=True):
        _kind(toll, pair, (one, two, three)).append(pair.name)
    return toll


def _kind(toll: Toll, pair: Pair, answers: tuple[str | None, ...]) -> list[str]:
    first, second, again = answers
    if first is None or second is None:
        return toll.refused
    if second == first:
        return toll.right if pair.same else toll.wrong
    if again != first:
        return toll.uncached
    return toll.needless if pair.same else toll.right


def ask(port: int, body: dict[str, Any]) -> str | None:
    """The answer's text, or None where the request is refused."""
    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        wire.request("POST", PATH, json.dumps(body), HEADERS)
        response = wire.getresponse()
        told = response.read()
        if response.status != 200:
            return None
        return str(json.loads(told)["choices"][0]["message"]["content"])
    finally:
        wire.close()
