"""The order of roles in what a server of Chat Completions is sent, whatever went wrong in the chat."""

from itertools import pairwise, product
from typing import Any

import pytest

from chatmemory.llm import registry
from chatmemory.llm.openai.requests import request_body
from chatmemory.llm.protocol import Variant
from memory.policies import POLICIES
from tests.support.exhaustive import first_row_of
from tests.support.fakes.scripted import TellingModel
from tests.support.troubled import prompts_of

pytestmark = pytest.mark.django_db

AFTER = {
    "system": {"user"},
    "user": {"assistant", "assistant with calls"},
    "assistant": {"user"},
    "assistant with calls": {"tool"},
    "tool": {"tool", "assistant", "assistant with calls"},
}
"""Which roles may follow each."""


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [f"{one['role']} with calls" if one.get("tool_calls") else one["role"] for one in messages]


@pytest.mark.parametrize(("policy", "turns_as"), first_row_of(product(sorted(POLICIES), ["messages", "text"])))
def test_roles_with_failures_stops_tools_images_and_pins_alternate(
    policy: str, turns_as: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "chat_model", lambda _: TellingModel())
    for prompt in prompts_of(policy, turns_as):
        found = roles(prompt.chat_messages)
        assert found[0] == "system"
        assert found[-1] in ("user", "tool")
        wrong = [(before, after) for before, after in pairwise(found) if after not in AFTER[before]]
        assert wrong == []
        without = request_body(
            prompt, Variant("a", "gemma-2", system=False), style="chat", is_openai=False, stream=True
        )["messages"]
        assert roles(without) == found[1:]
        assert without[0]["content"][0:9] == "Be brief." or without[0]["content"][0]["text"][0:9] == "Be brief."
