"""`python embedding_api.py PORT`: an API of embeddings by letters."""

from __future__ import annotations

import sys

from aiohttp import web

from askonce.orphan import die_with_parent
from askonce.testing.embedders import HashingEmbedder


def application() -> web.Application:
    """The API."""
    embedder = HashingEmbedder(dim=256)

    async def embeddings(request: web.Request) -> web.Response:
        texts = (await request.json())["input"]
        vectors = [
            await embedder.embed(text) for text in ([texts] if isinstance(texts, str) else texts)
        ]
        data = [
            {"object": "embedding", "index": place, "embedding": vector.tolist()}
            for place, vector in enumerate(vectors)
        ]
        return web.json_response({"object": "list", "data": data, "model": "near"})

    async def ready(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/embeddings", embeddings)
    app.router.add_get("/ready", ready)
    return app


if __name__ == "__main__":
    die_with_parent()
    web.run_app(application(), host="127.0.0.1", port=int(sys.argv[1]), print=None)
