"""A complete chat answer, in one form for streamed and whole delivery."""

from __future__ import annotations

import msgspec

from askonce.units import Tokens


class Answer(msgspec.Struct, frozen=True):
    """A chat completion without its id and time of creation."""

    rest: bytes
    """The JSON members after `id` and `created`, from the first `"` to the last `}`."""
    id_prefix: str
    """What the engine's ids begin with, such as `chatcmpl-`."""
    prompt_tokens: Tokens
    completion_tokens: Tokens


def read_completion(body: bytes) -> Answer:
    """The answer in a whole (not streamed) completion; raises AnswerUnusable with a reason."""
    raise NotImplementedError


class StreamReader:
    """Puts a streamed answer together again, event by event."""

    def feed(self, data: bytes) -> bool:
        """Take the data of one event; returns whether it carries nothing but usage."""
        raise NotImplementedError

    def finish(self) -> Answer:
        """The whole answer; raises AnswerUnusable unless `[DONE]` and every finish reason came."""
        raise NotImplementedError


def render_completion(answer: Answer, *, answer_id: str, created: int) -> bytes:
    """The JSON body of a whole delivery."""
    raise NotImplementedError


def render_stream(answer: Answer, *, answer_id: str, created: int, usage: bool) -> bytes:
    """All server-sent events of a streamed delivery, `[DONE]` included."""
    raise NotImplementedError
