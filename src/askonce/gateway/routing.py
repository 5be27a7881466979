"""Which upstream serves which model."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from askonce.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Upstream

_REMEMBERED = 1024
"""Bound of remembered model names; callers choose them."""
_LONGEST_NAME = 256


class Upstreams:
    """All upstreams, each with shell patterns of model names; the first that matches serves."""

    def __init__(self, routes: Sequence[tuple[Sequence[str], Upstream]]) -> None:
        if not routes:
            raise ConfigError("no upstream is configured")
        self._routes = [(tuple(patterns), upstream) for patterns, upstream in routes]
        self._chosen: dict[str, Upstream] = {}

    @property
    def all(self) -> list[Upstream]:
        """Every upstream, in the order of the configuration."""
        return [upstream for _, upstream in self._routes]

    @property
    def default(self) -> Upstream:
        """The first: it serves what names no model."""
        return self._routes[0][1]

    def for_model(self, model: str) -> Upstream:
        """The upstream of a model; raises RequestError (404) when no pattern matches."""
        chosen = self._chosen.get(model)
        if chosen is None:
            chosen = self._match(model)
            self._remember(model, chosen)
        return chosen

    async def close(self) -> None:
        """Close every upstream."""
        for upstream in self.all:
            await upstream.close()

    def _remember(self, model: str, chosen: Upstream) -> None:
        if len(self._chosen) >= _REMEMBERED:
            self._chosen.clear()
        if len(model) <= _LONGEST_NAME:
            self._chosen[model] = chosen

    def _match(self, model: str) -> Upstream:
        for patterns, upstream in self._routes:
            if any(fnmatchcase(model, pattern) for pattern in patterns):
                return upstream
        raise RequestError(
            f"the model `{model}` is served by no upstream",
            status=404,
            code="model_not_found",
            param="model",
        )
