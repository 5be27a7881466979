"""Engine calls that nobody waits for: what the engine says now to a request the cache answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.cache.pieces import Cutter
from askonce.canonical.answer import facts, read_completion
from askonce.errors import AnswerUnusable, RequestError, UpstreamError
from askonce.trust.account.purse import Bill, tokens_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from askonce.cache.ask import Ask
    from askonce.canonical.answer import Answer
    from askonce.ports import UpstreamResponse
    from askonce.trust.account.purse import Purse


async def ask_again(ask: Ask, limit: int, purse: Purse) -> Answer | None:
    """What the engine says now, paid for however the call ends; see `fresh_answer`."""
    fresh = None
    try:
        fresh = await fresh_answer(ask.send, limit)
    finally:
        purse.pay("audit", bill_of(ask, fresh))
    return fresh


async def fresh_answer(
    send: Callable[[], Awaitable[UpstreamResponse]], limit: int
) -> Answer | None:
    """Ask the engine; None when it fails or its answer is longer than limit or none to keep."""
    try:
        response = await send()
        try:
            return await _read(response, limit) if response.status == 200 else None
        finally:
            await response.close()
    except (UpstreamError, RequestError, AnswerUnusable):
        return None


async def _read(response: UpstreamResponse, limit: int) -> Answer:
    cutter = Cutter(limit)
    streamed = dict(response.headers).get(b"content-type", b"").startswith(b"text/event-stream")
    body = b""
    size = 0
    async for chunk in response.chunks():
        size += len(chunk)
        if size > limit:
            raise AnswerUnusable("oversize")
        if streamed:
            cutter.cut(chunk)
        else:
            body += chunk
    if streamed:
        cutter.rest()
        return cutter.answer()
    return read_completion(body)


def text_of(answer: Answer) -> str | None:
    """What a judge compares: the text of the only choice, where there is nothing else to it."""
    found = facts(answer)
    if found.has_tool_calls or len(found.texts) != 1 or found.finish_reasons[0] != "stop":
        return None
    return found.texts[0]


def bill_of(ask: Ask, fresh: Answer | None) -> Bill:
    """What an audit has used: by the engine's word, else by size; of a failed one the question."""
    prompt = completion = 0
    if fresh is not None:
        prompt, completion = fresh.prompt_tokens, fresh.completion_tokens
        completion = completion or tokens_of(len(fresh.rest))
    prompt = prompt or tokens_of(len(ask.call.canonical))
    return Bill(ask.scope.upstream, ask.call.model, prompt, completion)
