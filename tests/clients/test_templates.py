"""Prompts through the chat templates of real models, rendered as vLLM and llama.cpp do: none is refused.

`make test-templates` takes the templates from llama-cpp-python's source package, which carries them as text files.
"""

import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from chatmemory.llm import registry
from chatmemory.llm.openai.requests import request_body
from chatmemory.llm.protocol import Variant
from memory.policies import POLICIES
from tests.support.fakes.scripted import TellingModel
from tests.support.troubled import TOOL, prompts_of

pytestmark = [pytest.mark.templates, pytest.mark.django_db]

Messages = list[dict[str, Any]]
Template = Callable[[Messages, bool], str]

CALL = {"id": "call00001", "type": "function", "function": {"name": "look", "arguments": "{}"}}
TALK: Messages = [
    {"role": "user", "content": "Where is it?"},
    {"role": "assistant", "content": "At home."},
    {"role": "user", "content": "And now?"},
]
SYSTEM: Messages = [{"role": "system", "content": "Be brief."}, *TALK]
TOOLS: Messages = [
    TALK[0],
    {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "call00002"}]},
    {"role": "tool", "tool_call_id": "call00001", "content": "Home"},
    {"role": "tool", "tool_call_id": "call00002", "content": "Home"},
    *TALK[1:],
]


def compiled(path: Path) -> Template:
    """Return the template in a file, with what transformers, vLLM and llama.cpp give it."""
    from jinja2 import nodes
    from jinja2.ext import Extension
    from jinja2.parser import Parser
    from jinja2.sandbox import SandboxedEnvironment

    class Generation(Extension):
        tags = {"generation"}

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: str) -> None:
        raise ValueError(message)

    extensions = [Generation, "jinja2.ext.loopcontrols"]
    environment = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    environment.filters["from_json"] = json.loads
    environment.filters["tojson"] = json.dumps
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = datetime.now().strftime
    template = environment.from_string(path.read_text())

    def render(messages: Messages, with_tools: bool) -> str:
        tools = [TOOL] if with_tools else None
        return template.render(
            messages=as_servers_give_them(messages),
            tools=tools,
            add_generation_prompt=True,
            bos_token="<s>",
            eos_token="</s>",
        )

    return render


def as_servers_give_them(messages: Messages) -> Messages:
    """vLLM gives templates arguments as objects and no content as an empty text; images are left out here."""
    found: Messages = json.loads(json.dumps(messages, default=str))
    for one in found:
        if isinstance(one["content"], list):
            one["content"] = one["content"][0]["text"]
        one["content"] = one["content"] or ""
        for call in one.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return found


def takes(template: Template, messages: Messages, *, tools: bool = False) -> bool:
    try:
        return bool(template(messages, tools))
    except Exception:  # noqa: BLE001 - templates raise whatever they like
        return False


@pytest.fixture(scope="module")
def templates() -> dict[str, Template]:
    """The templates that take a plain talk, by their models' names."""
    files = sorted(Path(os.environ["CHAT_TEMPLATES"]).rglob("*.jinja"))
    found = {path.stem: compiled(path) for path in files}
    known = {name: template for name, template in found.items() if takes(template, TALK)}
    assert len(known) > 50
    return known


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_templates_of_real_models_take_every_prompt(
    policy: str, templates: dict[str, Template], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "chat_model", lambda _: TellingModel())
    prompts = list(prompts_of(policy))[::3]
    assert len(prompts) > 15
    refused: dict[str, str] = {}
    tried = 0
    for name, template in templates.items():
        variant = Variant("arco", name, system=takes(template, SYSTEM))
        has_tools = takes(template, TOOLS, tools=True)
        for prompt in prompts:
            uses_tools = any(one.role == "tool" for one in prompt.messages)
            if uses_tools and not has_tools:
                continue
            body = request_body(prompt, variant, style="chat", is_openai=False, stream=True)
            tried += 1
            try:
                template(body["messages"], uses_tools)
            except Exception as exc:  # noqa: BLE001 - the same
                refused.setdefault(name, f"{type(exc).__name__}: {exc}")
    assert refused == {}
    assert tried > 600
