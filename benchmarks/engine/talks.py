"""Whole chats, turn by turn through the services and the real fold, with a scripted summarizer instead of a model.

Two things are counted: the summarizer's input, and the memory in every prompt. No network and no worker: a chat that
became due is folded before its next turn, as by a worker that keeps up.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch
from uuid import UUID

from django.contrib.auth.models import User

from benchmarks.engine.budgets import Prompts
from benchmarks.figures import Figure, Group
from benchmarks.speech import SUMMARY_TOKENS, TURN_TOKENS, exchanges, summary
from chatmemory.llm import registry
from chatmemory.llm.protocol import Completion, Prompt, Reply, Usage, Variant
from chatmemory.runtime import process_id
from chatmemory.text.tokens import count_tokens
from conversations.interchange.read import read_chats
from conversations.replies import begin, finish
from conversations.replies.begin import BegunTurn, TurnRequest
from conversations.replies.finish import Ending
from memory.folding import fold
from memory.models import ConversationBrief

TURNS = 1_000
INPUT_BAR = 1.2
SAMPLES = ("tau_airline_xl.json", "tau_airline_ship_sample10.json")


@dataclass(slots=True)
class Summarizer:
    """A model that answers everything with the same summary of 400 tokens and counts its input."""

    calls: int = 0
    input_tokens: int = 0

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        self.calls += 1
        self.input_tokens += sum(count_tokens(message.content) for message in prompt.messages)
        return Completion(summary(), variant.model, Usage(0, 0, SUMMARY_TOKENS))


@dataclass(slots=True)
class Talk:
    """A chat under construction."""

    owner: User
    prompts: Prompts
    chat_id: UUID | None = None
    tokens: int = 0
    """Tokens of all messages."""
    summarizer: Summarizer = field(default_factory=Summarizer)

    def say(self, question: str, reply: str) -> None:
        """Run one turn, and the folds that it makes due."""
        request = TurnRequest(message=question, variant=begin.default_variant())
        begun = begin.begin_turn(self.owner, request, chat_id=self.chat_id)
        assert isinstance(begun, BegunTurn)
        self.chat_id = begun.pending.chat_id
        self.prompts.add(begun.prompt)
        finished = finish.finish(begun.pending, reply, Ending.of(Reply("complete")), owner=process_id.name())
        assert finished is not None
        self.tokens += begun.pending.user_message.token_count + finished.token_count
        if ConversationBrief.objects.filter(pk=self.chat_id, due=True).exists():
            with patch.object(registry, "chat_model", lambda: self.summarizer):
                fold.fold(self.chat_id, until=time.monotonic() + 60)


def run(owner: User, *, turns: int = TURNS) -> Group:
    """Measure the summarizer's input per token of the chat; play recorded chats, too, if `SAMPLES` is set."""
    talk = Talk(owner, Prompts())
    for number in range(turns):
        said = exchanges()[number % len(exchanges())]
        talk.say(said.user, said.assistant)
    calls = talk.summarizer.calls
    note = f"{calls} folds of {turns:,} turns of {TURN_TOKENS} tokens, summaries of {SUMMARY_TOKENS}"
    share = talk.summarizer.input_tokens / talk.tokens
    figures = [
        Figure("summarizer input tokens per chat token", share, "", bar=INPUT_BAR, portable=True, note=note),
        talk.prompts.figure(),
    ]
    return Group("Whole chats", (*figures, *_recorded(owner)))


def _recorded(owner: User) -> Iterator[Figure]:
    folder = os.environ.get("SAMPLES", "")
    for name in SAMPLES if folder else ():
        prompts = Prompts()
        chats = read_chats((Path(folder) / name).read_text(encoding="utf-8"))
        for chat in chats:
            talk = Talk(owner, prompts)
            for question, reply in _pairs([(message.role, message.content) for message in chat.messages]):
                talk.say(question, reply)
        figure = prompts.figure()
        yield Figure(f"{figure.name}, {name}", figure.value, "", bar=0, portable=True, note=figure.note)


def _pairs(said: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield messages as (question, reply); a reply without a question before it is left out."""
    question = ""
    for role, content in said:
        if role == "user":
            question = content if content.strip() else ""
        elif question and content.strip():
            yield question, content
            question = ""
