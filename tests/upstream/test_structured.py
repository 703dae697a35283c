"""Structured output: requested from upstreams that support it, and omitted for those that turned out not to."""

import pytest

from chatmemory.llm.openai.client import OpenAIModel
from chatmemory.llm.openai.reading import Style
from chatmemory.llm.protocol import Prompt, PromptMessage, Schema, UpstreamError, Variant
from tests.support.fakes.objects import schema_name
from tests.support.fakes.upstream import FakeUpstream
from tests.upstream.talking import STYLES, VARIANT, model_at

SCHEMA = Schema(
    "answer",
    {
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
        "additionalProperties": False,
    },
)
SHAPED = Prompt((PromptMessage("user", "Where is Ada?"),), "Answer in JSON.", schema=SCHEMA)
JSON = '{"answer": "Here."}'


def ask(model: OpenAIModel, variant: Variant = VARIANT) -> str:
    return model.complete(SHAPED, variant, timeout=10).text


def names(fake: FakeUpstream) -> list[str]:
    return [schema_name(request) for request in fake.requests]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("code", [400, 422])
def test_structured_output_unsupported_retries_without_and_remembers(
    fake: FakeUpstream, style: Style, code: int
) -> None:
    fake.script("complete", f"status?code={code}", f"normal?text={JSON}", f"normal?text={JSON}")
    model = model_at(fake.base_url, style)
    assert ask(model) == ask(model) == JSON
    ask(model, Variant("other", "gpt-other"))
    assert names(fake) == ["answer", "", "", "answer"]
    first, second, *_ = fake.requests
    assert second.said == first.said


@pytest.mark.parametrize(
    ("how", "asked"),
    [
        ("status?code=400", ["answer", ""]),  # refused both times: the schema was not the cause
        ("status?code=400&error=context_length_exceeded", ["answer"]),
        ("status?code=401", ["answer"]),
        ("status?code=429&error=insufficient_quota", ["answer"]),
    ],
)
def test_any_other_refusal_stands_and_nothing_is_remembered(fake: FakeUpstream, how: str, asked: list[str]) -> None:
    fake.script("complete", *[how] * len(asked))
    model = model_at(fake.base_url, "responses")
    with pytest.raises(UpstreamError):
        ask(model)
    assert names(fake) == asked
    ask(model)
    assert names(fake)[len(asked) :] == ["answer"]
