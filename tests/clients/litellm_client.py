"""The LiteLLM SDK: a whole reply and a stream. Prints the results as JSON."""

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
offered = {
    "name": "look_up_order",
    "description": "The state of an order.",
    "parameters": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
}
tools = [{"type": "function", "function": offered}]
asked = [{"role": "user", "content": "Please use look_up_order."}]
message = litellm.completion(messages=asked, tools=tools, **where).choices[0].message
looked = [json.loads(call.function.arguments)["order"] for call in message.tool_calls]
asked.append(message)
asked += [
    {"role": "tool", "tool_call_id": call.id, "content": f"{order} was sent on 4 May"}
    for call, order in zip(message.tool_calls, looked, strict=True)
]
told = litellm.completion(messages=asked, tools=tools, **where).choices[0].message.content
seen = {
    "first": first.choices[0].message.content,
    "tokens": first.usage.total_tokens > 0,
    "streamed": streamed,
    "looked": looked,
    "told": told,
}
sys.stdout.write(json.dumps(seen))
