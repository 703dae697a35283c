"""Which chat a history belongs to, held against an oracle that compares whole texts and knows no hash."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from chatmemory.llm.protocol import Reply
from conversations.models import Chat, Message
from conversations.openai_api import conversation, turns
from conversations.openai_api.chat_request import ChatRequest
from conversations.openai_api.history import Said
from conversations.openai_api.history_keys import history_keys
from conversations.openai_api.turns import Asked
from conversations.replies import finish
from conversations.replies.begin import BegunTurn, TurnRequest, default_variant
from conversations.replies.finish import Ending
from tests.support.exhaustive import first_of

Turn = tuple[str, str]
WORDS = ("Hello", "yes", "ok", "And then?", "My order is AB-1234", "Thank you")
ANSWERS = ("Hello!", "Good.", "It was sent on 4 May.", "You are welcome.")


@dataclass
class Oracle:
    """The chats of one user, as lists of what was said, and what a client knew at every answer it was given."""

    chats: list[list[Turn]] = field(default_factory=list)
    answers: list[tuple[list[Turn], int, int]] = field(default_factory=list)
    """What the client had sent, with the turn that was answered; the chat, and its turns then."""

    def place(self, history: list[Turn]) -> tuple[str, int | None, int]:
        """What is to become of a request with this history: the decision, the chat, and the turns that it shares."""
        if not history:
            return "new", None, 0
        same = [(chat, n) for sent, chat, n in reversed(self.answers) if sent == history]
        heads = [(chat, n) for chat, n in same if len(self.chats[chat]) == n]
        if heads:
            return "continued", heads[0][0], 0
        if same:
            return "branched", same[0][0], same[0][1]
        ends = {
            chat
            for _, chat, n in self.answers
            if len(self.chats[chat]) == n and self.chats[chat][-1] == history[-1]
        }
        return ("continued", ends.pop(), 0) if len(ends) == 1 else ("imported", None, 0)

    def said(self, decision: str, chat: int | None, shared: int, history: list[Turn], turn: Turn) -> int:
        """Note the turn; the chat that it is in."""
        if decision == "continued":
            assert chat is not None
            self.chats[chat].append(turn)
        elif decision == "branched":
            assert chat is not None
            self.chats.append([*self.chats[chat][:shared], turn])
            chat = len(self.chats) - 1
        else:
            self.chats.append([*history, turn])
            chat = len(self.chats) - 1
        self.answers.append(([*history, turn], chat, len(self.chats[chat])))
        return chat


def said_by(user: User, history: list[Turn], question: str, answer: str) -> tuple[str, Chat]:
    """Take one request as the view does, and have it answered."""
    messages = tuple(one for asked, told in history for one in (Said("user", asked), Said("assistant", told)))
    new = (Said("user", question),)
    request = ChatRequest(model="arco", new=new, history=messages)
    keys = history_keys(settings.SECRET_KEY.encode(), user.pk, messages, new)
    asked = Asked(user, request, keys, TurnRequest(message=question, variant=default_variant()), b"body")
    place = conversation.find(user, request, keys, "")
    made = turns.begin(asked, place, turns.prepare(asked, place))
    assert made is not None
    assert isinstance(made.turn, BegunTurn)
    reply = finish.finish(made.turn.pending, answer, Ending.of(Reply("complete")))
    assert reply is not None
    return made.decision, Chat.objects.get(pk=reply.chat_id)


def stored(chat: Chat) -> list[Turn]:
    """What a chat holds, as turns."""
    texts = list(Message.objects.filter(chat=chat).order_by("seq").values_list("content", flat=True))
    return list(zip(texts[::2], texts[1::2], strict=True))


@pytest.mark.django_db
@pytest.mark.parametrize("seed", first_of(range(20)))
def test_every_history_is_where_the_oracle_says(seed: int) -> None:
    chance = random.Random(seed)  # no secret
    users = [User.objects.create(username=name) for name in ("alice", "bob")]
    oracles = {user.pk: Oracle() for user in users}
    chats: dict[tuple[int, int], Chat] = {}
    for _ in range(50):
        user = chance.choice(users)
        oracle = oracles[user.pk]
        history = history_of(chance, oracles[chance.choice(users).pk])
        turn = (chance.choice(WORDS), chance.choice(ANSWERS))
        decision, at, shared = oracle.place(history)
        got, chat = said_by(user, history, *turn)
        assert got == decision
        number = oracle.said(decision, at, shared, history, turn)
        assert chats.setdefault((user.pk, number), chat) == chat
        assert chat.owner_id == user.pk
        assert stored(chat) == oracle.chats[number]


def history_of(chance: random.Random, oracle: Oracle) -> list[Turn]:
    """What a client might send: a whole chat, an older state of it, an edited, a trimmed or a foreign one, nothing."""
    if not oracle.chats or chance.random() < 0.15:
        return []
    whole = list(chance.choice(oracle.chats))
    kind = chance.choice(("whole", "whole", "whole", "shorter", "trimmed", "edited", "foreign"))
    if kind == "shorter":
        return whole[: chance.randint(1, len(whole))]
    if kind == "trimmed":
        return whole[-chance.randint(1, len(whole)) :]
    if kind == "edited":
        at = chance.randrange(len(whole))
        return [*whole[:at], (f"Edited {chance.random()}", whole[at][1])]
    if kind == "foreign":
        return [(f"Elsewhere {chance.random()}", "Indeed.")]
    return whole
