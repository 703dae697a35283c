"""The prompts of the sample chats, frozen: a change of the code that should not change prompts changes none.

Each sample is played turn by turn under each policy, with a scripted summarizer. `frozen_prompts.json` has a hash for
every turn. Where a prompt is meant to change, `FREEZE=1` writes the file anew; the commit says why.
"""

import json
import os
import time
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from chatmemory.llm import registry
from chatmemory.llm.protocol import Reply
from conversations.models import Chat, Message, Status
from conversations.replies import finish as finishing
from conversations.replies.begin import begin_turn, default_variant
from conversations.replies.reply import BegunTurn, Ending, TurnRequest
from memory.folding.fold import fold
from memory.models import ContextRecord
from memory.policies import POLICIES
from tests.support.exhaustive import first_row_of
from tests.support.factories import brief_of, make_chat
from tests.support.fakes.scripted import TellingModel
from tests.support.troubled import exchanges

pytestmark = pytest.mark.django_db

FROZEN = Path(__file__).with_name("frozen_prompts.json")
BEGAN = datetime(2026, 1, 5, 9, tzinfo=UTC)


def play(chat: Chat, number: int, question: str, answer: str) -> str:
    """Play a turn, and what it makes due. Return the hash of its prompt."""
    request = TurnRequest(message=question, variant=default_variant())
    begun = begin_turn(chat.owner, request, chat_id=chat.pk)
    assert isinstance(begun, BegunTurn)
    card = json.dumps({"decisions": [question[:60]], "open_questions": [answer[-60:]]}) if chat.policy == "card" else ""
    reply = finishing.finish(begun.pending, answer, Ending(Status.COMPLETE, Reply("complete", model="scripted"), card))
    assert reply is not None
    at = BEGAN + timedelta(hours=5 * number)
    Message.objects.filter(chat=chat, seq__gt=reply.seq - 2).update(created_at=at)
    if brief_of(chat).due:
        fold(chat.key, until=time.monotonic() + 60)
    return ContextRecord.objects.get(reply=reply).prompt_hash[:16]


@pytest.mark.parametrize(("policy", "sample"), first_row_of(product(sorted(POLICIES), ["trip", "workshop"])))
def test_prompts_equal_the_frozen_ones(policy: str, sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = TellingModel()
    monkeypatch.setattr(registry, "chat_model", lambda _: model)
    chat = make_chat(policy=policy, instructions="Be brief.")
    played = [play(chat, number, *said) for number, said in enumerate(exchanges(sample))]
    assert brief_of(chat).version > 0 or sample == "workshop", "nothing was folded"
    frozen: dict[str, list[str]] = json.loads(FROZEN.read_text()) if FROZEN.exists() else {}
    name = f"{policy} {sample}"
    if os.environ.get("FREEZE"):
        frozen[name] = played
        FROZEN.write_text(json.dumps(dict(sorted(frozen.items())), indent=1) + "\n")
    assert played == frozen.get(name, played)  # a new policy has nothing frozen yet
