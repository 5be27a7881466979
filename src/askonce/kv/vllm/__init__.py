"""vLLM's two doors to the pool: a tier under its offloading, and a connector of its own.

    {"type": "AskOnceTier", "module_path": "askonce.kv.vllm", "url": "redis://…"}
    {"kv_connector": "AskOnceConnector", "kv_connector_module_path": "askonce.kv.vllm", …}

Nothing of vLLM is imported before one of them is asked for.
"""

from __future__ import annotations

from importlib import import_module

_PLACES = {"AskOnceConnector": "connector", "AskOnceTier": "tier"}


def __getattr__(name: str) -> object:
    """The class that vLLM asks for by name."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{place}"), name)
