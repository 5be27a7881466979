"""Configuration to objects: the only package that knows core and adapters."""

from askonce.wiring.cache import Built, build_cache, watched_files
from askonce.wiring.learning import RULES_ERROR, namespaces
from askonce.wiring.parts import Parts, open_exact_store, open_log, open_parts, open_upstream

__all__ = [
    "RULES_ERROR",
    "Built",
    "Parts",
    "build_cache",
    "namespaces",
    "open_exact_store",
    "open_log",
    "open_parts",
    "open_upstream",
    "watched_files",
]
