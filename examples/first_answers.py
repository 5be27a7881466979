"""Ask, and see in each answer's header who gave it: the engine, the exact or the semantic tier."""

import os

from openai import OpenAI

client = OpenAI(base_url=os.environ.get("ASKONCE_URL", "http://127.0.0.1:8400/v1"), api_key="any")


def ask(question: str, *, stream: bool = False) -> None:
    reply = client.chat.completions.with_raw_response.create(
        model="smollm2-135m-instruct",
        messages=[{"role": "user", "content": question}],
        temperature=0,
        stream=stream,
    )
    print(f"{reply.headers['cache-status']:45} {question}")


ask("What is the capital of France?")  # computed
ask("What is the capital of France?")  # exact hit
ask("What is the capital of France?", stream=True)  # exact hit, as a stream
ask("What is France's capital?")  # semantic hit
ask("What is Spain's capital?")  # a look-alike: computed
ask("What is not the capital of France?")  # another look-alike: computed
