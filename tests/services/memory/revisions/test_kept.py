"""How much the summary in use kept is stored in the brief, and lists of chats are filtered by it."""

import pytest

from conversations.message_changes import forget_message
from conversations.models import Message
from memory.models import SummaryRevision
from memory.revisions.by_hand import clear, edit_by_hand, restore
from tests.support.factories import brief_of
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import chat_of, folded_chat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound")]


def test_it_is_that_of_the_version_in_use(model: KeepingModel) -> None:
    assert brief_of(chat_of(2)).kept_percent is None
    chat = folded_chat(model)
    assert brief_of(chat).kept_percent == 100
    edit_by_hand(chat, {"summary": "T1 alone."}, None, on_version=3)
    little = brief_of(chat).kept_percent
    assert little in range(50)
    assert restore(chat, 2).kept_percent == 100
    assert restore(chat, 4).kept_percent == little
    assert clear(chat, None).kept_percent is None


def test_it_steps_back_with_the_summary(model: KeepingModel) -> None:
    chat = folded_chat(model)
    SummaryRevision.objects.filter(chat=chat, version=2).update(
        retained={"kept": [], "lost": [], "share": 0.4}
    )
    forget_message(chat.pk, Message.objects.get(chat=chat, seq=15).pk)
    assert brief_of(chat).kept_percent == 40
    forget_message(chat.pk, Message.objects.get(chat=chat, seq=1).pk)
    assert brief_of(chat).kept_percent is None
