"""The built-in model: no key, no network. It only quotes what it was sent, and says so.

With it, the whole product works on one machine, and it folds in place of a summarizer that keeps failing. It knows
nothing of chats, storage or policies: a request names the schema of its answer.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

from chatmemory.llm.offline.answers import (
    INTRODUCTION,
    extract,
    json_object,
    json_texts,
    on_question,
    quotes_a_talk,
    summarize,
)
from chatmemory.llm.openai.failures import TOO_LONG
from chatmemory.llm.protocol import Completion, Deadlines, Delta, Prompt, Reply, Usage, Variant
from chatmemory.text.markers import is_marker
from chatmemory.text.tokens import MESSAGE_OVERHEAD, clip_end, count_tokens

NAME = "offline"

QUOTES = 3
QUESTION_CHARS = 8000
"""How many characters of a question are used for the search; of each message, ten times as many are searched."""

CARD_OPEN, CARD_CLOSE = "<MEMORY_CARD>", "</MEMORY_CARD>"
"""Instructions that show an object between both ask for such a memory card at the end of the reply (seed 002)."""
CARD_TOKENS = 120
FOUND = f"{INTRODUCTION} Matches in this chat:"
NOTHING = (
    f"{INTRODUCTION} No match in this chat. Your message was saved. "
    "Set OPENAI_API_KEY or OPENAI_BASE_URL and restart for real answers."
)
_ROLE = re.compile(r"(?:> )?(?:\[\d+\] )?(?:User|Assistant): ")
_WORD = re.compile(r"\s*\S+")
_JSON = re.compile(r"\{.*\}")
_CARD = re.compile(rf"{CARD_OPEN}({_JSON.pattern}){CARD_CLOSE}")
_TEXT, _TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}


class OfflineModel:
    """A deterministic `ChatModel` that only extracts. `pause`: the seconds between two words of a stream."""

    def __init__(self, pause: float = 0.01) -> None:
        self.pause = pause

    async def stream(
        self, prompt: Prompt, variant: Variant, deadlines: Deadlines
    ) -> AsyncIterator[Delta | Reply]:
        """Yield the answer word by word, then a `complete` reply; with a memory card if the prompt asks for one."""
        # Searching and counting a long prompt takes milliseconds that other streams need.
        text, reply = await asyncio.to_thread(_reply, prompt, variant)
        for word in _WORD.findall(text):
            yield Delta(word)
            await asyncio.sleep(self.pause)
        yield reply

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        """Answer at once: with the object that the prompt's schema names, or a summary of a summarizer input.

        For any other prompt, answer as `stream` would, but without a card.
        """
        request = _last_text(prompt)
        if prompt.schema:
            text = extract(prompt.schema.schema, request, prompt.answer_tokens)
        elif quotes_a_talk(request):
            text = summarize(request, prompt.answer_tokens)
        else:
            text = ""
        text = text or _within_limit(_answer(prompt), variant)
        return Completion(text, model=NAME, usage=_usage(prompt, text))


def _reply(prompt: Prompt, variant: Variant) -> tuple[str, Reply]:
    """The text of a reply, and how it ends."""
    answer = _answer(prompt)
    card = card_block(card_after(prompt, answer))
    text = _within_limit(answer, variant, reserved=count_tokens(card)) + card
    # A card is the end of the requested reply.
    ended = Reply("complete") if card or text == answer else Reply("incomplete", error=TOO_LONG)
    return text, replace(ended, usage=_usage(prompt, text), model=NAME)


def _answer(prompt: Prompt) -> str:
    """What was said before that matches the prompt's last message."""
    quotes = on_question(_remembered(prompt), _question(prompt), QUOTES)
    return "\n".join([FOUND, *(f"- {quote}" for quote in quotes)]) if quotes else NOTHING


def _within_limit(text: str, variant: Variant, reserved: int = 0) -> str:
    limit = variant.max_output_tokens
    return clip_end(text, max(0, limit - reserved)) if limit else text


def _last_text(prompt: Prompt) -> str:
    return prompt.messages[-1].content if prompt.messages else ""


def _question(prompt: Prompt) -> str:
    return _last_text(prompt)[:QUESTION_CHARS]


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


def card_after(prompt: Prompt, reply: str) -> str:
    """The memory card after `reply`, from the card in the prompt, the last turn, the question and the reply.

    Empty if the prompt asks for none.
    """
    form = _CARD.search(prompt.instructions)
    if form is None:
        return ""
    fields = {name: _TEXTS if isinstance(one, list) else _TEXT for name, one in json_object(form[1]).items()}
    before = prompt.messages[:-1]
    firsts = (_JSON.search(message.content.partition("\n")[0]) for message in before)
    card = next((found[0] for found in firsts if found and json_object(found[0])), "")
    at = max((at for at, message in enumerate(before) if message.role == "assistant"), default=-1)
    last_reply = before[at].content if at >= 0 else ""
    question = before[at - 1].content if at > 0 and before[at - 1].role == "user" else ""
    if _JSON.search(question.partition("\n")[0]):  # it is the card
        question = ""
    sides = (("User", question), ("Assistant", last_reply), ("User", _question(prompt)), ("Assistant", reply))
    talk = "\n".join(f"{name}: {text}" for name, text in sides if text)
    return extract({"properties": fields}, f"{card}\n{talk}", CARD_TOKENS)


def card_block(card: str) -> str:
    """A card in the form in which it ends a reply's text; empty without one."""
    return f"\n\n{CARD_OPEN}{card}{CARD_CLOSE}" if card else ""


def _usage(prompt: Prompt, text: str) -> Usage:
    sent = [prompt.instructions, *(message.content for message in prompt.messages)]
    tokens = sum(count_tokens(part) + MESSAGE_OVERHEAD for part in sent if part)
    return Usage(input_tokens=tokens, cached_tokens=0, output_tokens=count_tokens(text))
