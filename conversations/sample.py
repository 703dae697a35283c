"""The sample chat of `quickstart`, and the summaries that come with it.

The built-in model cannot write prose. So the sample brings its own summaries, written by hand in the style of a
model, and each revision says so. They go through the same fold as any other answer.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from chatmemory.llm.protocol import ChatModel, Completion, Deadlines, Delta, Prompt, Reply, Usage, Variant

SAMPLE = Path(__file__).parent / "samples" / "trip.json"
QUESTION = "When and where is our concert?"
BY_HAND = "written by hand for the sample"
"""The model named in the revisions of the sample."""


class SampleSummarizer:
    """A `ChatModel` that knows the sample's summaries, and passes everything else on to `model`."""

    def __init__(self, model: ChatModel, summaries: Mapping[str, str]) -> None:
        self.model = model
        self.summaries = summaries
        """Summaries by the question of the last turn that each covers."""

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        """Return the summary that covers the turns of the input; else the other model's answer."""
        last_turn = prompt.messages[-1].content.rpartition("\nUser: ")[2]
        written = self.summaries.get(last_turn.partition("\nAssistant: ")[0])
        if written is None or prompt.schema is not None:
            return self.model.complete(prompt, variant, timeout=timeout)
        return Completion(written, model=BY_HAND, usage=Usage(0, 0, 0))

    def stream(self, prompt: Prompt, variant: Variant, deadlines: Deadlines) -> AsyncIterator[Delta | Reply]:
        """Stream the other model's answer."""
        return self.model.stream(prompt, variant, deadlines)


def with_summaries(model: ChatModel) -> SampleSummarizer:
    """Return `model` wrapped so that it answers with the sample's summaries."""
    sample = json.loads(SAMPLE.read_text(encoding="utf-8"))
    said = [one["content"] for one in sample["messages"] if one["role"] != "system"]
    written = {
        said[one["through"] - 2]: "\n".join(f"- {point}" for point in one["points"])
        for one in sample["summaries"]
    }
    return SampleSummarizer(model, written)
