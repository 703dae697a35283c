"""The built-in model: no key, no network. It only quotes what it was sent, and says so.

With it, the whole product works on one machine, and it folds in place of a summarizer that keeps failing. It knows
nothing of chats, storage or policies: a request names the schema of its answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

from chatmemory.llm.offline.answers import (
    INTRODUCTION,
    extract,
    json_object,
    json_texts,
    quotes_a_talk,
    summarize,
)
from chatmemory.llm.offline.extract import on_question
from chatmemory.llm.openai.failures import TOO_LONG
from chatmemory.llm.protocol import Completion, Deadlines, Delta, Prompt, Reply, Usage, Variant
from chatmemory.text.markers import is_marker
from chatmemory.text.tokens import MESSAGE_OVERHEAD, clip_end, count_tokens

NAME = "offline"

QUOTES = 3
QUESTION_CHARS = 8000
"""How many characters of a question are used for the search; of each message, ten times as many are searched."""

CARD_OPEN, CARD_CLOSE = "<MEMORY_CARD>", "</MEMORY_CARD>"
"""Instructions that contain the first ask for a memory card between both, at the end of the reply (seed 002)."""

_TEXT, _TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
CARD_SCHEMA = {
    "type": "object",
    "properties": {
        "goal": _TEXT,
        "decisions": _TEXTS,
        "open_q": _TEXTS,
        "constraints": _TEXTS,
        "techniques": _TEXTS,
        "lesson_context": _TEXT,
    },
}
"""The card that such instructions describe."""
CARD_TOKENS = 120
FOUND = f"{INTRODUCTION} Matches in this chat:"
NOTHING = (
    f"{INTRODUCTION} No match in this chat. Your message was saved. "
    "Set OPENAI_API_KEY or OPENAI_BASE_URL and restart for real answers."
)
_ROLE = re.compile(r"(?:> )?(?:\[\d+\] )?(?:User|Assistant): ")
_WORD = re.compile(r"\s*\S+")
_JSON = re.compile(r"\{.*\}")


class OfflineModel:
    """A deterministic `ChatModel` that only extracts. `pause`: the seconds between two words of a stream."""

    def __init__(self, pause: float = 0.01, summary_tokens: int = 500) -> None:
        self.pause = pause
        self.summary_tokens = summary_tokens

    async def stream(
        self, prompt: Prompt, variant: Variant, deadlines: Deadlines
    ) -> AsyncIterator[Delta | Reply]:
        """Yield the answer word by word, then a `complete` reply; with a memory card if the prompt asks for one."""
        del deadlines  # nothing here waits for others
        # Searching and counting a long prompt takes milliseconds that other streams need.
        text, is_whole = await asyncio.to_thread(_reply, prompt, variant)
        usage = await asyncio.to_thread(_usage, prompt, text)
        for word in _WORD.findall(text):
            yield Delta(word)
            await asyncio.sleep(self.pause)
        ended = Reply("complete") if is_whole else Reply("incomplete", error=TOO_LONG)
        yield replace(ended, usage=usage, model=NAME)

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        """Answer at once: with the object that the prompt's schema names, or a summary of a summarizer input.

        For any other prompt, answer as `stream` would, but without a card.
        """
        del timeout  # nothing here waits for others
        text = self._extract(prompt) or _reply_text(_quotes(prompt), variant)
        return Completion(text, model=NAME, usage=_usage(prompt, text))

    def _extract(self, prompt: Prompt) -> str:
        """The object for the prompt's schema, or the summary of a talk; empty for other prompts."""
        request = prompt.messages[-1].content if prompt.messages else ""
        if prompt.schema:
            return extract(prompt.schema.schema, request, prompt.answer_tokens)
        if not quotes_a_talk(request):
            return ""
        return summarize(request, prompt.answer_tokens or self.summary_tokens)


def _reply(prompt: Prompt, variant: Variant) -> tuple[str, bool]:
    """The text of a reply, and whether it is whole."""
    quotes = _quotes(prompt)
    if wants_card(prompt):
        card = card_block(card_after(prompt, _answer(quotes)))
        text = _reply_text(quotes, variant, reserved=count_tokens(card))
        return text + card, True  # the card is the end of the requested reply
    text = _reply_text(quotes, variant)
    return text, text == _answer(quotes)


def _reply_text(quotes: Sequence[str], variant: Variant, reserved: int = 0) -> str:
    """The quotes as a reply, within the variant's limit minus the `reserved` tokens."""
    text, limit = _answer(quotes), variant.max_output_tokens
    return clip_end(text, max(0, limit - reserved)) if limit else text


def _answer(quotes: Sequence[str]) -> str:
    return "\n".join([FOUND, *(f"- {quote}" for quote in quotes)]) if quotes else NOTHING


def _quotes(prompt: Prompt) -> list[str]:
    return on_question(_remembered(prompt), _question(prompt), QUOTES)


def _question(prompt: Prompt) -> str:
    return prompt.messages[-1].content[:QUESTION_CHARS] if prompt.messages else ""


def _remembered(prompt: Prompt) -> Iterator[str]:
    """Everything before the question, without headings, markers and this model's own words."""
    for message in prompt.messages[:-1]:
        if not message.content.startswith(INTRODUCTION):
            yield "\n".join(_lines(message.content[: 10 * QUESTION_CHARS]))


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        found = _JSON.search(line)
        if found and (memory := json_object(found[0])):
            yield from json_texts(memory)
        elif not is_marker(bare := _ROLE.sub("", line, count=1)) and INTRODUCTION not in bare:
            yield bare


def wants_card(prompt: Prompt) -> bool:
    """Whether the prompt asks for a memory card at the end of the reply."""
    return CARD_OPEN in prompt.instructions


def card_after(prompt: Prompt, reply: str) -> str:
    """The memory card after `reply`, from the card in the prompt, the last turn, the question and the reply."""
    question, last_reply = _last_turn(prompt)
    sides = (("User", question), ("Assistant", last_reply), ("User", _question(prompt)), ("Assistant", reply))
    talk = "\n".join(f"{name}: {text}" for name, text in sides if text)
    return extract(CARD_SCHEMA, f"{_card_before(prompt)}\n{talk}", CARD_TOKENS)


def card_block(card: str) -> str:
    """A card in the form in which it ends a reply's text."""
    return f"\n\n{CARD_OPEN}{card}{CARD_CLOSE}"


def _card_before(prompt: Prompt) -> str:
    """The card in the prompt: JSON behind some words in the first line of a message; empty if it has none."""
    firsts = (message.content.partition("\n")[0] for message in prompt.messages[:-1])
    found = (match[0] for first in firsts if (match := _JSON.search(first)))
    return next((text for text in found if json_object(text)), "")


def _last_turn(prompt: Prompt) -> tuple[str, str]:
    """The newest reply in the prompt, and the user's message before it."""
    before = prompt.messages[:-1]
    at = next((at for at in reversed(range(len(before))) if before[at].role == "assistant"), None)
    if at is None:
        return "", ""
    question = before[at - 1].content if at and before[at - 1].role == "user" else ""
    return ("" if _JSON.search(question.partition("\n")[0]) else question), before[at].content


def _usage(prompt: Prompt, text: str) -> Usage:
    sent = [prompt.instructions, *(message.content for message in prompt.messages)]
    tokens = sum(count_tokens(part) + MESSAGE_OVERHEAD for part in sent if part)
    return Usage(input_tokens=tokens, cached_tokens=0, output_tokens=count_tokens(text))
