"""The prompt of each past reply is rebuilt exactly, however memory changed since, or a reason is given."""

import hashlib
import json
import random
from typing import Any

import pytest

from chatmemory.llm.protocol import Prompt
from conversations import message_changes
from conversations.chat_lifecycle import update_chat
from conversations.models import Chat, Message
from memory.context import build
from memory.context.build import past_context, why_not_exact
from memory.context.plan import RENDERER
from memory.folding.request import request_resummarize
from memory.models import ContextRecord, SummaryRevision
from memory.policies import POLICIES
from memory.revisions.by_hand import restore
from tests.processes.prompts import code
from tests.support.cards import begin, finish
from tests.support.exhaustive import first_of
from tests.support.factories import brief_of, make_chat
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.scripted import TellingModel
from tests.support.folds import run_fold

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound")]


@pytest.fixture(autouse=True)
def usual(telling: TellingModel, settings: Any) -> None:
    """Limits so small that a few turns fill a prompt."""
    settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD = 1500
    settings.MEMORY_FOLD_BITE_TOKENS = 1000
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 1200
    settings.MEMORY_MIN_FOLD_TOKENS = 300


class Sent:
    """The prompts that were really sent for a chat, by the id of the reply."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.prompts: dict[Any, Prompt] = {}

    def turn(self, number: int, rng: random.Random) -> Message:
        """Add a turn whose question may be about an earlier one."""
        earlier = code(rng.randrange(1, number)) if number > 1 else "nothing"
        begun = begin(
            self.chat,
            f"Note {code(number)} for {number}99 EUR. What of {earlier}? {lorem(rng.randrange(40))}",
        )
        reply = finish(
            begun, f"{code(number)} is noted. {lorem(rng.randrange(10, 120))}", {"decisions": [code(number)]}
        )
        self.prompts[reply.pk] = begun.prompt
        return reply

    def assert_all_exact(self) -> None:
        """Assert that every prompt is rebuilt byte for byte."""
        for reply_id, prompt in self.prompts.items():
            reply = Message.objects.get(pk=reply_id)
            past = past_context(reply)
            assert past is not None
            context, sent = past
            assert context.prompt.chat_messages == prompt.chat_messages
            assert sent.prompt_hash == context.prompt_hash
            assert why_not_exact(reply, context, sent) is None
        told = json.dumps(prompt.chat_messages, separators=(",", ":"), sort_keys=True)
        assert sent.prompt_hash == hashlib.sha256(told.encode()).hexdigest(), "the hash is of what was sent"

    def why(self, reply: Message) -> str | None:
        """The reason why the context of a reply is no longer exact, None if it is."""
        reply = Message.objects.get(pk=reply.pk)
        past = past_context(reply)
        assert past is not None
        return why_not_exact(reply, *past)


@pytest.mark.parametrize("policy", first_of(POLICIES))
@pytest.mark.exhaustive
def test_verify_past_prompts_stay_exact(policy: str, settings: Any) -> None:
    rng = random.Random(policy)
    sent = Sent(make_chat(policy=policy))
    for number in range(1, 31):
        sent.turn(number, rng)
        run_fold(sent.chat)
        if number == 20:
            restore(sent.chat, 1)
        if number == 24:
            request_resummarize(sent.chat, "rebuild")
            run_fold(sent.chat)
    kinds = set(SummaryRevision.objects.filter(chat=sent.chat).values_list("kind", flat=True))
    assert kinds == {"fold", "restore", "rebuild"}
    sent.assert_all_exact()

    other = "interval" if policy != "interval" else "progressive"
    update_chat(sent.chat, {"policy": other, "instructions": "From now on in French.", "options": {}})
    run_fold(sent.chat)
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 700
    settings.MEMORY_LINE_TOKENS = 20
    settings.MEMORY_K_RAW_TURNS = 1
    settings.MEMORY_SUMMARY_TOKEN_CAP = 100
    settings.MEMORY_TURNS_AS = "text"
    sent.chat.refresh_from_db()
    for number in range(31, 36):
        sent.turn(number, rng)
        run_fold(sent.chat)
    assert brief_of(sent.chat).policy == other
    assert len(sent.prompts) == 35
    assert ContextRecord.objects.filter(reply__chat=sent.chat, revision__gt=0).count() > 15
    sent.assert_all_exact()


def test_verify_reports_deleted_or_edited_messages() -> None:
    rng = random.Random(1)
    sent = Sent(make_chat(policy="chunked"))
    replies = [sent.turn(number, rng) for number in range(1, 5)]
    question = Message.objects.get(chat=sent.chat, seq=5)
    message_changes.edit_message(sent.chat, question.pk, "Something else.")
    assert sent.why(replies[1]) is None, "what came before is as it was"
    assert [sent.why(reply) for reply in replies[2:]] == [build.CHANGED, build.CHANGED]
    message_changes.forget_message(sent.chat.key, replies[0].pk)
    assert [sent.why(reply) for reply in replies] == [None, *[build.CHANGED] * 3]


def test_verify_reports_prompts_of_earlier_versions() -> None:
    sent = Sent(make_chat(policy="chunked"))
    reply = sent.turn(1, random.Random(3))
    record = ContextRecord.objects.get(pk=reply.pk)
    hash_, record.plan["renderer"] = record.prompt_hash, 1
    ContextRecord.objects.filter(pk=reply.pk).update(prompt_hash="0" * 64, plan=record.plan)
    assert sent.why(reply) == build.RENDERED
    record.plan["renderer"] = RENDERER
    ContextRecord.objects.filter(pk=reply.pk).update(plan=record.plan)
    assert sent.why(reply) == build.OTHER
    ContextRecord.objects.filter(pk=reply.pk).update(prompt_hash=hash_)
    assert sent.why(reply) is None
