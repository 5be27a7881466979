"""Tiny cross-encoders, made here: what they say follows from the ids of the words alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ("[UNK]", "[CLS]", "[SEP]", "what", "is", "a", "cat", "dog", "please")


def write(folder: Path, *, logits: int = 1, name: str = "input_ids", nan: bool = False) -> Path:
    """A model whose logit is the sum of its ids, negated, and its tokenizer; returns its path."""
    folder.mkdir(exist_ok=True)
    vocabulary = {word: at for at, word in enumerate(WORDS)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    weight = np.full((1, logits), np.nan if nan else -0.125, dtype=np.float32)
    if logits == 2:
        weight[0, 1] = 0.125
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, [1, None])]
    nodes = [
        helper.make_node("Cast", [name], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["floats", "axes"], ["sum"], keepdims=1),
        helper.make_node("MatMul", ["sum", "weight"], ["logits"]),
    ]
    constants = [
        numpy_helper.from_array(np.array([1], dtype=np.int64), "axes"),
        numpy_helper.from_array(weight, "weight"),
    ]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, logits])
    graph = helper.make_graph(nodes, "crossing", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"
