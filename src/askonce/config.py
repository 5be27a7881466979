"""The configuration: one frozen tree; defaults < TOML file < environment < flags."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
Size = Annotated[int, Meta(ge=0)]
Unit = Annotated[float, Meta(ge=0, le=1)]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the configuration file."""


class ServerConfig(Section, frozen=True):
    """`[server]`: where AskOnce listens and what it accepts."""

    host: str = "127.0.0.1"
    """Address to listen at."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8400
    """Port to listen at; 0 takes a free one."""
    workers: Count = 1
    """Server processes, which share one store and one index."""
    max_body_bytes: Count = 32 * 1024 * 1024
    """A larger request body is answered with 413."""
    body_timeout: Positive = 60.0
    """Seconds between two pieces of a request body; a later one is answered with 408."""
    data_dir: str = ""
    """Where databases and the server secret live; empty means the platform's data directory."""
    access_log: bool = False
    """Log one line a request: who answered and how long it took, never its text."""


class PriceConfig(Section, frozen=True):
    """`[upstream.prices.PATTERN]`: USD a million tokens."""

    prompt: Annotated[float, Meta(ge=0)] = 0.0
    completion: Annotated[float, Meta(ge=0)] = 0.0


class UpstreamConfig(Section, frozen=True):
    """`[[upstream]]`: one engine or provider; the first that matches the model serves it."""

    url: str
    """Base URL up to and including `/v1`."""
    name: str = ""
    """Shown in errors, part of the key; empty means the URL's host, port and path."""
    models: tuple[str, ...] = ("*",)
    """Shell patterns of model names."""
    api_key: str = ""
    """Sent as the bearer token instead of any credential of callers; empty passes theirs on."""
    revision: str = ""
    """Label of the model revision behind it, part of the key; a new one makes old answers miss."""
    connect_timeout: Positive = 5.0
    """Seconds to connect."""
    first_byte_timeout: Positive = 600.0
    """Seconds from the request sent to status and headers."""
    idle_timeout: Positive = 120.0
    """Seconds between two pieces of a body."""
    max_connections: Count = 1000
    """Bound of connections, for each worker."""
    ttl: Annotated[float, Meta(ge=0)] = 0.0
    """Seconds an answer of it lives for the same request; 0 means `exact.ttl`."""
    ask_usage: bool = True
    """Ask for usage in streams (`stream_options.include_usage`), so that a hit can replay it."""
    prices: dict[str, PriceConfig] = {}
    """Tables `[upstream.prices.PATTERN]`: USD a million tokens, `prompt` and `completion`, of the
    models that the pattern names; the first that fits counts."""


class ExactConfig(Section, frozen=True):
    """`[exact]`: tier 2."""

    enabled: bool = True
    """Whether the same request is answered from the cache."""
    store: str = "sqlite"
    """`sqlite` (in data_dir), `sqlite:///path`, `memory`, or a URL of Redis or Memcached."""
    ttl: Positive = 3600.0
    """Seconds an answer lives, unless its caller asks otherwise."""
    ignored_headers: tuple[str, ...] = ()
    """Request headers that change no answer, beside those known; all others are part of the key."""
    deadline: Positive = 0.005
    """Seconds a lookup may take; past it the step is skipped."""
    flight_deadline: Positive = 0.050
    """Seconds to learn whether another replica asks the engine; past it this one does, too."""
    memory_bytes: Size = 64 * 1024 * 1024
    """Bound of the in-process LRU, for each worker."""
    disk_bytes: Size = 1024 * 1024 * 1024
    """Bound of the store's values."""
    max_entry_bytes: Count = 4 * 1024 * 1024
    """A larger answer is not stored."""
    tenant_bytes: Size = 0
    """Bound of one tenant's values in the store; past it the tenant's oldest leave. 0: none."""
    admit: Literal["first", "second"] = "first"
    """`second`: an answer is stored when its request comes again, so that one-time ones are not."""
    compress_over: Size = 16 * 1024
    """Bytes from which on a value is compressed in a store on other machines; 0 never does."""
    seal_keys: tuple[str, ...] = ()
    """Keys to encrypt values with, 64 hexadecimal digits each; the first seals, all open."""
    seal_key_file: str = ""
    """File with further such keys, one a line."""


class SemanticConfig(Section, frozen=True):
    """`[semantic]`: tier 3."""

    enabled: bool = True
    """Whether the same question in other words is answered from the cache."""
    ttl: Positive = 86400.0
    """Seconds an answer may be found by meaning."""
    deadline: Positive = 0.050
    """Seconds a lookup may take, embedding included; past it the step is skipped."""
    floor: Unit = 0.97
    """Least cosine similarity of an answer while there is no evidence yet, or no `[trust]`."""
    neighbours: Count = 8
    """How many of the nearest questions are looked at."""
    conversations: Literal["equal", "meaning"] = "equal"
    """`equal`: all earlier turns are the same; `meaning`: they are shown to matter alike."""
    max_temperature: Annotated[float, Meta(ge=0)] = 1.0
    """A request that asks for more is left to the engine: it wants variety."""
    embedder: str = "onnx"
    """`onnx`, `sentence-transformers`, or the URL up to `/v1` of an OpenAI-compatible API."""
    model: str = ""
    """Path of an ONNX file or folder, empty for an installed package; or an API's model."""
    prefix: str = ""
    """Put before every text, as E5 models want `query: `; a new one begins a new index."""
    api_key: str = ""
    """Bearer token for the API of `embedder`."""
    api_key_file: str = ""
    """File with that token."""
    window: Count = 512
    """Tokens that the API's model reads at most; longer texts are not answered by meaning."""
    dimension: Size = 0
    """Of the API's vectors; 0 asks it at the start."""
    memo_bytes: Size = 4 * 1024 * 1024
    """Bound of what is remembered of recent texts, for each worker."""
    hub: str = ""
    """`owner/name@revision` to download when there is no path and no package."""
    mode: Literal["accurate", "fast"] = "accurate"
    """`fast` uses a dynamic int8 file: half the time, cosines up to 0.02 off, its own index."""
    threads: Count = 1
    """Threads of the embedder, for each worker."""
    queue: Count = 8
    """Texts that may wait for the embedder; past it the tier is skipped."""
    index: str = "local"
    """`local` or `faiss` (in data_dir), or the URL of a vector index that replicas share."""
    max_entries: Count = 200_000
    """Bound of the vector index; the oldest leave first."""


Mode = Literal["off", "shadow", "on"]
Preset = Literal["support", "docs", "search"]


class NamespaceConfig(Section, frozen=True):
    """`[trust.namespaces.NAME]`: what one namespace does otherwise."""

    mode: Mode | None = None
    """As `trust.mode`."""
    preset: Preset | None = None
    """As `trust.preset`."""
    budget: Annotated[float, Meta(gt=0, le=0.5)] | None = None
    """As `trust.budget`."""


class TrustConfig(Section, frozen=True):
    """`[trust]`: how far answers by meaning may go, by evidence."""

    enabled: bool = False
    """Whether evidence decides; else `semantic.floor` and the guards alone. Unless it is set,
    naming a mode, preset, budget or namespace turns it on."""
    mode: Mode = "on"
    """`off`: no answers by meaning; `shadow`: find and judge them, serve none; `on`: serve them."""
    preset: Preset = "docs"
    """Share of answers by meaning that may be wrong: `support` 0.3 %, `docs` 1 %, `search` 3 %."""
    budget: Annotated[float, Meta(gt=0, le=0.5)] | None = None
    """The same share as a number, in place of the preset's."""
    audit: Unit = 0.05
    """Mean share of hits that the engine is asked about all the same, behind the answer."""
    audit_cost: Unit = 0.2
    """Most audits, as a share of the hits by meaning: each costs about what one hit saves."""
    cold_audit: Unit = 0.02
    """Most audits before evidence decides, as a share of all requests."""
    forced: Unit = 0.02
    """Share of would-be hits that the engine answers, so that no level goes unwatched."""
    audits_per_hour: Annotated[float, Meta(ge=0)] = 360.0
    """Most audits, for each worker; 0 means none."""
    audits_at_once: Count = 1
    """Audits under way at most, for each worker."""
    usd_per_hour: Annotated[float, Meta(ge=0)] = 0.0
    """Most USD that audits and the judge's model cost, for each worker; 0 sets no bound."""
    cross_encoder: str = ""
    """Path of an ONNX cross-encoder with its `tokenizer.json` beside it, asked in doubt."""
    judge_model: str = ""
    """Model that compares answers where the rules cannot; empty means rules alone."""
    judge_calls_per_minute: Positive = 30.0
    """Most calls of that model, for each worker."""
    evidence_bytes: Count = 256 * 1024 * 1024
    """Bound of the evidence log in data_dir; the oldest evidence leaves first."""
    namespaces: dict[str, NamespaceConfig] = {}
    """Tables `[trust.namespaces.NAME]`: own `mode`, `preset`, `budget`; `default` has no name."""


class AdminConfig(Section, frozen=True):
    """`[admin]`: the operators' API, at an address of its own."""

    host: str = "127.0.0.1"
    """Address to listen at."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """Port to listen at, other than the server's; 0 means there is no such API."""
    tokens: dict[str, str] = {}
    """Tokens by the name that the log shall show; none means one in data_dir, made once."""


class WatchedFile(Section, frozen=True):
    """`[invalidation.watch.NAME]`: when the file changes, what it names is taken back."""

    path: str
    """A file, as one that a deployment writes."""
    model: str | None = None
    """As in a rule; so are the others. None named takes back everything."""
    upstream: str | None = None
    """As in a rule."""
    revision: str | None = None
    """As in a rule."""
    namespace: str | None = None
    """As in a rule."""
    tag: str | None = None
    """As in a rule."""


class InvalidationConfig(Section, frozen=True):
    """`[invalidation]`: taking answers back, everywhere at once."""

    log: str = ""
    """Where it is kept what was taken back; empty means beside `exact.store`."""
    patience: Positive = 5.0
    """Seconds without sight of that log, after which nothing is served from the cache."""
    watch: dict[str, WatchedFile] = {}
    """Tables `[invalidation.watch.NAME]`: a `path`, and what its change takes back, as `model`."""


class TenantConfig(Section, frozen=True):
    """`[tenants]`: who shares answers with whom."""

    scope: Literal["credential", "shared"] = "credential"
    """`credential`: who shows the same credential; `shared`: all."""
    confirm: Literal["semantic", "all", "off"] = "semantic"
    """Shared answers wait until other callers were told the same: those by meaning, `all`, none."""
    confirmations: Annotated[int, Meta(ge=1, le=8)] = 1
    """How many other callers."""
    secret: str = ""
    """Keys the hash of credentials; empty means one generated once in data_dir."""


class ControlConfig(Section, frozen=True):
    """`[controls]`: which request controls callers may use."""

    allow: tuple[
        Literal[
            "no-cache",
            "no-store",
            "max-age",
            "only-if-cached",
            "ttl",
            "namespace",
            "tags",
            "semantic",
        ],
        ...,
    ] = (
        "no-cache",
        "no-store",
        "max-age",
        "only-if-cached",
        "ttl",
        "namespace",
        "tags",
        "semantic",
    )
    """What callers may use; another is ignored."""
    max_ttl: Positive = 7 * 86400.0
    """Longest life in seconds that a caller may ask for."""
    debug: bool = False
    """Also tell scores and keys in response headers."""


class BreakerConfig(Section, frozen=True):
    """`[breaker]`: when a failing part is left alone."""

    failures: Count = 5
    """Failures in a row that open it."""
    cooldown: Positive = 2.0
    """Seconds until one trial call is let through."""


class EngineConfig(Section, frozen=True):
    """`[engine]`: the embedded small model, used when no upstream is configured."""

    model: str = ""
    """Path of a GGUF file; empty means the installed package's."""
    threads: Count = 1
    """Threads of the model."""
    context: Count = 4096
    """Tokens of context, shared by the requests under way."""
    max_tokens: Count = 512
    """Most tokens of an answer whose request sets no limit: a small model may never stop."""


class RecordConfig(Section, frozen=True):
    """`[record]`: a log of requests and answers, for `evaluate --log` and `askonce tune`."""

    path: str = ""
    """File that takes calls, prompts and answers included; in data_dir if relative; empty: off."""
    max_bytes: Annotated[int, Meta(ge=65536)] = 1024 * 1024 * 1024
    """Bound of the file and the one before it (`.1`) together."""
    max_call_bytes: Count = 1024 * 1024
    """A call whose request or answer is longer is not recorded."""


class Config(Section, frozen=True):
    """The whole tree."""

    server: ServerConfig = ServerConfig()
    upstream: tuple[UpstreamConfig, ...] = ()
    exact: ExactConfig = ExactConfig()
    semantic: SemanticConfig = SemanticConfig()
    trust: TrustConfig = TrustConfig()
    invalidation: InvalidationConfig = InvalidationConfig()
    admin: AdminConfig = AdminConfig()
    tenants: TenantConfig = TenantConfig()
    controls: ControlConfig = ControlConfig()
    breaker: BreakerConfig = BreakerConfig()
    engine: EngineConfig = EngineConfig()
    record: RecordConfig = RecordConfig()
