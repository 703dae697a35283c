"""The sample chat of `quickstart`, and what a summarizer says of it.

With the built-in model there is nobody to write prose. So the sample brings its summaries along, written by hand as a
model writes them, and each version says so. They go through the same fold as any other answer.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from chatmemory.llm.protocol import ChatModel, Completion, Deadlines, Delta, Prompt, Reply, Usage, Variant
from chatmemory.llm.summary_prompt import parse_summarizer_input

SAMPLE = Path(__file__).parent / "samples" / "trip.json"
QUESTION = "When and where is our concert?"
BY_HAND = "written by hand for the sample"
"""The model that versions of the sample name."""


class SampleSummarizer:
    """A `ChatModel` that knows the sample's summaries, and leaves everything else to `model`."""

    def __init__(self, model: ChatModel, summaries: Mapping[str, str]) -> None:
        self.model = model
        self.summaries = summaries
        """By the question of the last turn that each covers."""

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        """The summary that goes as far as the input does; else what the other model says."""
        try:
            _, turns = parse_summarizer_input(prompt.messages[-1].content)
        except ValueError:
            turns = []
        written = self.summaries.get(turns[-1][0]) if turns else None
        if written is None or prompt.schema is not None:
            return self.model.complete(prompt, variant, timeout=timeout)
        return Completion(written, model=BY_HAND, usage=Usage(0, 0, 0))

    def stream(self, prompt: Prompt, variant: Variant, deadlines: Deadlines) -> AsyncIterator[Delta | Reply]:
        """As the other model does."""
        return self.model.stream(prompt, variant, deadlines)


def with_summaries(model: ChatModel) -> SampleSummarizer:
    """`model`, knowing what the sample's summaries say."""
    sample = json.loads(SAMPLE.read_text(encoding="utf-8"))
    said = [one["content"] for one in sample["messages"] if one["role"] != "system"]
    written = {
        said[one["through"] - 2]: "\n".join(f"- {point}" for point in one["points"])
        for one in sample["summaries"]
    }
    return SampleSummarizer(model, written)
