"""Recall in a chat of 50,000 turns: its own cost, and the cost of a context with and without it.

The chat's words are as common and as rare as those of a language (by Zipf's law), so that questions can use rare words,
common words, or both. A second, shorter chat of the same owner uses the same words: it must not slow down the first.
The benchmark `turns` measures how flat a whole turn is without recall.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from statistics import median

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction

from benchmarks import chats
from benchmarks.figures import Figure, Group, percentile
from benchmarks.speech import Exchange
from chatmemory.text.tokens import count_tokens
from chatmemory.text.turn_line import make_line
from conversations.models import Chat, Message
from memory.context.build import preview
from memory.recall.index import OF_MESSAGES, merge
from memory.recall.question_search import Corpus, Search

TURNS = 50_000
OTHER_TURNS = 5_000
VOCABULARY = 20_000
USER_WORDS, REPLY_WORDS = 15, 45
ROUNDS = 200
SWEEPS = 15
RARE, COMMON = range(2_000, 12_000), range(20, 60)
"""Ranks of words: a rare one is in some tens of messages, a common one in some thousands."""
RECALL_BAR = 3.0
"""Milliseconds that the 95th percentile may be over a single select by an index."""


def run(owner: User, *, turns: int = TURNS) -> Group:
    """Measure recall's own time by kind of question, and whole contexts beside those of a chat of ten turns."""
    chance = random.Random(5)
    weights = list(accumulate(1 / (rank + 1) for rank in range(VOCABULARY)))
    words = [word(rank) for rank in range(VOCABULARY)]

    def said(number: int) -> str:
        return " ".join(chance.choices(words, cum_weights=weights, k=number))

    long = _chat(owner, turns, said)
    _chat(owner, min(turns, OTHER_TURNS), said)
    short = _chat(owner, 10, said)
    settle()
    asked = {
        "rare words": lambda: pick(chance, words, RARE, 4),
        "common words": lambda: pick(chance, words, COMMON, 4),
        "both": lambda: pick(chance, words, RARE, 2) + " " + pick(chance, words, COMMON, 3),
        "twelve words": lambda: said(20),
        "unknown words": lambda: "xyzzy plugh frotz",
    }
    select = _select(chance, long)
    figures = [Figure("a single select by an index, median", select, "ms", note="a message, by chat and seq")]
    figures += [_recall_alone(long, name, question, select) for name, question in asked.items()]
    figures += _turns(long, short, asked["both"])
    figures += _on_disk()
    return Group(f"Recall in a chat of {turns:,} turns", tuple(figures))


def _select(chance: random.Random, chat: Chat) -> float:
    """Return the median milliseconds of one indexed select; every recall takes several such selects, and more."""
    table = connection.ops.quote_name(Message._meta.db_table)
    key = Message._meta.get_field("chat").get_db_prep_value(chat.pk, connection)
    spent = []
    for _ in range(ROUNDS):
        seq = chance.randrange(1, chat.last_seq)
        with transaction.atomic():
            started = time.perf_counter()
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT terms FROM {table} WHERE chat_id = %s AND seq = %s", [key, seq])
                cursor.fetchall()
            spent.append((time.perf_counter() - started) * 1000)
    return median(spent)


def _on_disk() -> list[Figure]:
    """Measure the size of the index, beside that of the messages with all their columns."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_relation_size(%s), pg_table_size(%s)", [OF_MESSAGES.name, OF_MESSAGES.table])
            index, messages = cursor.fetchone()
        else:
            cursor.execute(f"SELECT sum(length(block)) FROM {OF_MESSAGES.fts}_data")
            (index,) = cursor.fetchone()
            cursor.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
            messages = cursor.fetchone()[0] - index
    count = Message.objects.count()
    note = f"{index / count:.0f} bytes a message, of {count:,}; all else of the table takes {messages / 2**20:.0f} MiB"
    if connection.vendor != "postgresql":
        note = note.replace("of the table", "in the file")
    return [Figure("the index, on disk", index / 2**20, "MiB", note=note)]


def _recall_alone(chat: Chat, name: str, question: Callable[[], str], select: float) -> Figure:
    spent: list[float] = []
    worked: list[float] = []
    found = 0
    for number in range(ROUNDS + 10):
        text = question()
        with transaction.atomic():
            started, work = time.perf_counter(), time.thread_time()
            answer = Search(Corpus.of_chat(chat.key, chat.last_seq + 1), text).recalled(1000)
            took, work = (time.perf_counter() - started) * 1000, (time.thread_time() - work) * 1000
        if number >= 10:
            spent.append(took)
            worked.append(work)
            found += len(answer.excerpts)
    own = f"of this process alone {median(worked):.2f} and {percentile(worked, 0.95):.2f}"
    note = f"median {median(spent):.2f} ms; {own}; {found / ROUNDS:.1f} excerpts"
    late = percentile(spent, 0.95)
    return Figure(f"recall by {name}, 95th percentile", late, "ms", bar=round(select + RECALL_BAR, 2), note=note)


def _turns(long: Chat, short: Chat, question: Callable[[], str]) -> list[Figure]:
    """Measure a context in a long chat and in a short one, in turn, with recall and without."""
    usual = settings.MEMORY_RECALL_SHARE
    spent: dict[str, list[float]] = {"long, with": [], "long, without": [], "short": []}
    for _ in range(ROUNDS):
        text = question()
        for name, chat, share in (
            ("long, with", long, 0.33),
            ("long, without", long, 0.0),
            ("short", short, 0.33),
        ):
            settings.MEMORY_RECALL_SHARE = share
            started = time.perf_counter()
            preview(chat, text)
            spent[name].append((time.perf_counter() - started) * 1000)
    settings.MEMORY_RECALL_SHARE = usual
    without, short_one = median(spent["long, without"]), median(spent["short"])
    note = f"without recall {without:.2f} ms; in a chat of ten turns {short_one:.2f}"
    return [Figure("the whole context, median", median(spent["long, with"]), "ms", note=note)]


def _chat(owner: User, turns: int, said: Callable[[int], str]) -> Chat:
    exchanges = tuple(_exchange(said(USER_WORDS), said(REPLY_WORDS)) for _ in range(turns))
    return chats.make_chat(owner, turns, said=exchanges, records=False)


def _exchange(user: str, assistant: str) -> Exchange:
    counts = count_tokens(user), count_tokens(assistant)
    return Exchange(user, assistant, *counts, "", make_line(user, assistant))


def word(rank: int) -> str:
    """Return a distinct word for each rank, of letters only, which is neither a stop word nor changed by stemming."""
    letters = "bdfgklmnprtvz"
    parts = []
    number = rank + 200
    while number:
        number, part = divmod(number, len(letters))
        parts.append(letters[part] + "aiou"[part % 4])
    return "".join(parts) + "x"


def pick(chance: random.Random, words: Sequence[str], ranks: range, number: int) -> str:
    return " ".join(words[rank] for rank in chance.sample(ranks, number))


def settle() -> None:
    """Do what some minutes of sweeps, and the database itself, do after so many new rows."""
    for _ in range(SWEEPS):
        merge()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")
