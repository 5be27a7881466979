"""Fixtures for all tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """All asynchronous tests run on asyncio."""
    return "asyncio"
