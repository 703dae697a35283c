"""Which chat a history belongs to, compared with an oracle that compares whole texts and uses no hashes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from chatmemory.llm.protocol import Reply, ToolCall
from conversations.models import Chat
from conversations.openai_api import find_conversation, turns
from conversations.openai_api.history_keys import history_keys
from conversations.openai_api.request.chat_request import ChatRequest
from conversations.openai_api.request.history import HistoryMessage
from conversations.openai_api.turns import CompletionRequest
from conversations.replies import finish
from conversations.replies.begin import BegunTurn, TurnRequest, default_variant
from conversations.replies.finish import Ending
from conversations.replies.open_turn import ToolOutput
from tests.support.exhaustive import first_of

Turn = tuple[str, str]
"""A message and its answer. The answer `CALL:id` calls a tool; the next message is then its output, `OUT:id:text`."""
CALL, OUT = "CALL:", "OUT:"
CALLS = ("CALL:c1", "CALL:c2")
OUTPUTS = ("7", "nothing found")
WORDS = ("Hello", "yes", "ok", "And then?", "My order is AB-1234", "Thank you")
ANSWERS = ("Hello!", "Good.", "It was sent on 4 May.", "You are welcome.")


@dataclass
class Oracle:
    """The chats of one user as lists of turns, and the history the client had after every answer."""

    chats: list[list[Turn]] = field(default_factory=list)
    answers: list[tuple[list[Turn], int, int]] = field(default_factory=list)
    """For each answer: the client's history including it, the chat's index, and the chat's number of turns then."""

    def place(self, history: list[Turn]) -> tuple[str, int | None, int]:
        """What to do with a request of this history: the decision, the chat, and how many turns to copy from it."""
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
        """Record the turn and return the index of its chat."""
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
    """Handle one request as the view does, and finish its reply."""
    messages = tuple(one for asked, told in history for one in (sent(asked), answered(told)))
    request = ChatRequest(model="arco", new=(sent(question),), history=messages)
    keys = history_keys(settings.SECRET_KEY.encode(), user.pk, messages, request.new)
    outputs = tuple(ToolOutput(one.call_id, one.content) for one in request.outputs)
    turn = TurnRequest(message=request.question, variant=default_variant(), outputs=outputs)
    asked = CompletionRequest(user, request, keys, turn, b"body")
    place = find_conversation.find(user, request, keys, "")
    made = turns.begin(asked, place, turns.prepare(asked, place))
    assert made is not None
    assert isinstance(made.turn, BegunTurn)
    said = answered(answer)
    ending = Ending.of(Reply("complete", calls=said.calls))
    reply = finish.finish(made.turn.pending, said.content, ending)
    assert reply is not None
    return made.decision, Chat.objects.get(pk=reply.chat_id)


def sent(asked: str) -> HistoryMessage:
    if not asked.startswith(OUT):
        return HistoryMessage("user", asked)
    _, call_id, text = asked.split(":", 2)
    return HistoryMessage("tool", text, call_id=call_id)


def answered(told: str) -> HistoryMessage:
    if not told.startswith(CALL):
        return HistoryMessage("assistant", told)
    return HistoryMessage("assistant", "", (ToolCall(told.removeprefix(CALL), "look_up", "{}"),))


def stored(chat: Chat) -> list[Turn]:
    """The messages of a chat, as turns."""
    texts: list[str] = []
    for role, content, payload in chat.messages.order_by("seq").values_list("role", "content", "payload"):
        if role == "tool_call":
            texts[-1] = CALL + (payload or {})["call_id"]
        else:
            texts.append(f"{OUT}{(payload or {})['call_id']}:{content}" if role == "tool" else content)
    return list(zip(texts[::2], texts[1::2], strict=True))


def next_of(chance: random.Random, history: list[Turn]) -> Turn:
    """A random next turn: the output of a tool if the last answer called one, otherwise a user's message."""
    last = history[-1][1] if history else ""
    asked = chance.choice(WORDS)
    if last.startswith(CALL):
        asked = f"{OUT}{last.removeprefix(CALL)}:{chance.choice(OUTPUTS)}"
    return asked, chance.choice((*ANSWERS, *CALLS))


@pytest.mark.django_db
@pytest.mark.parametrize("seed", first_of(range(20)))
@pytest.mark.exhaustive
def test_every_history_is_where_the_oracle_says(seed: int) -> None:
    chance = random.Random(seed)  # not for secrets
    users = [User.objects.create(username=name) for name in ("alice", "bob")]
    oracles = {user.pk: Oracle() for user in users}
    chats: dict[tuple[int, int], Chat] = {}
    for _ in range(50):
        user = chance.choice(users)
        oracle = oracles[user.pk]
        history = history_of(chance, oracles[chance.choice(users).pk])
        turn = next_of(chance, history)
        decision, at, shared = oracle.place(history)
        got, chat = said_by(user, history, *turn)
        assert got == decision
        number = oracle.said(decision, at, shared, history, turn)
        assert chats.setdefault((user.pk, number), chat) == chat
        assert chat.owner_id == user.pk
        assert stored(chat) == oracle.chats[number]


def history_of(chance: random.Random, oracle: Oracle) -> list[Turn]:
    """A random history of a client: a whole chat, an older state, an edited, trimmed or foreign one, or none."""
    if not oracle.chats or chance.random() < 0.15:
        return []
    whole = list(chance.choice(oracle.chats))
    kind = chance.choice(("whole", "whole", "whole", "shorter", "trimmed", "edited", "foreign"))
    if kind == "shorter":
        return whole[: chance.randint(1, len(whole))]
    if kind == "trimmed":
        return from_question(whole[-chance.randint(1, len(whole)) :])
    if kind == "edited":
        at = chance.randrange(len(whole))
        asked, told = whole[at]
        head = ":".join(asked.split(":", 2)[:2]) + ":" if asked.startswith(OUT) else ""
        return [*whole[:at], (f"{head}Edited {chance.random()}", told)]
    if kind == "foreign":
        return [(f"Elsewhere {chance.random()}", "Indeed.")]
    return whole


def from_question(history: list[Turn]) -> list[Turn]:
    """The history without tool outputs at its start whose call was trimmed away: no client sends these."""
    first = next((at for at, (asked, _) in enumerate(history) if not asked.startswith(OUT)), len(history))
    return history[first:]
