"""Settings from three origins make one tree, and wrong ones are told in plain words."""

from __future__ import annotations

import tomllib

import msgspec
import pytest
from msgspec import inspect

from askonce.config import Config
from askonce.errors import ConfigError
from askonce.settings.parse import Setting, build, from_environ, from_table
from askonce.settings.schema import SECTIONS, describe


def read(toml: str, **environ: str) -> Config:
    """Build from a file's text and variables without their prefix."""
    variables = {f"ASKONCE_{name}": value for name, value in environ.items()}
    return build([*from_table(tomllib.loads(toml), "askonce.toml"), *from_environ(variables)])


def test_nothing_set_gives_the_defaults() -> None:
    """Without settings the tree is the default tree."""
    assert read("") == Config()


def test_later_origins_win() -> None:
    """The environment wins over the file, and a flag over both."""
    toml = "[server]\nport = 1\nhost = 'a'\nworkers = 2"
    flag = Setting(("server", "port"), "3", "--port", text=True)
    config = build(
        [
            *from_table(tomllib.loads(toml), "f"),
            *from_environ({"ASKONCE_SERVER__PORT": "2", "ASKONCE_SERVER__HOST": "b", "HOME": "/"}),
            flag,
        ]
    )
    assert (config.server.port, config.server.host, config.server.workers) == (3, "b", 2)


def test_every_key_can_be_set_by_variable() -> None:
    """Each key of each section has a variable of its name, taken as text."""
    for section, keys in SECTIONS.items():
        for key in keys.values():
            place = (
                f"{section}__0__{key.name}" if section == "upstream" else f"{section}__{key.name}"
            )
            default = "http://h/v1" if key.default is msgspec.NODEFAULT else key.default
            text = ",".join(default) if isinstance(default, tuple) else str(default)
            text = "null" if default is None else text
            config = read("", **{"UPSTREAM__0__URL": "http://h/v1", place.upper(): text})
            table = getattr(config, section)
            assert getattr(table[0] if section == "upstream" else table, key.name) == default


@pytest.mark.parametrize(
    ("toml", "enabled"),
    [
        ("", False),
        ("audit = 0.1", False),
        ("budget = 0.02", True),
        ('mode = "shadow"', True),
        ('preset = "support"', True),
        ('[trust.namespaces.faq]\npreset = "search"', True),
        ("budget = 0.02\nenabled = false", False),
    ],
)
def test_a_budget_for_answers_by_meaning_is_enough_to_have_it_kept(
    toml: str, *, enabled: bool
) -> None:
    """Naming what it shall be turns trust on, unless it is said to be off."""
    table = tomllib.loads(f"[trust]\n{toml}")
    assert build(from_table(table, "a.toml")).trust.enabled is enabled


def test_text_stands_for_other_types() -> None:
    """Variables give numbers, truth values and lists."""
    config = read(
        "",
        EXACT__ENABLED="false",
        SEMANTIC__FLOOR="0.9",
        CONTROLS__ALLOW="ttl, tags",
        EXACT__TTL="60",
    )
    assert config.exact.enabled is False
    assert config.semantic.floor == 0.9
    assert config.controls.allow == ("ttl", "tags")
    assert config.exact.ttl == 60.0


def test_upstreams_are_a_list() -> None:
    """Tables in the file make upstreams in order, and variables reach them by index."""
    toml = '[[upstream]]\nurl = "http://a/v1"\n[[upstream]]\nurl = "http://b/v1"\nmodels = ["x*"]'
    config = read(toml, UPSTREAM__1__API_KEY="k")
    assert [each.url for each in config.upstream] == ["http://a/v1", "http://b/v1"]
    assert config.upstream[1].api_key == "k"
    assert config.upstream[1].models == ("x*",)


def test_a_lone_upstream_replaces_the_others_and_their_credentials() -> None:
    """An address from the environment never gets a credential that the file gave another."""
    toml = (
        '[[upstream]]\nurl = "http://a/v1"\napi_key = "secret"\n[[upstream]]\nurl = "http://b/v1"'
    )
    config = read(toml, UPSTREAM_URL="http://c/v1")
    assert [(each.url, each.api_key) for each in config.upstream] == [("http://c/v1", "")]
    config = read(toml, UPSTREAM_URL="http://c/v1", UPSTREAM_API_KEY="own")
    assert [(each.url, each.api_key) for each in config.upstream] == [("http://c/v1", "own")]


def test_a_key_for_an_upstream_that_nobody_names_says_nothing() -> None:
    """The short key goes to the upstream of file, variable or flag; alone it makes none."""
    key = {"UPSTREAM_API_KEY": "k"}
    assert read("", **key).upstream == ()
    assert read('[[upstream]]\nurl = "http://a/v1"', **key).upstream[0].api_key == "k"
    flag = Setting(("upstream", 0, "url"), "http://b/v1", "--upstream", text=True, alone=True)
    config = build([*from_environ({"ASKONCE_UPSTREAM_API_KEY": "k"}), flag])
    assert [(each.url, each.api_key) for each in config.upstream] == [("http://b/v1", "k")]


def test_an_upstream_without_url_names_its_origin() -> None:
    """What made an upstream that has no address is told."""
    with pytest.raises(ConfigError, match="ASKONCE_UPSTREAM__0__API_KEY: upstream 1 has no url"):
        read("", UPSTREAM__0__API_KEY="k")


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[servr]\nport = 1", "askonce.toml: there is no section 'servr'; did you mean 'server'?"),
        ("[qqq]\nport = 1", "no section 'qqq'; known are server, upstream"),
        ("[server]\nprt = 1", "server has no key 'prt'; did you mean 'port'?"),
        ("[server]\nport = 70000", "server.port is 70000, but must be a whole number from 0 to"),
        ("[server]\nport = '1'", "server.port is '1', but must be a whole number"),
        ("[server]\nworkers = 0", "must be a whole number of 1 or more"),
        ("[exact]\nttl = 0", "exact.ttl is 0, but must be a number above 0"),
        ("[trust]\nbudget = 0", "trust.budget is 0, but must be a number above 0, 0.5 at most"),
        ("[exact]\nttl = inf", "exact.ttl is inf, but must be a number above 0"),
        ("[exact]\nenabled = 1", "must be true or false"),
        ("[semantic]\nmode = 'quick'", "'quick', but must be one of accurate, fast"),
        ("[controls]\nallow = ['x']", "a list, each one of max-age, namespace"),
        ("[server]\nhost = 1", "server.host is 1, but must be text"),
        ("server = 1", "server is a section: write [server] and keys below it"),
        ("[server.port]\nx = 1", "server.port is {'x': 1}, but must be a whole number"),
        ("upstream = 1", "upstreams are a list: write [[upstream]] above each"),
        ("[upstream]\nurl = 'x'", "upstreams are a list: write [[upstream]] above each"),
        ("upstream = ['http://a']", "upstream is a section"),
        ("[[upstream]]\nname = 'x'", "upstream 1 has no url"),
        ("[[upstream]]\nurl = 'ftp://x'", "upstream 1: the url must look like https://host/v1"),
        ("[[upstream]]\nurl = 'http://h:x/v1'", "upstream 1: the url must look like"),
        ("[[upstream]]\nurl = 'http://[::1/v1'", "upstream 1: the url must look like"),
        ("[[upstream]]\nurl = 'https://u:p@h/v1'", "put a credential into api_key"),
        ("[[server]]\nport = 1", "server is a section: write [server]"),
    ],
)
def test_wrong_settings_are_told_in_plain_words(toml: str, words: str) -> None:
    """A wrong setting raises with its origin, its place and what is allowed."""
    with pytest.raises(ConfigError) as refusal:
        read(toml)
    assert words in str(refusal.value)


def test_a_wrong_variable_is_named() -> None:
    """A variable with the prefix that sets nothing is an error that names it."""
    with pytest.raises(ConfigError, match="ASKONCE_SERVER__PROT: server has no key 'prot'"):
        read("", SERVER__PROT="1")
    with pytest.raises(ConfigError, match="ASKONCE_SERVER: server is a section"):
        read("", SERVER="1")


@pytest.mark.parametrize(
    "toml", ["[tenants]\nsecret = 12345678", "[[upstream]]\napi_key = 12345678"]
)
def test_secrets_are_not_printed(toml: str) -> None:
    """An error about a secret hides it."""
    with pytest.raises(ConfigError, match=r"\(hidden\)") as refusal:
        read(toml)
    assert "12345678" not in str(refusal.value)


def test_a_url_with_a_password_is_not_printed() -> None:
    """The error about a credential in a URL does not repeat it."""
    with pytest.raises(ConfigError) as refusal:
        read('[[upstream]]\nurl = "https://user:hunter2@h/v1"')
    assert "hunter2" not in str(refusal.value)


def test_a_number_without_limits_is_described() -> None:
    """A number that may be anything is described without limits."""
    assert describe(inspect.type_info(float)) == "a number"


def test_an_upstream_has_prices() -> None:
    """Tables by pattern, in the order of the file; a price that is none is refused."""
    prices = {"gpt-4o*": {"prompt": 2.5, "completion": 10}, "*": {"prompt": 1.0}}
    made = build(from_table({"upstream": [{"url": "http://a/v1", "prices": prices}]}, "file"))
    known = made.upstream[0].prices
    assert list(known) == ["gpt-4o*", "*"]
    assert (known["gpt-4o*"].completion, known["*"].completion) == (10.0, 0.0)
    bad = {"upstream": [{"url": "http://a/v1", "prices": {"*": {"prompt": -1}}}]}
    with pytest.raises(ConfigError, match="prices"):
        build(from_table(bad, "file"))
