"""How the pieces of a streamed answer become one."""

from __future__ import annotations

from typing import Final

from askonce.canonical.value import Json

SAID_ONCE: Final = frozenset({"role", "type", "id", "name", "format", "channel", "recipient"})
"""Strings that a stream says once or repeats, while all others come in pieces to be joined."""


class Unmergeable(Exception):
    """Pieces that do not belong together."""


class Joined(list[str]):
    """The pieces of one string."""


class Object(dict[str, Json]):
    """An object under construction."""


def merge(target: Object, piece: dict[str, Json], *, joins: bool) -> None:
    """Add a piece to an object; without `joins` a later string takes the place of an earlier one.

    Null never takes the place of a value.
    """
    for name, value in piece.items():
        present = target.get(name)
        if value is None:
            target.setdefault(name, None)
        elif present is None:
            target[name] = _opened(value, name, joins=joins)
        else:
            target[name] = _merged(present, value, name, joins=joins)


def _opened(value: Json, name: str, *, joins: bool) -> Json:
    if type(value) is str:
        return Joined((value,)) if joins and name not in SAID_ONCE else value
    if type(value) is dict:
        opened = Object()
        merge(opened, value, joins=joins)
        return opened
    return _merged([], value, name, joins=joins) if type(value) is list else value


def _merged(present: Json, value: Json, name: str, *, joins: bool) -> Json:
    if type(value) is str and type(present) is Joined:
        present.append(value)
    elif type(value) is str and type(present) is str:
        return _said_again(present, value, name) if joins else value
    elif type(value) is dict and type(present) is Object:
        merge(present, value, joins=joins)
    elif type(value) is list and type(present) is list:
        for item in value:
            _add_item(present, item, joins=joins)
    elif type(value) in {int, float, bool} and type(present) in {int, float, bool}:
        return value
    else:
        raise Unmergeable(name)
    return present


def _said_again(present: str, value: str, name: str) -> str:
    """One name may come in pieces; anything else keeps what was said first."""
    if name == "name" and value != present:
        return present + value
    return present or value


def _add_item(items: list[Json], item: Json, *, joins: bool) -> None:
    place = item.get("index") if type(item) is dict else None
    if type(place) is not int:
        items.append(item)
        return
    for present in items:
        if type(present) is Object and present["index"] == place:
            _same_call(present, item)
            merge(present, item, joins=joins)
            return
    items.append(_opened(item, "", joins=joins))


def _same_call(present: Object, item: dict[str, Json]) -> None:
    """Some engines number every call 0: another id together with another name is another call."""
    known, told = present.get("id"), item.get("id")
    function = item.get("function")
    if known and told and known != told and type(function) is dict and function.get("name"):
        raise Unmergeable("id")


def settled(value: Json) -> Json:
    """The plain value of what `merge` built."""
    if type(value) is Joined:
        return "".join(value)
    if type(value) is Object:
        return {name: settled(item) for name, item in value.items()}
    if type(value) is list:
        return [settled(item) if type(item) is Object else item for item in value]
    return value
