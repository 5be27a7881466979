"""A verifier's look as bytes, so that it can be learned from again after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from askonce.trust.verifier import Look

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    keys: list[bytes]
    rows: bytes
    products: bytes
    touched: list[bytes]
    offsets: bytes
    answers: bytes
    places: bytes
    logits: bytes
    static: int


class Seen(NamedTuple):
    """A look, and the entries it was about."""

    look: Look
    keys: tuple[bytes, ...]
    """In the order of the look's neighbours."""
    static: int = -1
    """Place of the neighbour that the static rule chose; -1 without one."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Packed).decode


def pack(seen: Seen) -> bytes:
    """About 1 KiB a neighbour."""
    look = seen.look
    return _encode(
        _Packed(
            keys=list(seen.keys),
            rows=_bytes(look.rows, np.float32),
            products=_bytes(look.products, np.float16),
            touched=[_bytes(each, np.int32) for each in look.touched],
            offsets=_bytes(look.offsets, np.float32),
            answers=_bytes(look.answers, np.float32),
            places=_bytes(look.places, np.int32),
            logits=_bytes(look.logits, np.float32),
            static=seen.static,
        )
    )


def unpack(packed: bytes) -> Seen:
    """What `pack` packed; raises ValueError for anything else."""
    found = _decode(packed)
    many, answers = len(found.keys), len(found.logits) // 4
    look = Look(
        rows=_array(found.rows, np.float32, many),
        products=_array(found.products, np.float16, many),
        touched=tuple(np.frombuffer(each, dtype="<i4") for each in found.touched),
        offsets=np.frombuffer(found.offsets, dtype="<f4"),
        answers=_array(found.answers, np.float32, answers),
        places=np.frombuffer(found.places, dtype="<i4").astype(np.intp),
        logits=np.frombuffer(found.logits, dtype="<f4"),
    )
    if len(look.touched) != many or len(look.offsets) != many or len(look.places) != answers:
        raise ValueError("not a look")
    return Seen(look, tuple(found.keys), found.static)


def _bytes(values: NDArray[Any], kind: DTypeLike) -> bytes:
    return np.asarray(values).astype(np.dtype(kind).newbyteorder("<")).tobytes()


def _array(packed: bytes, kind: DTypeLike, rows: int) -> NDArray[Any]:
    flat = np.frombuffer(packed, dtype=np.dtype(kind).newbyteorder("<"))
    if not rows or len(flat) % rows:
        raise ValueError("not a look")
    return flat.reshape(rows, -1)
