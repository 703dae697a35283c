"""A summarizer that forgets nothing: it parses the summarizer's input and answers with every code in it.

It is strict about the format, because the product promises it exactly (seed 000, section 5.2; seed 003 for the input
that requests facts): anything else is an `AssertionError`, which the fake answers with a 400 and records for the test.
"""

import re
from dataclasses import dataclass

from memory.folding.answer_checks import AGAIN

CODE = r"[A-Z]{2}-\d{4,}"
FORM = re.compile(
    r"=== EXISTING_SUMMARY ===\n(?P<existing>.*)\n=== END_EXISTING_SUMMARY ===\n\n"
    r"=== NEW_TURNS ===\n(?P<turns>.*)\n=== END_NEW_TURNS ===\n?",
    re.DOTALL,
)
FACT = r"- [^:\n]+: .*"
FACTS_FORM = re.compile(
    r"## Existing facts \(merge, update, or remove as needed\):\n"
    rf"(?P<existing>- none|{FACT}(?:\n{FACT})*)\n\n"
    r"## Conversation:\n(?P<turns>\[(?:user|assistant)\]: (?s:.*))"
)
FILLER = "the customer and the assistant went on to talk about the plan and the next step .".split()


@dataclass(frozen=True)
class SummarizerInput:
    """What one call showed the summarizer; `existing` is empty if the input said NONE."""

    existing: str
    turns: str

    def codes(self, pattern: str = CODE) -> list[str]:
        """Return every code in it once, in order of appearance."""
        return list(dict.fromkeys(re.findall(pattern, f"{self.existing}\n{self.turns}")))


def without_retry_instructions(text: str) -> str:
    """Return an input without what a second request has below it."""
    return text.partition(f"\n\n{AGAIN}\n")[0]


def parse(text: str) -> SummarizerInput:
    """Parse the input strictly. Raise `AssertionError` if it is not in the format."""
    match = FORM.fullmatch(without_retry_instructions(text))
    assert match, "summarizer input is not in the promised format"
    turns = match["turns"]
    assert turns.startswith("Turn 1:\n"), "new turns do not start with Turn 1"
    existing = match["existing"]
    return SummarizerInput("" if existing == "NONE" else existing, turns)


def read_turns(text: str) -> tuple[str, list[tuple[str, str]]]:
    """The existing summary and the (user, assistant) pairs of an input, as quoted in it."""
    match = FORM.fullmatch(without_retry_instructions(text))
    assert match, "summarizer input is not in the promised format"
    before, *blocks = re.split(r"(?:\A|\n\n)Turn \d+:\n", match["turns"])
    assert not before, "text before the first turn"
    existing = match["existing"]
    return "" if existing == "NONE" else existing, [_pair(block) for block in blocks]


def _pair(block: str) -> tuple[str, str]:
    if block.startswith("Assistant: "):
        return "", block.removeprefix("Assistant: ")
    user, _, assistant = block.removeprefix("User: ").partition("\nAssistant: ")
    return user, assistant


def parse_facts(text: str) -> SummarizerInput:
    """Parse an input that requests facts, strictly. Raise `AssertionError` if it is not in the format."""
    match = FACTS_FORM.fullmatch(without_retry_instructions(text))
    assert match, "input for facts is not in the promised format"
    return SummarizerInput("" if match["existing"] == "- none" else match["existing"], match["turns"])


def summarize(shown: SummarizerInput, *, tokens: int, pattern: str = CODE) -> str:
    """Return all codes, then filler up to about `tokens` tokens (a code counts as five, a word of filler as one)."""
    codes = shown.codes(pattern)
    head = f"Codes so far: {', '.join(codes)}." if codes else "No codes so far."
    missing = max(0, tokens - 5 * len(codes) - 5)
    words = [FILLER[i % len(FILLER)] for i in range(missing)]
    return f"{head} {' '.join(words)}".strip()
