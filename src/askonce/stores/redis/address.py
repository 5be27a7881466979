"""What a URL of Redis or Valkey says."""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from askonce.errors import ConfigError

if TYPE_CHECKING:
    from urllib.parse import SplitResult

Kind = Literal["single", "sentinel", "cluster"]
Address = tuple[str, int]
"""Host and port, or the path of a socket file and 0."""

NAMESPACE = "askonce"
_DEFAULT_PORT = {"single": 6379, "sentinel": 26379, "cluster": 6379}
_KNOWN = {
    *("namespace", "db", "tls", "ca", "cert", "key", "verify"),
    *("sentinel_username", "sentinel_password"),
}


class Login(msgspec.Struct, frozen=True):
    """Who connects; an empty password asks for no authentication."""

    username: str = ""
    password: str = ""

    def __repr__(self) -> str:
        """Without the password: this may stand in a log."""
        return f"Login({self.username!r})"


class Tls(msgspec.Struct, frozen=True):
    """Files of PEM and how much is checked."""

    ca: str = ""
    cert: str = ""
    key: str = ""
    verify: Literal["full", "chain", "none"] = "full"
    """`chain` leaves the host's name unchecked."""

    def context(self) -> ssl.SSLContext:
        """Read the files; raises ConfigError."""
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
            if self.cert:
                context.load_cert_chain(self.cert, self.key or None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"the TLS files of the store cannot be used: {error}") from None
        context.check_hostname = self.verify == "full"
        if self.verify == "none":
            context.verify_mode = ssl.CERT_NONE
        return context


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where the store is and how to enter it."""

    kind: Kind
    addresses: tuple[Address, ...]
    """The server; or Sentinels; or some nodes of the cluster."""
    service: str = ""
    """What Sentinels call the primary."""
    login: Login = Login()
    sentinel_login: Login = Login()
    db: int = 0
    namespace: str = NAMESPACE
    tls: Tls | None = None


def read_url(url: str) -> Target:
    """Read a URL; raises ConfigError, which never quotes it: it may hold a password."""
    try:
        return _read(urlsplit(url))
    except ValueError as error:
        raise ConfigError(f"the URL of the store cannot be used: {error}") from None


def _read(parts: SplitResult) -> Target:
    base, _, form = parts.scheme.partition("+")
    kind: Kind = "sentinel" if form == "sentinel" else "cluster" if form == "cluster" else "single"
    query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    if unknown := sorted(set(query) - _KNOWN):
        raise ValueError(
            f"there is no option {unknown[0]!r}; known are {', '.join(sorted(_KNOWN))}"
        )
    userinfo, _, hosts = parts.netloc.rpartition("@")
    username, _, password = userinfo.partition(":")
    path = unquote(parts.path)
    if form == "unix":
        addresses, rest = _socket_file(hosts, path), ""
    else:
        addresses = tuple(_host(each, kind) for each in hosts.split(","))
        rest = path.strip("/")
    return Target(
        kind=kind,
        addresses=addresses,
        service=_service(kind, rest),
        login=Login(unquote(username), unquote(password)),
        sentinel_login=Login(
            query.get("sentinel_username", ""), query.get("sentinel_password", "")
        ),
        db=_db(kind, rest, query.get("db", "")),
        namespace=_namespace(query.get("namespace", NAMESPACE)),
        tls=_tls(query, on=base in {"rediss", "valkeys"}),
    )


def _socket_file(hosts: str, path: str) -> tuple[Address, ...]:
    if hosts or not path.startswith("/"):
        raise ValueError("write redis+unix:///absolute/path/of/the.sock")
    return ((path, 0),)


def _host(text: str, kind: Kind) -> Address:
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.%]+)\]|([^:\[\]]+))(?::(\d{1,5}))?", text)
    if found is None:
        raise ValueError(f"{text!r} is no host, or host:port")
    port = int(found[3] or _DEFAULT_PORT[kind])
    if not 0 < port < 65536:
        raise ValueError(f"{port} is no port")
    return (found[1] or found[2]), port


def _service(kind: Kind, rest: str) -> str:
    if kind != "sentinel":
        return ""
    service = rest.partition("/")[0]
    if not service:
        raise ValueError("write redis+sentinel://host,host/service: the service is missing")
    return service


def _db(kind: Kind, rest: str, asked: str) -> int:
    text = asked or (rest.partition("/")[2] if kind == "sentinel" else rest) or "0"
    if not text.isdecimal():
        raise ValueError(f"{text!r} is no number of a database")
    if kind == "cluster" and int(text):
        raise ValueError("a cluster has database 0 alone")
    return int(text)


def _namespace(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.:-]{1,64}", text):
        raise ValueError(f"{text!r} is no namespace: letters, digits and _ . : - only")
    return text


def _tls(query: dict[str, str], *, on: bool) -> Tls | None:
    wanted = query.get("tls", "true" if on else "false")
    if wanted not in {"true", "false"}:
        raise ValueError("tls is true or false")
    files = {name: query[name] for name in ("ca", "cert", "key", "verify") if name in query}
    if wanted == "false":
        if files:
            raise ValueError(f"{min(files)} is given, but the connection is not encrypted")
        return None
    if files.get("verify", "full") not in {"full", "chain", "none"}:
        raise ValueError("verify is full, chain or none")
    return msgspec.convert(files, Tls)
