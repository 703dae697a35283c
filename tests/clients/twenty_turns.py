"""A library that speaks the Responses API, named by the first argument: 20 turns, with a call of a tool in each.

Prints as JSON what the tool was asked and what the model said.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

BASE_URL, TOKEN = os.environ["BASE_URL"], os.environ["TOKEN"]
QUESTIONS = [f"Order {number} is AB-10{number:02}. Where is it?" for number in range(1, 21)]
looked: list[str] = []


def look_up_order(order: str) -> str:
    """Return the state of an order."""
    looked.append(order)
    return f"{order} was sent on 4 May. " + "It has not arrived. " * 60


async def openai_sdk() -> AsyncIterator[str]:
    """OpenAI's own, in its strict mode: answers whole, streamed and parsed in turn, each with the whole history."""
    from openai import AsyncOpenAI, pydantic_function_tool
    from pydantic import BaseModel

    class Order(BaseModel):
        order: str

    client: Any = AsyncOpenAI(base_url=BASE_URL, api_key=TOKEN, max_retries=0, _strict_response_validation=True)
    tool = {"type": "function", **pydantic_function_tool(Order, name="look_up_order")["function"]}
    items: list[Any] = []
    for number, question in enumerate(QUESTIONS):
        items.append({"role": "user", "content": question})
        while True:
            asked = {"model": "arco", "input": items, "tools": [tool]}
            match number % 3:
                case 0:
                    response = await client.responses.create(**asked)
                case 1:
                    async with client.responses.stream(**asked) as stream:
                        response = await stream.get_final_response()
                case _:
                    response = await client.responses.parse(**asked, text_format=Order)
            items += response.output
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                break
            items += [
                {
                    "type": "function_call_output",
                    "call_id": call.call_id,
                    "output": look_up_order(**json.loads(call.arguments)),
                }
                for call in calls
            ]
        yield response.output_text
    stored = await client.responses.retrieve(response.id)
    assert (stored.output_text, stored.usage) == (response.output_text, response.usage)
    brought = await client.responses.input_items.list(response.id)
    assert [item.output for item in brought.data] == [items[-2]["output"]]


async def openai_agents() -> AsyncIterator[str]:
    from agents import Agent, OpenAIResponsesModel, Runner, SQLiteSession, function_tool
    from openai import AsyncOpenAI

    model = OpenAIResponsesModel("arco", AsyncOpenAI(base_url=BASE_URL, api_key=TOKEN, max_retries=0))
    agent = Agent("helper", instructions="Be brief.", model=model, tools=[function_tool(look_up_order)])
    session = SQLiteSession("orders")
    for question in QUESTIONS:
        yield str((await Runner.run(agent, question, session=session)).final_output)


async def pydantic_ai() -> AsyncIterator[str]:
    from pydantic_ai import Agent

    os.environ |= {"OPENAI_BASE_URL": BASE_URL, "OPENAI_API_KEY": TOKEN}
    agent = Agent("openai:arco", tools=[look_up_order])
    history: list[Any] = []
    for question in QUESTIONS:
        result = await agent.run(question, message_history=history)
        history = result.all_messages()
        yield result.output


async def agent_framework() -> AsyncIterator[str]:
    """Microsoft's: sends only what is new, and the id of the response before."""
    from agent_framework import Agent
    from agent_framework.openai import OpenAIChatClient

    agent = Agent(OpenAIChatClient("arco", base_url=BASE_URL, api_key=TOKEN), tools=[look_up_order])
    session = agent.create_session()
    for question in QUESTIONS:
        yield (await agent.run(question, session=session)).text


async def main() -> None:
    said = [text async for text in globals()[sys.argv[1]]()]
    sys.stdout.write(json.dumps({"looked": looked, "said": said}))


asyncio.run(main())
