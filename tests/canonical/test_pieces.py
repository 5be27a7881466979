"""Merging the pieces of a streamed answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from askonce.canonical.pieces import Object, Unmergeable, merge, settled

if TYPE_CHECKING:
    from askonce.canonical.value import Json


def merged(*pieces: dict[str, Json], joins: bool = True) -> Json:
    """The value of these pieces."""
    target = Object()
    for piece in pieces:
        merge(target, piece, joins=joins)
    return settled(target)


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        (["a", "b", "", "b"], "abb"),
        ([None, "a", None, "b"], "ab"),
        ([None, None], None),
        ([1, 2.5], 2.5),
        ([False, True], True),
        ([{"a": "x"}, {"a": "y", "b": None}], {"a": "xy", "b": None}),
        ([[1], [2, 2]], [1, 2, 2]),
        ([[{"t": "a"}], [{"t": "a"}]], [{"t": "a"}, {"t": "a"}]),
        (
            [[{"index": 1, "t": "a"}], [{"index": 0, "t": "b"}], [{"index": 1, "t": "c"}]],
            [{"index": 1, "t": "ac"}, {"index": 0, "t": "b"}],
        ),
        (
            [[{"index": 0, "t": "a"}, "x"], [{"index": "0"}]],
            [{"index": 0, "t": "a"}, "x", {"index": "0"}],
        ),
    ],
)
def test_pieces_of_each_kind(pieces: list[Json], whole: Json) -> None:
    """Strings join, objects merge, lists extend or merge by index, null yields."""
    assert merged(*({"x": piece} for piece in pieces)) == {"x": whole}


@pytest.mark.parametrize("name", ["role", "type", "id", "format"])
def test_what_is_said_once_is_not_doubled(name: str) -> None:
    """Engines repeat some strings in every chunk: the first that says something counts."""
    assert merged({name: ""}, {name: "a"}, {name: "a"}, {name: ""}, {name: "b"}) == {name: "a"}


def test_a_name_comes_once_or_in_pieces() -> None:
    """A repeated name is one name, different pieces are joined."""
    assert merged({"name": "find"}, {"name": "find"}, {"name": ""}) == {"name": "find"}
    assert merged({"name": "fi"}, {"name": "nd"}) == {"name": "find"}


def test_without_joining_the_later_string_counts() -> None:
    """Outside of the delta strings are states, not pieces."""
    assert merged({"a": "x", "b": {"c": "x"}}, {"a": "y", "b": {"c": "y"}}, joins=False) == {
        "a": "y",
        "b": {"c": "y"},
    }


@pytest.mark.parametrize(
    ("one", "other"), [("a", 1), (1, "a"), ("a", {}), ([], "a"), ({}, []), ([], {}), (1, [])]
)
def test_kinds_do_not_mix(one: Json, other: Json) -> None:
    """A piece of another kind means that the answer cannot be put together."""
    with pytest.raises(Unmergeable):
        merged({"x": one}, {"x": other})


def call(place: int, **members: Json) -> dict[str, Json]:
    """A delta with one piece of a tool call."""
    return {"tool_calls": [{"index": place, **members}]}


def test_a_new_id_without_a_name_is_the_same_call() -> None:
    """Older engines send a fresh id with every piece of one call."""
    pieces = [
        call(0, id="a", type="function", function={"name": "f", "arguments": ""}),
        call(0, id="b", type="function", function={"arguments": "{"}),
        call(0, id="c", function={"name": None, "arguments": "}"}),
        call(0, id="d"),
    ]
    function = {"name": "f", "arguments": "{}"}
    assert merged(*pieces)["tool_calls"] == [
        {"index": 0, "id": "a", "type": "function", "function": function}
    ]


def test_two_calls_under_one_number_do_not_merge() -> None:
    """A new id together with a name is another call, whatever its number says."""
    with pytest.raises(Unmergeable):
        merged(call(0, id="a", function={"name": "f"}), call(0, id="b", function={"name": "g"}))
