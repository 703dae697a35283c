"""Checks of the database after a case: the invariants of its users' chats, and everything that clients were told.

Runs in a process with the product's settings, and only reads the tables. `problems` returns sentences.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.contrib.auth.models import User

from conversations.models import ActiveReply, Chat, IdempotencyKey, Message, Role
from memory.folding import leases
from memory.models import ContextRecord, ConversationBrief, SummaryRevision
from tests.processes.prompts import codes
from tests.support.invariants import bill, violations

Turns = list[dict[str, Any]]


def unsettled(users: list[str]) -> list[str]:
    """Return the work still pending in the chats of these users."""
    active = ActiveReply.objects.filter(chat__owner__username__in=users)
    found = [f"a reply in chat {chat}" for chat in active.values_list("chat_id", flat=True)]
    # An expired lease that a dead worker left on a chat without work does not count.
    wanted = leases.FLAGGED | ~leases.unleased()
    briefs = ConversationBrief.objects.filter(wanted, chat__owner__username__in=users)
    return found + [
        f"memory of chat {brief.pk}: due {brief.due}, requested {brief.requested!r}, attempts {brief.attempts}, "
        f"lease {brief.lease_owner!r}, error {brief.last_error}"
        for brief in briefs
    ]


def problems(case: dict[str, Any]) -> list[str]:
    """Return everything that is wrong. `case` has the users, the turns of their journal, and all prompts."""
    users = list(User.objects.filter(username__in=case["users"]))
    turns: Turns = case["turns"]
    return [
        *(f"chat {chat.pk}: {text}" for chat in Chat.objects.filter(owner__in=users) for text in violations(chat)),
        *(f"user {user.pk}: {text}" for user in users for text in bill(user)),
        *acknowledged(turns),
        *nothing_twice(turns, case["imported"]),
        *asked_once(turns, case["prompts"]),
        *nothing_left_out(case["prompts"], users),
        *mixed([*(text for _, text in case["prompts"]), *case["inputs"]]),
    ]


def mixed(sent: list[str]) -> Iterator[str]:
    """Yield texts that the upstream was sent with codes of two users (P24)."""
    for text in sent:
        if len({code[:2] for code in codes(text)}) > 1:
            yield f"a request has codes of two users: {sorted(codes(text))}"


def acknowledged(turns: Turns) -> Iterator[str]:
    """Yield violations: each message and final event is stored as told (P1), each key leads to its turn (P2)."""
    ids = [one for turn in turns if turn["ids"][2] for one in turn["ids"][1:]]
    stored = {str(row.pk): row for row in Message.objects.filter(pk__in=ids)}
    keys = {(row.user.username, row.key): row for row in IdempotencyKey.objects.select_related("user")}
    for turn in turns:
        chat_id, question_id, reply_id = turn["ids"]
        if not reply_id:
            yield f"turn {turn['key']} was never acknowledged"
            continue
        question, reply = stored.get(question_id), stored.get(reply_id)
        if question is None or (str(question.chat_id), question.content) != (chat_id, turn["text"]):
            yield f"turn {turn['key']}: its question is not stored as it was said"
        if reply is None or (str(reply.chat_id), str(reply.reply_to_id)) != (chat_id, question_id):
            yield f"turn {turn['key']}: its reply is not stored"
        elif turn["final"] and (reply.content, reply.status, reply.seq) != _told(turn["final"]):
            yield f"turn {turn['key']}: its reply is not stored as it was told"
        key = keys.get((turn["user"], turn["key"]))
        if key is None or [str(key.chat_id), str(key.user_message_id), str(key.message_id)] != turn["ids"]:
            yield f"turn {turn['key']}: its key does not lead to it"


def _told(final: dict[str, Any]) -> tuple[str, str, int]:
    return final["content"], final["status"], final["seq"]


def nothing_twice(turns: Turns, imported: list[str]) -> Iterator[str]:
    """Yield violations: each question is stored once, each answer belongs to a turn, no other chats exist (P2)."""
    users = {turn["user"] for turn in turns}
    theirs = Message.objects.filter(chat__owner__username__in=users).exclude(chat_id__in=imported)
    questions = Counter(theirs.filter(role=Role.USER).values_list("content", flat=True))
    if questions != Counter(turn["text"] for turn in turns if not turn["again"]):
        yield f"questions stored: {questions.most_common(3)} of {len(turns)} turns"
    replies = theirs.filter(role=Role.ASSISTANT).count()
    if replies != len(turns):
        yield f"{replies} replies of {len(turns)} turns"
    chats = Chat.objects.filter(owner__username__in=users).exclude(pk__in=imported).count()
    if chats != len({turn["ids"][0] for turn in turns}):
        yield f"{chats} chats, and the users know of {len({turn['ids'][0] for turn in turns})}"


def asked_once(turns: Turns, prompts: list[list[str]]) -> Iterator[str]:
    """Yield problems: the upstream was called at most once per key (P2)."""
    allowed = Counter(turn["text"] for turn in turns)
    for question, count in Counter(question for question, _ in prompts).items():
        if count > allowed[question]:
            yield f"the upstream was asked {count} times for {allowed[question]} keys: {question[:40]}"


def nothing_left_out(prompts: list[list[str]], users: list[User]) -> Iterator[str]:
    """Yield problems: a turn missing from a prompt was in the summary of that time, or counted as left out (P11)."""
    records: dict[str, list[tuple[ContextRecord, Message]]] = {}
    chosen = ContextRecord.objects.filter(reply__chat__owner__in=users)
    for record in chosen.select_related("reply__reply_to"):
        question = record.reply.reply_to
        assert question is not None
        records.setdefault(question.content, []).append((record, question))
    for text, prompt in prompts:
        if text in records and not any(_holds(prompt, *one) for one in records[text]):
            yield f"a prompt leaves turns out that are not accounted for: {text[:40]}"


def _holds(prompt: str, record: ContextRecord, question: Message) -> bool:
    through = 0
    if record.revision:
        span = SummaryRevision.objects.filter(chat=question.chat_id, version=record.revision)
        through = span.values_list("through_seq", flat=True).get()
    before = Message.objects.filter(
        chat=question.chat_id, role=Role.USER, seq__gt=through, seq__lt=question.seq
    ).values_list("content", flat=True)
    missing = [text for text in before if not codes(text) <= codes(prompt)]
    return len(missing) <= record.unrepresented
