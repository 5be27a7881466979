"""What a caller may ask of the cache."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from askonce.config import ControlConfig
from askonce.errors import RequestError
from askonce.policy.controls import (
    CONTROL_HEADERS,
    MAX_NAME,
    MAX_TAGS,
    Controls,
    read_controls,
)

ALL = ControlConfig()
NONE = ControlConfig(allow=())

Pairs = list[tuple[bytes, bytes]]


def cache_control(value: bytes, policy: ControlConfig = ALL) -> Controls:
    """Controls of a lone `Cache-Control` header."""
    return read_controls([(b"cache-control", value)], policy)


@pytest.mark.parametrize(
    ("value", "controls"),
    [
        (b"", Controls()),
        (b"no-cache", Controls(no_cache=True)),
        (b"NO-STORE", Controls(no_store=True)),
        (b" only-if-cached ,", Controls(only_if_cached=True)),
        (b"max-age=60", Controls(max_age=60.0)),  # type: ignore[arg-type] # a plain float
        (b'max-age="0"', Controls(max_age=0.0)),  # type: ignore[arg-type] # a plain float
        (b"no-cache, no-store,max-age=5", Controls(no_cache=True, no_store=True, max_age=5.0)),  # type: ignore[arg-type] # a plain float
        (b"no-transform, max-stale=3, surprise", Controls()),
    ],
)
def test_directives_are_read(value: bytes, controls: Controls) -> None:
    """Known directives are read in any case and spacing, unknown ones are ignored."""
    assert cache_control(value) == controls


@pytest.mark.parametrize("value", [b"max-age", b"max-age=", b"max-age=soon", b"max-age=-1"])
def test_a_directive_without_meaning_is_the_callers_fault(value: bytes) -> None:
    """An age that is no span of time is refused with its name, not guessed."""
    with pytest.raises(RequestError) as caught:
        cache_control(value)
    assert (caught.value.status, caught.value.code) == (400, "invalid_cache_control")
    assert caught.value.param == "max-age"


@pytest.mark.parametrize(
    ("name", "value", "controls"),
    [
        (b"x-askonce-ttl", b"90.5", Controls(ttl=90.5)),  # type: ignore[arg-type] # a plain float
        (b"x-askonce-namespace", b" blue ", Controls(namespace="blue")),
        (b"x-askonce-tags", b"b, a,,b", Controls(tags=("a", "b"))),
        (b"x-askonce-tags", b"", Controls()),
        (b"x-askonce-semantic", b"OFF", Controls(semantic=False)),
        (b"x-askonce-semantic", b"on", Controls(semantic=True)),
        (b"x-askonce-unheard-of", b"1", Controls()),
        (b"accept", b"no-cache", Controls()),
    ],
)
def test_product_headers_are_read(name: bytes, value: bytes, controls: Controls) -> None:
    """Each `X-AskOnce-*` header sets its control, other headers set none."""
    assert read_controls([(name, value)], ALL) == controls


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"x-askonce-ttl", b"forever"),
        (b"x-askonce-ttl", b"inf"),
        (b"x-askonce-ttl", b"nan"),
        (b"x-askonce-ttl", b"-0.5"),
        (b"x-askonce-namespace", b""),
        (b"x-askonce-namespace", b"n" * (MAX_NAME + 1)),
        (b"x-askonce-namespace", b"a\x00b"),
        (b"x-askonce-tags", b"ok, bad\x07"),
        (b"x-askonce-tags", b",".join(b"%d" % n for n in range(MAX_TAGS + 1))),
        (b"x-askonce-semantic", b"maybe"),
    ],
)
def test_a_header_without_meaning_is_the_callers_fault(name: bytes, value: bytes) -> None:
    """A value that means nothing is refused where the control is allowed, else ignored."""
    with pytest.raises(RequestError):
        read_controls([(name, value)], ALL)
    assert read_controls([(name, value)], NONE) == Controls()


def test_as_many_tags_as_allowed() -> None:
    """The bounds themselves are within bounds."""
    names = [b"%d" % n for n in range(MAX_TAGS)]
    assert len(read_controls([(b"x-askonce-tags", b",".join(names))], ALL).tags) == MAX_TAGS
    long = b"n" * MAX_NAME
    assert read_controls([(b"x-askonce-namespace", long)], ALL).namespace == long.decode()


def test_two_headers_of_a_name_add_up() -> None:
    """`Cache-Control` may come in several lines."""
    pairs = [(b"cache-control", b"no-cache"), (b"cache-control", b"no-store")]
    assert read_controls(pairs, ALL) == Controls(no_cache=True, no_store=True)


def test_a_life_longer_than_policy_is_cut() -> None:
    """No caller outlives `max_ttl`."""
    policy = ControlConfig(max_ttl=10.0)
    assert read_controls([(b"x-askonce-ttl", b"11")], policy).ttl == 10.0
    assert read_controls([(b"x-askonce-ttl", b"9")], policy).ttl == 9.0


VALUES = st.one_of(
    st.binary(max_size=40),
    st.lists(
        st.sampled_from(
            [b"no-cache", b"no-store", b"max-age=", b"max-age=1e9", b"max-age=-1", b"1", b"on"]
        ),
        max_size=4,
    ).map(b", ".join),
    st.floats().map(lambda number: str(number).encode()),
)
PAIRS = st.lists(st.tuples(st.sampled_from(sorted(CONTROL_HEADERS)), VALUES), max_size=5)
ALLOWED = st.lists(st.sampled_from(ALL.allow), unique=True).map(tuple)


def controls_or_fault(pairs: Pairs, policy: ControlConfig) -> Controls | RequestError:
    """What reading gives; any other exception fails the test."""
    try:
        return read_controls(pairs, policy)
    except RequestError as fault:
        return fault


@given(PAIRS, ALLOWED, st.floats(min_value=1, max_value=1e6))
@example([(b"x-askonce-ttl", b"1" * 5000)], ALL.allow, 1.0)
def test_no_header_can_break_the_reader(
    pairs: Pairs,
    allow: tuple,  # type: ignore[type-arg] # literals of the policy
    max_ttl: float,
) -> None:
    """Any bytes give controls within policy, or the caller's fault, and nothing else."""
    controls = controls_or_fault(pairs, ControlConfig(allow=allow, max_ttl=max_ttl))
    if isinstance(controls, RequestError):
        assert controls.param in allow
        return
    assert controls.ttl is None or 0 <= controls.ttl <= max_ttl
    assert controls.max_age is None or controls.max_age >= 0
    assert len(controls.tags) <= MAX_TAGS
    hash(controls)


@given(PAIRS, ALLOWED)
def test_a_control_outside_policy_is_as_good_as_not_sent(
    pairs: Pairs,
    allow: tuple,  # type: ignore[type-arg] # literals of the policy
) -> None:
    """Taking a permission away equals the default of that control, whatever was sent."""
    controls = controls_or_fault(pairs, ControlConfig(allow=allow))
    if isinstance(controls, RequestError):
        return
    default = Controls()
    for control in set(ALL.allow) - set(allow):
        field = control.replace("-", "_")
        assert getattr(controls, field) == getattr(default, field)


@pytest.mark.parametrize("raw", ["caf\u00e9".encode(), "cafe\u0301".encode(), b"caf\xe9"])
def test_names_are_what_whoever_wrote_them_reads(raw: bytes) -> None:
    """A rule or a setting in the same letters matches, however a client wrote them."""
    pairs = [(b"x-askonce-tags", raw), (b"x-askonce-namespace", raw)]
    controls = read_controls(pairs, ControlConfig(allow=("tags", "namespace")))
    assert (controls.tags, controls.namespace) == (("caf\u00e9",), "caf\u00e9")
