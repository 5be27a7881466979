"""The exact key and the semantic partition."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askonce.canonical.key import Scope, exact_key, partition_key
from askonce.canonical.request import WITHOUT_EFFECT, Call, Question, parse_chat

GOLDEN = Path(__file__).parent / "golden"
SCOPE = Scope("openai/chat/completions", "vllm", "r1", b"tenant")

BASE: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is this?", "name": "ann"},
    ],
    "temperature": 0.7,
    "top_p": 0.9,
    "seed": 1,
    "max_tokens": 64,
}

FIELDS: dict[str, Any] = {
    # OpenAI's chat completions
    "model": "m2",
    "messages": [{"role": "user", "content": "What is this?"}],
    "audio": {"voice": "alloy", "format": "wav"},
    "frequency_penalty": 0.5,
    "function_call": "auto",
    "functions": [{"name": "f"}],
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "max_completion_tokens": 65,
    "max_tokens": 65,
    "modalities": ["text", "audio"],
    "n": 2,
    "parallel_tool_calls": False,
    "prediction": {"type": "content", "content": "x"},
    "presence_penalty": 0.1,
    "reasoning_effort": "low",
    "response_format": {"type": "json_object"},
    "seed": 2,
    "service_tier": "flex",
    "stop": ["\n"],
    "temperature": 0.8,
    "tool_choice": "required",
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "top_logprobs": 3,
    "top_p": 0.8,
    "verbosity": "low",
    "web_search_options": {},
    "moderation": "off",
    # vLLM's
    "add_generation_prompt": False,
    "add_special_tokens": True,
    "allowed_token_ids": [1, 2],
    "bad_words": ["damn"],
    "cache_salt": "salt",
    "chat_template": "{{ messages }}",
    "chat_template_kwargs": {"enable_thinking": False},
    "continue_final_message": True,
    "documents": [{"title": "t", "text": "x"}],
    "echo": True,
    "guided_choice": ["yes", "no"],
    "guided_decoding_backend": "xgrammar",
    "guided_grammar": "root ::= 'a'",
    "guided_json": {"type": "object"},
    "guided_regex": "[a-z]+",
    "guided_whitespace_pattern": " ?",
    "ignore_eos": True,
    "include_reasoning": False,
    "include_stop_str_in_output": True,
    "kv_transfer_params": {"do_remote_decode": True},
    "length_penalty": 1.2,
    "logits_processors": ["a.B"],
    "min_p": 0.05,
    "min_tokens": 4,
    "mm_processor_kwargs": {"num_crops": 4},
    "priority": 1,
    "prompt_logprobs": 1,
    "repetition_penalty": 1.1,
    "return_token_ids": True,
    "return_tokens_as_token_ids": True,
    "skip_special_tokens": False,
    "spaces_between_special_tokens": False,
    "stop_token_ids": [7],
    "structural_tag": "{}",
    "structured_outputs": {"regex": "a+"},
    "thinking_token_budget": 100,
    "top_k": 20,
    "truncate_prompt_tokens": 100,
    "use_beam_search": True,
    "vllm_xargs": {"a": 1},
    # other engines'
    "best_of": 2,
    "dynatemp_range": 0.1,
    "grammar": "root ::= 'a'",
    "json_schema": {"type": "object"},
    "mirostat": 2,
    "options": {"num_ctx": 4096},
    "provider": {"order": ["a"]},
    "safe_prompt": True,
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "typical_p": 0.9,
    # nobody's
    "a_field_that_nobody_knows": "x",
}


def call(body: dict[str, Any]) -> Call:
    """The call of a body."""
    return parse_chat(json.dumps(body).encode())


def key(body: dict[str, Any]) -> bytes:
    """The exact key of a body in the usual scope."""
    return exact_key(SCOPE, call(body))


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_every_field_changes_the_key(name: str) -> None:
    """A field that is set, or set to something else, is another request."""
    assert key({**BASE, name: FIELDS[name]}) != key(BASE)


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_every_value_of_a_field_changes_the_key(name: str) -> None:
    """A scalar, a truth value and an object in its place are three other requests."""
    values: list[Any] = [FIELDS[name], {"other": 1}, [5], "other", 17, True]
    if name == "model":
        values = ["m2", "m3"]
    if name == "messages":
        values = [[{"role": "user"}], [{"role": "user", "content": None}], [{"role": "x"}]]
    keys = {key({**BASE, name: value}) for value in values}
    assert len(keys) == len({json.dumps(value) for value in values})


def test_no_two_fields_share_a_key() -> None:
    """All one-field changes differ from each other too."""
    keys = {key({**BASE, name: value}) for name, value in FIELDS.items()}
    assert len(keys) == len(FIELDS)


@pytest.mark.parametrize(
    "change",
    [
        {"role": "assistant"},
        {"content": "What is that?"},
        {"content": "What is this? "},
        {"content": [{"type": "text", "text": "What is this?"}]},
        {"name": "bob"},
        {"tool_calls": []},
        {"a_member_that_nobody_knows": None},
    ],
)
def test_every_member_of_a_message_changes_the_key(change: dict[str, Any]) -> None:
    """Inside of a message nothing is left out, not even null."""
    first, last = BASE["messages"]
    assert key({**BASE, "messages": [first, {**last, **change}]}) != key(BASE)


@given(st.text(min_size=1), st.booleans() | st.integers(2) | st.text() | st.lists(st.integers()))
def test_an_unknown_field_always_changes_the_key(name: str, value: object) -> None:
    """Whatever its name, a field that is not on the deny-list counts."""
    if name not in BASE and name not in WITHOUT_EFFECT:
        assert key({**BASE, name: value}) != key(BASE)


@pytest.mark.parametrize(
    "change",
    [
        {"endpoint": "openai/chat/completions?api-version=1"},
        {"upstream": "other"},
        {"revision": "r2"},
        {"tenant": b"other"},
        {"tenant": b""},
        {"namespace": "n"},
    ],
)
def test_every_part_of_the_scope_changes_both_keys(change: dict[str, Any]) -> None:
    """No part of the scope is forgotten."""
    request, question = call(BASE), Question("q", b"frame")
    other = msgspec.structs.replace(SCOPE, **change)
    assert exact_key(other, request) != exact_key(SCOPE, request)
    assert partition_key(other, question) != partition_key(SCOPE, question)


def test_keys_are_thirty_two_bytes_of_two_kinds() -> None:
    """A frame that spells a request does not give the request's key."""
    request = call(BASE)
    exact = exact_key(SCOPE, request)
    partition = partition_key(SCOPE, Question("q", request.canonical))
    assert (len(exact), len(partition)) == (32, 32)
    assert exact != partition


def test_partition_does_not_depend_on_the_text() -> None:
    """Only what surrounds the question is the partition's."""
    one, other = Question("a", b"frame"), Question("b", b"frame")
    assert partition_key(SCOPE, one) == partition_key(SCOPE, other)
    assert partition_key(SCOPE, one) != partition_key(SCOPE, Question("a", b"other"))


def in_nfc(*texts: str) -> list[str]:
    """The texts as the key sees them."""
    return [unicodedata.normalize("NFC", text) for text in texts]


PARTS = st.sampled_from(["", "a", "b", "ab", "ba", "a\0", "\0a", "aa"])
SCOPES = st.builds(Scope, PARTS, PARTS, PARTS, PARTS.map(str.encode), PARTS)


@given(SCOPES, SCOPES)
def test_moving_a_boundary_never_gives_the_same_key(one: Scope, other: Scope) -> None:
    """Two scopes whose parts join to the same bytes stay apart."""
    request = call(BASE)
    assert (exact_key(one, request) == exact_key(other, request)) == (one == other)


@given(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8), st.text(max_size=8))
def test_texts_cannot_be_shifted_between_messages(a: str, b: str, c: str, d: str) -> None:
    """A text that imitates the boundary of a message is still a text."""

    def of(one: str, other: str) -> bytes:
        turns = [{"role": "user", "content": one}, {"role": "assistant", "content": other}]
        return key({"model": "m", "messages": turns})

    assert (of(a, b) == of(c, d)) == (in_nfc(a, b) == in_nfc(c, d))


@pytest.mark.parametrize(
    "text", ['"},{"role":"assistant","content":"x', '","name":"ann', "\x00", "]}", '\\"', "5:exact"]
)
def test_a_forged_boundary_is_only_text(text: str) -> None:
    """Content that spells the canonical form of more content is not that content."""
    forged = key({"model": "m", "messages": [{"role": "user", "content": f"a{text}"}]})
    honest = key(
        {
            "model": "m",
            "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "x"}],
        }
    )
    assert forged != honest


def test_key_is_what_its_description_says() -> None:
    """SHA-256 over the parts, each behind its length in eight bytes."""
    parts = [b"askonce", b"\0\0\0\1", b"exact", b"e", b"u", b"r", b"t", b"n"]
    request = call(BASE)
    parts += [request.canonical]
    expected = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts))
    scope = Scope("e", "u", "r", b"t", "n")
    assert exact_key(scope, request) == expected.digest()


def golden_keys() -> dict[str, str]:
    """The keys of the golden requests, as this process computes them."""
    requests = json.loads((GOLDEN / "requests.json").read_text())
    return {request["name"]: key(request["body"]).hex() for request in requests}


def test_golden_keys_have_not_moved() -> None:
    """A change of any key needs a new KEY_VERSION."""
    assert golden_keys() == json.loads((GOLDEN / "keys.json").read_text())


def test_golden_requests_that_mean_the_same_share_a_key() -> None:
    """The golden file says which of them are equal; all others differ."""
    requests = json.loads((GOLDEN / "requests.json").read_text())
    keys = golden_keys()
    for request in requests:
        if "same_as" in request:
            assert keys[request["name"]] == keys[request["same_as"]]
    assert len(set(keys.values())) == sum("same_as" not in request for request in requests)


_FRESH_PROCESS = """
import json, pathlib, sys
from askonce.canonical.key import Scope, exact_key
from askonce.canonical.request import parse_chat
scope = Scope("openai/chat/completions", "vllm", "r1", b"tenant")
requests = json.loads(pathlib.Path(sys.argv[1]).read_text())
keys = {r["name"]: exact_key(scope, parse_chat(json.dumps(r["body"]).encode())).hex()
        for r in requests}
print(json.dumps(keys))
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_keys_are_equal_in_every_process(seed: str) -> None:
    """Neither the process nor its hash seed has a part in a key."""
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", _FRESH_PROCESS, str(GOLDEN / "requests.json")],
        env=environment,
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert json.loads(run.stdout) == json.loads((GOLDEN / "keys.json").read_text())
