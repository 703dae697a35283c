"""An agent of LangChain whose `SummarizationMiddleware` shortens its history by itself: 20 turns in one thread.

It has the model summarize, with the same key and address, whenever there are more than a dozen messages. Prints as JSON
what the model said last, and how often the history was shortened.
"""

import json
import os
import sys

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

SUMMARY = "Here is a summary of the conversation to date:"
model = ChatOpenAI(model="arco", base_url=os.environ["BASE_URL"], api_key=os.environ["TOKEN"], max_retries=0)
shorter = SummarizationMiddleware(model, trigger=("messages", 12), keep=("messages", 6))
agent = create_agent(model, middleware=[shorter], checkpointer=InMemorySaver(), system_prompt="Be brief.")
shortened: set[str] = set()
for number in range(1, 21):
    question = f"Order {number} is AB-{1000 + number}. Where is it?"
    state = agent.invoke({"messages": [HumanMessage(question)]}, {"configurable": {"thread_id": "1"}})
    first = state["messages"][0]
    if first.text.startswith(SUMMARY):
        shortened.add(str(first.id))
sys.stdout.write(json.dumps({"said": state["messages"][-1].text, "shortened": len(shortened)}))
