"""Embeddings of any OpenAI-compatible API: vLLM, Text Embeddings Inference, providers.

Texts that come while calls are under way share the next call.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
import msgspec

from askonce.errors import ConfigError, EmbedderBusy, EmbedderError, MissingExtra, TextTooLong
from askonce.events import Embedded
from askonce.units import Seconds

if TYPE_CHECKING:
    from askonce.ports import Clock, Sink, Vector

CALLS = 4
"""Calls under way at most."""
TOGETHER = 32
"""Texts of one call at most."""
PATIENCE = Seconds(2.0)
"""For one text, retries included; callers have shorter deadlines and may leave before."""
PAUSES = (0.05, 0.2)
"""Seconds before a call is made again, each time."""
STALE = Seconds(5.0)
"""Age at which a measured time says nothing more: a slow minute must not be remembered for good."""

_WEIGHT = 0.2
_PASSING = frozenset({429, 500, 502, 503, 504})
_TOO_LONG = frozenset({400, 413, 422, 500})
"""What APIs answer to a text past their window, llama.cpp's the last."""
_PROBE = "How long does a warm-up of ten words take?"
_MOST_PER_TOKEN = 16
"""Bytes: a text of more than so many for each token of the window is not even sent."""


class Api(msgspec.Struct, frozen=True):
    """Where and how to ask."""

    url: str
    """Base URL up to and including `/v1`."""
    model: str
    key: str = ""
    """Bearer token."""
    window: int = 512
    """Tokens that the model reads at most."""
    queue: int = 8
    """Texts that may wait while all calls are under way."""
    dim: int = 0
    """Of the vectors; 0 asks the API once, when it is opened."""


class _Embedding(msgspec.Struct):
    embedding: list[float]
    index: int = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0


class _Answer(msgspec.Struct):
    data: list[_Embedding]
    usage: _Usage | None = None


_decode = msgspec.json.Decoder(_Answer).decode


class _Text(NamedTuple):
    text: str
    found: asyncio.Future[Vector]


class _Refused(Exception):
    """The API answered with an error status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class HttpEmbedder:
    """An Embedder; make it with `open`."""

    def __init__(self, api: Api, dim: int, *, clock: Clock, sink: Sink) -> None:
        """dim: of its vectors, more than 0."""
        try:
            import numpy as np
        except ImportError as error:
            raise MissingExtra("numpy", "semantic") from error
        self._np = np
        self._api = api
        self._clock = clock
        self._sink = sink
        self._target = f"{api.url.rstrip('/')}/embeddings"
        self._headers = {"content-type": "application/json", **_bearer(api.key)}
        self._session: aiohttp.ClientSession | None = None
        self._waiting: deque[_Text] = deque()
        self._calls: set[asyncio.Task[None]] = set()
        self._took = 0.0
        self._took_at = -math.inf
        self._closed = False
        self._shed = self._asked = self._embedded = 0
        self.dim = dim
        named = f"askonce-api/1\n{self._target}\n{api.model}\n{dim}"
        self.id = f"api-{hashlib.sha256(named.encode()).hexdigest()[:16]}"

    @classmethod
    async def open(cls, api: Api, *, clock: Clock, sink: Sink) -> HttpEmbedder:
        """Ask for the dimension where it is not given; raises ConfigError, EmbedderError."""
        if not api.url.startswith(("http://", "https://")) or not api.model:
            raise ConfigError("an embedding API needs its URL, with http or https, and a model")
        if api.dim:
            return cls(api, api.dim, clock=clock, sink=sink)
        probe = cls(api, 0, clock=clock, sink=sink)
        try:
            dim = len(await probe.embed(_PROBE))
        finally:
            await probe.close()
        return cls(api, dim, clock=clock, sink=sink)

    def expected_time(self, text: str) -> Seconds:  # noqa: ARG002 - the way there takes the time
        """See `Embedder`; by the recent calls and the texts that wait."""
        if self._clock.monotonic() - self._took_at > STALE:
            return Seconds(0.0)
        turns = 1 + len(self._waiting) // TOGETHER + (len(self._calls) >= CALLS)
        return Seconds(turns * self._took)

    async def embed(self, text: str) -> Vector:
        """Embed one text; raises TextTooLong, EmbedderBusy, EmbedderError."""
        if self._closed:
            raise EmbedderError("the embedder is closed")
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > _MOST_PER_TOKEN * self._api.window:
            raise TextTooLong(f"{size} bytes, the window holds {self._api.window} tokens")
        if len(self._waiting) >= self._api.queue and len(self._calls) >= CALLS:
            self._shed += 1
            raise EmbedderBusy(f"{len(self._waiting)} texts wait")
        one = _Text(text, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        self._begin()
        return await one.found

    def statistics(self) -> dict[str, float]:
        """Figures since the start, and the state of the queue."""
        return {
            "embedded": self._embedded,
            "calls": self._asked,
            "shed": self._shed,
            "waiting": len(self._waiting),
            "seconds_per_call": self._took,
        }

    async def close(self) -> None:
        """See `Embedder`; calls under way are given up."""
        self._closed = True
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        _fail(self._waiting, EmbedderError("the embedder is closed"))
        if self._session is not None:
            await self._session.close()

    def _begin(self) -> None:
        """Call for texts that wait, as far as calls may be made."""
        while self._waiting and len(self._calls) < CALLS and not self._closed:
            texts = self._next()
            if texts:
                call = asyncio.get_running_loop().create_task(self._call(texts))
                self._calls.add(call)
                call.add_done_callback(self._ended)

    def _ended(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        self._begin()

    def _next(self) -> list[_Text]:
        """Texts for one call; one that might not fit into the window goes alone."""
        texts: list[_Text] = []
        while self._waiting and len(texts) < TOGETHER:
            if texts and self._may_be_long(self._waiting[0].text):
                break
            one = self._waiting.popleft()
            if not one.found.done():
                texts.append(one)
                if self._may_be_long(one.text):
                    break
        return texts

    def _may_be_long(self, text: str) -> bool:
        """No tokenizer makes more tokens than there are bytes, but for marks at both ends."""
        return len(text) + 2 > self._api.window or (
            not text.isascii() and len(text.encode("utf-8", "surrogatepass")) + 2 > self._api.window
        )

    async def _call(self, texts: list[_Text]) -> None:
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                vectors = await self._answered(texts)
        except EmbedderError as error:
            _fail(texts, error)
        except TimeoutError:
            _fail(texts, EmbedderError("the embedding API did not answer in time"))
        else:
            self._note(self._clock.monotonic() - began, len(texts))
            for one, vector in zip(texts, vectors, strict=True):
                if not one.found.done():
                    one.found.set_result(vector)
        finally:
            _fail(texts, EmbedderError("the embedder is closed"))

    def _note(self, took: float, texts: int) -> None:
        weight = _WEIGHT if self._took else 1.0
        self._took += weight * (took - self._took)
        self._took_at = self._clock.monotonic()
        self._embedded += texts
        for _ in range(texts):
            self._sink.emit(Embedded(took=Seconds(took)))

    async def _answered(self, texts: list[_Text]) -> list[Vector]:
        """Vectors in order; asks again while the caller's patience lasts and the fault may pass."""
        body = msgspec.json.encode(
            {
                "model": self._api.model,
                "input": [_sound(one.text) for one in texts],
                "encoding_format": "float",
            }
        )
        for pause in (*PAUSES, None):
            try:
                return self._vectors(await self._post(body, len(texts)), texts)
            except _Refused as refused:
                refusal = self._refusal(refused.status, texts)
                may_pass = refused.status in _PASSING and not isinstance(refusal, TextTooLong)
                if pause is None or not may_pass:
                    raise refusal from None
            except aiohttp.ClientError as error:
                if pause is None:
                    told = type(error).__name__
                    raise EmbedderError(f"the embedding API failed: {told}") from error
            await asyncio.sleep(pause)
        raise AssertionError  # the last try returns or raises

    def _refusal(self, status: int, texts: list[_Text]) -> EmbedderError:
        if status in _TOO_LONG and len(texts) == 1 and self._may_be_long(texts[0].text):
            return TextTooLong(f"the embedding API refused a long text with status {status}")
        return EmbedderError(f"the embedding API answered with status {status}")

    async def _post(self, body: bytes, texts: int) -> bytes:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=CALLS, keepalive_timeout=30.0)
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar()
            )
        self._asked += 1
        limit = 64 * 1024 + texts * 32 * (self.dim or 16384)
        async with self._session.post(
            self._target, data=body, headers=self._headers, allow_redirects=False
        ) as response:
            if response.status != 200:
                raise _Refused(response.status)
            answer = await response.content.read(limit)
            while not response.content.at_eof():
                if len(answer) >= limit:
                    raise EmbedderError("the embedding API answered more than was asked for")
                answer += await response.content.read(limit)
            return answer

    def _vectors(self, answer: bytes, texts: list[_Text]) -> list[Vector]:
        try:
            told = _decode(answer)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise EmbedderError("the embedding API's answer is not of its kind") from None
        by_place = {each.index: each.embedding for each in told.data}
        if by_place.keys() != set(range(len(texts))) or len(told.data) != len(texts):
            raise EmbedderError("the embedding API left texts out")
        if len(texts) == 1 and self._may_be_long(texts[0].text):
            self._check_whole(told.usage)
        return [self._unit(by_place[place]) for place in range(len(texts))]

    def _check_whole(self, usage: _Usage | None) -> None:
        """A text that was cut looks like another that was cut at the same place."""
        read = usage.prompt_tokens if usage is not None else 0
        if not 0 < read < self._api.window:
            raise TextTooLong("the embedding API may have cut the text")

    def _unit(self, values: list[float]) -> Vector:
        vector = self._np.asarray(values, dtype=self._np.float64)
        if self.dim and len(vector) != self.dim:
            raise EmbedderError(f"a vector of {len(vector)} dimensions, not {self.dim}")
        with self._np.errstate(over="ignore"):
            length = float(self._np.linalg.norm(vector))
        if not 0.0 < length < math.inf:
            raise EmbedderError("a vector without a direction")
        unit: Vector = (vector / length).astype(self._np.float32)
        return unit


def _fail(texts: list[_Text] | deque[_Text], error: EmbedderError) -> None:
    for one in texts:
        if not one.found.done():
            one.found.set_exception(error)
            one.found.exception()  # who waited may have left
    texts.clear()


def _sound(text: str) -> str:
    """Lone surrogates, which have no form in UTF-8, spelled out; APIs refuse nothing at all."""
    return text.encode("utf-8", "backslashreplace").decode() or " "


def _bearer(key: str) -> dict[str, str]:
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("semantic.api_key has characters that no header can carry")
    return {"authorization": f"Bearer {key}"} if key else {}
