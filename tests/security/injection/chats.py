"""Chats in which everything that memory shows contains one hostile text."""

from django.contrib.auth.models import User

from conversations.models import Chat
from memory.models import ConversationBrief
from memory.policies.protocol import State
from tests.support.factories import add_turns, make_chat

TURNS = 3


def state_of(policy: str, text: str) -> State:
    """Return a stored state with `text`, as its policy keeps it after cleaning: in one line, except for summaries."""
    line = " ".join(text.split())
    states = {
        "chunked": State(text),
        "interval": State(line),
        "progressive": State(text, {"important_data": {"key_decisions": [line]}, "summary_version": 1}),
        "hierarchical": State(text, {"facts": [{"key": "k", "value": line, "category": "GENERAL"}]}),
        "card": State("", {"goal": line, "decisions": [line]}),
    }
    return states.get(policy, State(line))


def chat_saying(policy: str, text: str) -> Chat:
    """Make a chat of alice's with `text` everywhere: in turns that were folded, and in turns that are still shown."""
    chat = make_chat(User.objects.get(username="alice"), policy=policy, title=text[:100], instructions="Be brief.")
    add_turns(chat, [(f"{text}{number}", f"{text}{number}") for number in range(TURNS)])
    state = state_of(policy, text)
    ConversationBrief.objects.filter(chat=chat).update(global_summary=state.summary, state=state.to_json())
    return chat
