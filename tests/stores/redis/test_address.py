"""What URLs of Redis and Valkey mean."""

from __future__ import annotations

import ssl

import pytest

from askonce.errors import ConfigError
from askonce.stores.redis.address import Login, Target, Tls, read_url


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("redis://", None),
        ("redis://cache", Target(kind="single", addresses=(("cache", 6379),))),
        ("valkey://cache:7/2", Target(kind="single", addresses=(("cache", 7),), db=2)),
        (
            "redis://me:p%40s%3As@[::1]:7?namespace=a.b:c-1",
            Target(
                kind="single",
                addresses=(("::1", 7),),
                login=Login("me", "p@s:s"),
                namespace="a.b:c-1",
            ),
        ),
        (
            "rediss://:pw@h/1?ca=/ca&cert=/c&key=/k&verify=chain",
            Target(
                kind="single",
                addresses=(("h", 6379),),
                login=Login("", "pw"),
                db=1,
                tls=Tls("/ca", "/c", "/k", "chain"),
            ),
        ),
        (
            "redis+unix://:pw@/run/my%20redis.sock?db=4",
            Target(
                kind="single",
                addresses=(("/run/my redis.sock", 0),),
                login=Login("", "pw"),
                db=4,
            ),
        ),
        (
            "redis+sentinel://u:p@a,b:2/main/3?sentinel_username=s&sentinel_password=t",
            Target(
                kind="sentinel",
                addresses=(("a", 26379), ("b", 2)),
                service="main",
                login=Login("u", "p"),
                sentinel_login=Login("s", "t"),
                db=3,
            ),
        ),
        (
            "valkey+cluster://a:1,b?tls=true",
            Target(kind="cluster", addresses=(("a", 1), ("b", 6379)), tls=Tls()),
        ),
    ],
)
def test_urls_mean(url: str, target: Target | None) -> None:
    """Every part of a URL has its place; a host is needed."""
    if target is None:
        with pytest.raises(ConfigError, match="no host"):
            read_url(url)
    else:
        assert read_url(url) == target


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://:s3cret@h/x", "no number"),
        ("redis://:s3cret@h:99999", "no port"),
        ("redis://:s3cret@h?nope=1", "no option 'nope'; known are ca, cert, db"),
        ("redis://:s3cret@h?namespace=a{b}", "no namespace"),
        ("redis://:s3cret@h?ca=/x", "not encrypted"),
        ("redis://:s3cret@h?tls=maybe", "true or false"),
        ("rediss://:s3cret@h?verify=some", "full, chain or none"),
        ("redis+unix://:s3cret@host/path", "absolute"),
        ("redis+sentinel://:s3cret@h", "service is missing"),
        ("redis+cluster://:s3cret@h/1", "database 0"),
        ("redis://:s3cret@a,b c:x", "no host"),
    ],
)
def test_mistakes_are_told_without_the_password(url: str, says: str) -> None:
    """The message helps and can stand in a log."""
    with pytest.raises(ConfigError, match=says) as told:
        read_url(url)
    assert "s3cret" not in str(told.value)


def test_a_login_does_not_show_its_password() -> None:
    """Not even by accident."""
    assert "pw" not in repr(read_url("redis://me:pw@h"))


def test_tls_checks_what_it_was_told_to() -> None:
    """Host and chain unless less is asked for; missing files are a mistake."""
    full, chain, none = (Tls(verify=how).context() for how in ("full", "chain", "none"))
    assert (full.check_hostname, full.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert (chain.check_hostname, chain.verify_mode) == (False, ssl.CERT_REQUIRED)
    assert (none.check_hostname, none.verify_mode) == (False, ssl.CERT_NONE)
    with pytest.raises(ConfigError, match="TLS files"):
        Tls(ca="/nowhere/ca.pem").context()
