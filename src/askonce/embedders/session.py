"""An ONNX Runtime session that turns token ids into one unit vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.errors import ConfigError, EmbedderError, MissingExtra

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from askonce.ports import Vector


class Session:
    """Mean pooling over all tokens of a model that gives one vector a token; blocking."""

    def __init__(self, model: Path, *, threads: int) -> None:
        """Load the model; raises ConfigError when it is not one of this kind."""
        try:
            import numpy as np
            import onnxruntime
        except ImportError as error:
            raise MissingExtra("onnxruntime", "semantic") from error
        self._np = np
        self._faults = runtime_errors()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(
                str(model), options, providers=["CPUExecutionProvider"]
            )
        except self._faults as error:
            raise ConfigError(f"{model} is not a usable ONNX model: {error}") from error
        self._inputs = _checked_inputs(model, [entry.name for entry in self._session.get_inputs()])
        self._output = self._session.get_outputs()[0].name

    def run(self, ids: list[int]) -> Vector:
        """Shape (dim,), float32, unit length; raises EmbedderError."""
        return self.pool(self.tokens(ids))

    def tokens(self, ids: list[int]) -> NDArray[np.float32]:
        """One vector a token, shape (tokens, dim); raises EmbedderError."""
        row = self._np.asarray([ids], dtype=self._np.int64)
        values = {
            "input_ids": row,
            "attention_mask": self._np.ones_like(row),
            "token_type_ids": self._np.zeros_like(row),
        }
        try:
            (tokens,) = self._session.run(
                [self._output], {name: values[name] for name in self._inputs}
            )
        except self._faults as error:
            raise EmbedderError(f"the model failed: {error}") from error
        if tokens.ndim != 3:
            raise EmbedderError(f"the model gives shape {tokens.shape}, not one vector a token")
        found: NDArray[np.float32] = tokens[0]
        return found

    def pool(self, tokens: NDArray[np.float32]) -> Vector:
        """Their mean, brought to unit length; raises EmbedderError."""
        mean = tokens.mean(axis=0, dtype=self._np.float64)
        length = float(self._np.linalg.norm(mean))
        if not 0.0 < length < float("inf"):
            raise EmbedderError("the model gave a vector without a direction")
        vector: Vector = (mean / length).astype(self._np.float32)
        return vector


def runtime_errors() -> tuple[type[Exception], ...]:
    """What ONNX Runtime raises: classes of its own without a common root."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    own = [kind for kind in vars(state).values() if isinstance(kind, type)]
    return (RuntimeError, ValueError, *(kind for kind in own if issubclass(kind, Exception)))


def _checked_inputs(model: Path, names: list[str]) -> frozenset[str]:
    inputs = frozenset(names)
    unknown = inputs - {"input_ids", "attention_mask", "token_type_ids"}
    if unknown or "input_ids" not in inputs:
        raise ConfigError(f"{model} is not a BERT model: its inputs are {sorted(inputs)}")
    return inputs
