"""Measure summaries by the built-in model: are they readable, and do they keep the facts?

`python -m benchmarks.engine.digests FILE… [--read N]` folds recorded conversations as `chunked` does, bite by bite,
without a database. It prints how many points of the last summaries have fewer than three plain words, how long the
summaries are, and which share of the annotated facts they still contain. `--read` prints that many summaries.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from chatmemory.llm.offline.model import OfflineModel
from chatmemory.llm.offline.points import FEW_WORDS, is_fragment, plain_words
from chatmemory.llm.protocol import Prompt, PromptMessage, Variant
from chatmemory.text.tokens import count_tokens
from memory.history.turns import StoredMessage, Turn, take_bite, to_turns
from memory.policies.summarizer_input import summarizer_input

BITE, CAP = 6000, 500
"""Tokens, equal to the defaults of the settings."""


@dataclass(frozen=True, slots=True)
class Digest:
    """A chat's last summary, and how many of its annotated facts the summary contains."""

    chat: str
    text: str
    kept: int
    facts: int

    @property
    def points(self) -> list[str]:
        return [line.removeprefix("- ") for line in self.text.splitlines() if line.strip()]

    @property
    def bare(self) -> list[str]:
        return [point for point in self.points if not plain_words(point)]

    @property
    def fragments(self) -> list[str]:
        return [point for point in self.points if is_fragment(point)]


def folded(messages: Sequence[tuple[str, str]]) -> str:
    """Return the summary of a whole conversation of (role, text), folded bite by bite."""
    turns, summary = turns_of(messages), ""
    model = OfflineModel(pause=0, summary_tokens=CAP)
    while turns:
        bite = take_bite(turns, BITE)
        prompt = Prompt((PromptMessage("user", summarizer_input(summary, bite)),))
        summary = model.complete(prompt, Variant("offline", "offline"), timeout=1).text
        turns = turns[len(bite) :]
    return summary


def turns_of(messages: Sequence[tuple[str, str]]) -> list[Turn]:
    """Return the turns of messages that are not stored; messages of tools are left out."""
    said = [(role, text) for role, text in messages if role in ("user", "assistant") and text]
    return to_turns(
        [
            StoredMessage(UUID(int=seq), seq, role, "complete", False, count_tokens(text), text)
            for seq, (role, text) in enumerate(said, start=1)
        ]
    )


def digests_of(path: Path) -> Iterator[Digest]:
    """Yield a digest of each conversation in a file of the format `chats`, `openai` or a single chat's export."""
    data = json.loads(path.read_text(encoding="utf-8"))
    for number, chat in enumerate(data.get("chats", [data]), start=1):
        messages = [(one["role"], one.get("text", one.get("content")) or "") for one in chat["messages"]]
        text = folded(messages)
        facts: list[Any] = chat.get("facts", [])
        kept = sum(any(surface in text for surface in fact["surface"]) for fact in facts)
        yield Digest(f"{path.stem} {chat.get('id', number)}", text, kept, len(facts))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument(
        "--read", type=int, default=0, metavar="N", help="print so many summaries of each file"
    )
    given = parser.parse_args()
    for path in given.files:
        found = list(digests_of(path))
        points = sum(len(one.points) for one in found)
        fragments = sum(len(one.fragments) for one in found)
        bare = sum(len(one.bare) for one in found)
        tokens = sum(count_tokens(one.text) for one in found) / max(1, len(found))
        facts = sum(one.facts for one in found)
        kept = f"{sum(one.kept for one in found) / facts:.1%} of {facts}" if facts else "none annotated"
        print(
            f"{path.name}: {len(found)} chats, {points} points, {bare} without a plain word and {fragments} with "
            f"fewer than {FEW_WORDS}, {tokens:.0f} tokens each; facts kept: {kept}"
        )
        for one in found[: given.read]:
            print(f"\n{one.chat}\n{one.text}\n")


if __name__ == "__main__":
    main()
