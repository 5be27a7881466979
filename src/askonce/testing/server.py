"""An ASGI application on a real socket, inside the test's own event loop."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def serving(
    app: Any,  # noqa: ANN401 - ASGI has no one type
    *,
    http: type[asyncio.Protocol] | Literal["httptools"] = "httptools",
) -> AsyncIterator[int]:
    """Serve on a free loopback port, lifespan included; yields the port.

    http: the server's side of a connection, uvicorn's unless another is given.
    On leaving, whatever request is still at work is cancelled.
    """
    import uvicorn
    from uvicorn.lifespan.on import LifespanOn
    from uvicorn.server import ServerState

    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="on", http=http, ws="none"
    )
    config.load()
    state, lifespan = ServerState(), LifespanOn(config)
    await lifespan.startup()
    loop = asyncio.get_running_loop()
    protocol: Any = config.http_protocol_class

    server = await loop.create_server(
        lambda: protocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for connection in list(state.connections):
            connection.shutdown()
        for task in list(state.tasks):
            task.cancel()
        if state.tasks:
            await asyncio.wait(list(state.tasks))
        await lifespan.shutdown()
