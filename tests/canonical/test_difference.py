"""What tells two requests apart."""

from __future__ import annotations

import json

import pytest

from askonce.canonical.difference import differences
from askonce.canonical.request import Call, parse_chat


def call(extra: str = "", content: str = '"hi"') -> Call:
    """A call with this raw content and these raw members."""
    return parse_chat(
        f'{{"model":"m","messages":[{{"role":"user","content":{content}}}]{extra}}}'.encode()
    )


@pytest.mark.parametrize(
    ("one", "other", "paths"),
    [
        ("", "", []),
        ("", ',"stream":true,"user":"u","n":1', []),
        (',"seed":1', ',"seed":1.0', []),
        ("", ',"seed":1', ["$.seed"]),
        (',"seed":1', ',"seed":2', ["$.seed"]),
        (',"seed":1', ',"seed":true', ["$.seed"]),
        (',"stop":["a"]', ',"stop":"a"', ["$.stop"]),
        (',"stop":["a","b"]', ',"stop":["a"]', ["$.stop[1]"]),
        (',"x":{"a":{"b c":1}}', ',"x":{"a":{"b c":2,"d":0}}', ['$.x.a["b c"]', "$.x.a.d"]),
        (',"top_p":0.5,"a":1', ',"top_p":0.6', ["$.a", "$.top_p"]),
    ],
)
def test_paths_of_the_fields_that_differ(one: str, other: str, paths: list[str]) -> None:
    """Only fields that are in the key are named, whichever comes first."""
    assert differences(call(one), call(other)) == paths
    assert differences(call(other), call(one)) == paths


def test_messages_are_named_by_place() -> None:
    """A changed turn is found inside of its message."""
    assert differences(call(content='"a"'), call(content='"b"')) == ["$.messages[0].content"]
    assert differences(call(), call(content='"a",' + json.dumps("name") + ':"n"')) == [
        "$.messages[0].content",
        "$.messages[0].name",
    ]
