"""LangChain's `ChatOpenAI`: a whole reply, a stream, a conversation, structured output. Prints the results as JSON."""

import json
import os
import sys

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

model = ChatOpenAI(
    model="arco", base_url=os.environ["BASE_URL"], api_key=os.environ["TOKEN"], max_retries=0, temperature=0.2
)
messages = [SystemMessage("Be brief."), HumanMessage("My order is AB-1234.")]
first = model.invoke(messages)
messages += [first, HumanMessage("Which order?")]
streamed = "".join(chunk.text() if callable(chunk.text) else chunk.text for chunk in model.stream(messages))
schema = {
    "title": "person",
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
made = model.with_structured_output(schema, method="json_schema").invoke("Say my name as an object.")


@tool  # type: ignore[untyped-decorator]  # the types are not installed where this is checked
def look_up_order(order: str) -> str:
    """Return the state of an order."""
    return f"{order} was sent on 4 May"


helper = model.bind_tools([look_up_order])
asked = [HumanMessage("Please use look_up_order.")]
asked.append(helper.invoke(asked))
looked = [call["args"]["order"] for call in asked[-1].tool_calls]
asked += [look_up_order.invoke(call) for call in asked[-1].tool_calls]
told = helper.invoke(asked).content
seen = {
    "first": first.content,
    "finish": first.response_metadata["finish_reason"],
    "tokens": first.usage_metadata["total_tokens"] > 0,
    "streamed": streamed,
    "object": made,
    "looked": looked,
    "told": told,
}
sys.stdout.write(json.dumps(seen))
