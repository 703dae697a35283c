"""The LiteLLM SDK: whole and streamed. Prints what it saw as JSON."""

import json
import os
import sys

import litellm

litellm.telemetry = False
where = {
    "model": "openai/arco",
    "api_base": os.environ["BASE_URL"],
    "api_key": os.environ["TOKEN"],
    "num_retries": 0,
}
messages = [{"role": "user", "content": "My order is AB-1234."}]
first = litellm.completion(messages=messages, **where)
messages += [
    {"role": "assistant", "content": first.choices[0].message.content},
    {"role": "user", "content": "Which order?"},
]
chunks = litellm.completion(messages=messages, stream=True, **where)
streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
seen = {
    "first": first.choices[0].message.content,
    "tokens": first.usage.total_tokens > 0,
    "streamed": streamed,
}
sys.stdout.write(json.dumps(seen))
