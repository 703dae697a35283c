"""Turns without any visible text: memory goes on, whatever the policy."""

from __future__ import annotations

import pytest

from chatmemory.llm import registry
from chatmemory.llm.offline.model import OfflineModel
from memory.policies import POLICIES
from tests.support.exhaustive import first_of
from tests.support.factories import add_turns, brief_of, make_chat
from tests.support.folds import assert_sound, run

UNSEEN = "\x15\x1b"


@pytest.mark.django_db
@pytest.mark.parametrize("policy", first_of(sorted(POLICIES)))
def test_turns_that_nobody_can_see_are_folded_at_once(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "chat_model", OfflineModel)
    chat = make_chat(policy=policy)
    add_turns(chat, [(UNSEEN, UNSEEN)] * 60)
    assert run(chat).error == ""
    brief = brief_of(chat)
    assert (brief.due, brief.attempts, brief.last_error) == (False, 0, None)
    assert_sound(chat)
