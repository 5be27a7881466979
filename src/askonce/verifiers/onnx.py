"""Any cross-encoder by ONNX Runtime: both questions in one pass, one pair at a time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askonce.errors import ConfigError, MissingExtra, TextTooLong, VerifierBusy, VerifierError
from askonce.units import Seconds
from askonce.worker import Worker, WorkerBusy, WorkerClosed

if TYPE_CHECKING:
    from askonce.ports import Clock

MAX_TOKENS = 256
"""Of both questions together; a longer pair is not judged, since a cut one looks like another."""
QUEUE = 4
"""Pairs that may wait or be in work."""

_NICE = 10
_CHARACTERS_PER_TOKEN = 64
_WARM_UP = ("How long does a warm-up take?", "how long is a warm-up?")
_WEIGHT = 0.2
"""Of the newest time in the moving average."""
_MOST = 15.0
"""Log odds beyond which an opinion says no more."""
_INPUTS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}


class CrossEncoder:
    """Model and tokenizer together, blocking; the model gives one logit, or one for no and yes."""

    def __init__(self, model: Path, *, threads: int = 1) -> None:
        """Load both; raises ConfigError, MissingExtra."""
        try:
            import numpy as np
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtra(error.name or "onnxruntime", "semantic") from error
        self._np = np
        self._tokenizer = _tokenizer_beside(model, Tokenizer)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(
                str(model), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # the runtime's classes have no common root
            raise ConfigError(f"{model} is not a usable ONNX model: {error}") from error
        self._inputs = [entry.name for entry in self._session.get_inputs()]
        if unknown := set(self._inputs) - _INPUTS.keys():
            raise ConfigError(f"{model} is no cross-encoder: it asks for {sorted(unknown)}")
        try:
            self.score(*_WARM_UP)
        except VerifierError as error:
            raise ConfigError(f"{model} is no cross-encoder: {error}") from error

    def score(self, question: str, cached: str) -> float:
        """Log odds; raises TextTooLong, VerifierError."""
        if len(question) + len(cached) > MAX_TOKENS * _CHARACTERS_PER_TOKEN:
            raise TextTooLong(f"{len(question) + len(cached)} characters")
        try:
            pair = self._tokenizer.encode(question, cached)
        except TypeError as error:
            raise VerifierError("a text has a lone surrogate") from error
        if len(pair.ids) > MAX_TOKENS:
            raise TextTooLong(f"{len(pair.ids)} tokens, the window holds {MAX_TOKENS}")
        feeds = {
            name: self._np.asarray([getattr(pair, _INPUTS[name])], dtype=self._np.int64)
            for name in self._inputs
        }
        try:
            logits = self._session.run(None, feeds)[0].reshape(-1)
        except Exception as error:  # the runtime's classes have no common root
            raise VerifierError(f"the model failed: {type(error).__name__}") from error
        return _odds(logits.tolist())


def _tokenizer_beside(model: Path, kind: Any) -> Any:  # noqa: ANN401 - an extra's class
    path = model.parent / "tokenizer.json"
    try:
        tokenizer = kind.from_buffer(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except Exception as error:  # the library raises nothing narrower
        raise ConfigError(f"{path} is no tokenizer: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _odds(logits: list[float]) -> float:
    if not 1 <= len(logits) <= 2 or not all(map(math.isfinite, logits)):
        raise VerifierError(f"it gives {len(logits)} numbers, not one logit or two that are finite")
    odds = logits[0] if len(logits) == 1 else logits[1] - logits[0]
    return min(_MOST, max(-_MOST, odds))


class OnnxVerifier:
    """A `Verifier`; make it with `open`."""

    def __init__(self, encoder: CrossEncoder, worker: Worker, *, clock: Clock) -> None:
        """Take a loaded encoder and the thread it runs in."""
        self._encoder = encoder
        self._worker = worker
        self._clock = clock
        self._took = 0.0

    @classmethod
    async def open(cls, model: str, *, clock: Clock, queue: int = QUEUE) -> OnnxVerifier:
        """Load the model off the event loop; raises ConfigError, MissingExtra."""
        worker = Worker("askonce-verifier", limit=queue, nice=_NICE)
        try:
            path = Path(model)
            encoder = await worker.run(lambda: CrossEncoder(path.expanduser()))
            verifier = cls(encoder, worker, clock=clock)
            _, verifier._took = await worker.run(lambda: verifier._timed(*_WARM_UP))
        except BaseException:
            await worker.close()
            raise
        return verifier

    def expected_time(self, question: str, cached: str) -> Seconds:  # noqa: ARG002
        """See `Verifier`; by the recent mean, whatever the pair's length."""
        return Seconds((self._worker.waiting + 1) * self._took)

    async def verify(self, question: str, cached: str) -> float:
        """See `Verifier`."""
        try:
            odds, took = await self._worker.run(lambda: self._timed(question, cached))
        except WorkerBusy:
            raise VerifierBusy("too many pairs wait") from None
        except WorkerClosed:
            raise VerifierError("the verifier is closed") from None
        self._took += _WEIGHT * (took - self._took)
        return odds

    async def close(self) -> None:
        """See `Verifier`."""
        await self._worker.close()

    def _timed(self, question: str, cached: str) -> tuple[float, float]:
        start = self._clock.monotonic()
        return self._encoder.score(question, cached), self._clock.monotonic() - start
