"""A running gateway: opened with the server's start, closed with its end."""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from askonce.cache.upkeep import follow_epoch, tell_sizes
from askonce.clock import SystemClock
from askonce.flow import Lives
from askonce.gateway.app import Gateway
from askonce.gateway.chat import PATH as CHAT_PATH
from askonce.gateway.chat import ChatRoute, ChatSettings
from askonce.gateway.envelope import envelope_reader
from askonce.gateway.http import send_response
from askonce.gateway.passthrough import Passthrough
from askonce.gateway.routing import Upstreams
from askonce.gateway.tenants import partitioner
from askonce.settings.files import server_secret
from askonce.settings.load import take_over
from askonce.units import Seconds
from askonce.wiring import build_cache, open_parts

if TYPE_CHECKING:
    from askonce.config import Config
    from askonce.gateway.http import Handler, Receive, Scope, Send
    from askonce.ports import SupportsEpoch
    from askonce.wiring import Parts

GRACE = 10.0
"""Seconds that answers under way have to end and be stored when the server stops."""
