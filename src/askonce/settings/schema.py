"""What can be set: every key with its type, for error messages and the reference page; pure."""

from __future__ import annotations

from typing import get_args

import msgspec
from msgspec import inspect

from askonce.config import Config

UPSTREAM = "upstream"
"""The one section that is a list of tables."""


class Key(msgspec.Struct, frozen=True):
    """One key of one section."""

    name: str
    annotation: object
    default: object
    """`msgspec.NODEFAULT` when it must be given."""

    @property
    def is_list(self) -> bool:
        """Whether its value is a list."""
        return isinstance(inspect.type_info(self.annotation), inspect.VarTupleType)

    @property
    def is_table(self) -> bool:
        """Whether its value is a table of tables."""
        return isinstance(inspect.type_info(self.annotation), inspect.DictType)

    def describe(self) -> str:
        """Say in words what it takes."""
        return describe(inspect.type_info(self.annotation))


def _keys(section: type[msgspec.Struct]) -> dict[str, Key]:
    return {
        field.encode_name: Key(field.encode_name, field.type, _default(field))
        for field in msgspec.structs.fields(section)
    }


def _default(field: msgspec.structs.FieldInfo) -> object:
    made = field.default_factory
    return field.default if made is msgspec.NODEFAULT else made()


def _sections() -> dict[str, dict[str, Key]]:
    return {
        field.encode_name: _keys(get_args(field.type)[0] if get_args(field.type) else field.type)
        for field in msgspec.structs.fields(Config)
    }


SECTIONS = _sections()
"""Keys by name, by section."""


def describe(kind: inspect.Type) -> str:
    """Say in words what values a type has."""
    match kind:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number{_limits(kind)}"
        case inspect.FloatType():
            return f"a number{_limits(kind)}"
        case inspect.LiteralType():
            return f"one of {', '.join(sorted(map(str, kind.values)))}"
        case inspect.VarTupleType():
            return f"a list, each {describe(kind.item_type)}"
        case inspect.UnionType(types=(given, inspect.NoneType())):
            return describe(given)
        case inspect.DictType():
            each = "text" if isinstance(kind.value_type, inspect.StrType) else "a table"
            return f"{each} for each name"
        case _:
            return "text"


def _limits(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge} to {kind.le}"
    if kind.ge is not None:
        return f" of {kind.ge} or more"
    if kind.gt is not None:
        return f" above {kind.gt}" + ("" if kind.le is None else f", {kind.le} at most")
    return ""
