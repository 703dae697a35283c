"""The output limit of a request: room for the answer, and for the reasoning before it."""

import pytest

from chatmemory.llm.known_models import output_limit
from chatmemory.llm.protocol import Variant


@pytest.mark.parametrize(
    ("model", "effort", "given", "limit"),
    [
        ("gpt-5-nano", None, None, 10_000),
        ("openai/gpt-5-mini-2025-08-07", None, None, 10_000),
        ("o4-mini", None, None, 10_000),
        ("gpt-5.1", None, None, 2_000),
        ("gpt-5-chat-latest", None, None, 2_000),
        ("gpt-5-nano", "minimal", None, 3_000),
        ("llama-3.1", "high", None, 18_000),
        ("llama-3.1", "high", 7_000, 7_000),
        ("llama-3.1", None, 100, 2_000),  # never less than the answer needs
    ],
)
def test_the_output_limit(model: str, effort: str | None, given: int | None, limit: int) -> None:
    assert output_limit(Variant("summarizer", model, effort, given), 2_000) == limit
