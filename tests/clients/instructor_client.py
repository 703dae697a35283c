"""instructor, in the mode named by the first argument: 20 turns, whose answers it keeps as JSON text."""

import json
import os
import sys

import instructor
from openai import OpenAI
from pydantic import BaseModel


class Person(BaseModel):
    """A person's name and number."""

    name: str
    number: int


client = instructor.from_openai(
    OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["TOKEN"], max_retries=0),
    mode=instructor.Mode[sys.argv[1]],
)
messages: list[dict[str, str]] = []
found = []
for number in range(20):
    messages.append({"role": "user", "content": f"Person number {number}?"})
    person = client.chat.completions.create(model="arco", response_model=Person, messages=messages, max_retries=0)
    messages.append({"role": "assistant", "content": person.model_dump_json()})
    found.append(person.number)
sys.stdout.write(json.dumps({"found": found}))
