"""Undoing: whether a restore costs the same in a long chat, and how long others wait while a message is forgotten.

The restore goes back over the turns of three folds. The message is forgotten in a chat that was never folded, so all
turns are counted again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from statistics import median

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F

from benchmarks import chats
from benchmarks.figures import Figure, Group
from conversations.message_changes import forget_message
from conversations.models import Chat, Message
from memory.models import ConversationBrief
from memory.revisions.by_hand import restore

SHORT, LONG = 200, 20_000
ROUNDS = 30
RATIO_BAR = 1.5


def run(owner: User, *, long: int = LONG) -> Group:
    """Measure restores in two chats in turn, and forgetting a message in a third while another thread writes."""
    figures = (_restoring(owner, long), *_forgetting(owner, long))
    return Group(f"Taking back, in chats of {long:,} turns", figures)


def _restoring(owner: User, long: int) -> Figure:
    both = [chats.make_chat(owner, turns, records=False) for turns in (SHORT, long)]
    versions = [ConversationBrief.objects.get(pk=chat.pk).version - 3 for chat in both]
    _settle()
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for chat, version, times in zip(both, versions, spent, strict=True):
            times.append(_seconds(lambda chat=chat, version=version: restore(chat, version)) * 1000)  # type: ignore[misc]  # the lambda's defaults
    near, far = median(spent[0]), median(spent[1])
    note = f"{near:.1f} ms with {SHORT} turns, {far:.1f} with {long:,}"
    return Figure(
        "restoring over three folds, long over short", far / near, "", bar=RATIO_BAR, portable=True, note=note
    )


def _forgetting(owner: User, long: int) -> tuple[Figure, Figure]:
    chat = chats.make_chat(owner, long, unfolded=long, records=False)
    _settle()
    message = Message.objects.get(chat=chat, seq=long + 1)
    waits: list[float] = []
    over = threading.Event()
    writer = threading.Thread(target=_write, args=(Chat.objects.create(owner=owner, policy="chunked"), over, waits))
    writer.start()
    try:
        whole = _seconds(lambda: forget_message(chat.key, message.pk))
    finally:
        over.set()
        writer.join()
    return (
        Figure("forgetting a message, none folded", whole * 1000, "ms"),
        Figure("others' longest wait meanwhile", max(waits) * 1000, "ms", note=f"{len(waits):,} writes"),
    )


def _write(chat: Chat, over: threading.Event, waits: list[float]) -> None:
    """Write repeatedly to another chat and record how long each write takes."""
    while not over.is_set():
        waits.append(_seconds(lambda: Chat.objects.filter(pk=chat.pk).update(last_seq=F("last_seq") + 1)))
        time.sleep(0.002)
    connection.close()


def _settle() -> None:
    """Update the planner's statistics, as the database does by itself after so many new rows."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
