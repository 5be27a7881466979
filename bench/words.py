"""An engine that says the same words to everybody, one at a time, and counts its calls.

`python -m bench.words PORT`; `GET /calls` gives the count.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from itertools import count

from aiohttp import web

WORDS = [f"word{number} " for number in range(25)]
PAUSE = 0.03
TEXT = "".join(WORDS)


def application() -> web.Application:
    """The engine."""
    calls = count(1)
    made = [0]

    async def chat(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        made[0] = number = next(calls)
        frame = {"id": f"chatcmpl-{number}", "created": number, "model": "words"}
        if not asked.get("stream"):
            await asyncio.sleep(PAUSE * len(WORDS))
            message = {"role": "assistant", "content": TEXT}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return web.json_response({**frame, "object": "chat.completion", "choices": [choice]})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        with contextlib.suppress(ConnectionError):
            await stream(request, response, frame)
        return response

    async def stream(
        request: web.Request, response: web.StreamResponse, frame: dict[str, object]
    ) -> None:
        await response.prepare(request)
        for word in [*WORDS, ""]:
            await asyncio.sleep(PAUSE)
            choice = {
                "index": 0,
                "delta": {"content": word} if word else {},
                "finish_reason": None if word else "stop",
            }
            event = {**frame, "object": "chat.completion.chunk", "choices": [choice]}
            await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")

    async def told(_: web.Request) -> web.Response:
        return web.Response(text=str(made[0]))

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/calls", told)
    return app


if __name__ == "__main__":
    web.run_app(application(), host="127.0.0.1", port=int(sys.argv[1]), print=None)
