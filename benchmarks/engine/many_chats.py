"""1,000,000 chats and 1,000, in two databases of one server: a turn, lists and a sweep, in turn in both.

Each database has its own process, `python -m benchmarks.engine.many_chats NUMBER`, which makes the chats, does what it
reads a line of, and answers each line with the milliseconds that it took. Chats are copies of one of a single turn.
They take turns to belong to users with 100 chats each, so that a user's are spread over the tables. PostgreSQL only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import IO, TYPE_CHECKING, Any

import django

from benchmarks import databases
from benchmarks.figures import Figure, ratio

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.db.models import Model

FEW, MANY = 1_000, 1_000_000
A_USER = 100
"""Chats of each user, and of the one whose turns and lists are timed."""
ROUNDS, WARM_UP = 60, 10
BAR = 1.2
ACTS = ("a turn", "the list of chats", "the admin's list of chats", "a sweep", "the gauges of /metrics")
Ask = Callable[[str], float]


def figures(many: int = MANY, rounds: int = ROUNDS) -> Iterator[Figure]:
    """Time what is done with many chats, and with few."""
    spent: dict[str, tuple[list[float], list[float]]] = {act: ([], []) for act in ACTS}
    with ExitStack() as stack:
        asks = [stack.enter_context(_world(number)) for number in (many, FEW)]
        for number in range(WARM_UP + rounds):
            for act, both in spent.items():
                for ask, times in zip(asks, both, strict=True):
                    took = ask(act)
                    if number >= WARM_UP:
                        times.append(took)
    for act, (among_many, among_few) in spent.items():
        note = f"{median(among_many):.2f} ms; with {FEW:,} {median(among_few):.2f} ms; medians of {rounds}"
        yield Figure(
            f"{act} with {many:,} chats, over that with {FEW:,}",
            ratio(among_many, among_few),
            "×",
            bar=BAR,
            portable=True,
            note=note,
        )


@contextmanager
def _world(number: int) -> Iterator[Ask]:
    """Run the process of a database with that many chats."""
    with databases.postgres(f"bench_{number}") as url:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.engine.many_chats", str(number)],
            env={**os.environ, "DATABASE_URL": url, "LOG_LEVEL": "WARNING"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            given, told = process.stdin, process.stdout
            assert given is not None
            assert told is not None
            try:
                yield lambda act: _ask(given, told, act)
            finally:
                given.close()


def _ask(given: IO[str], told: IO[str], act: str) -> float:
    print(act, file=given, flush=True)
    return float(told.readline())


def main(number: int) -> None:
    """Make the chats, then answer until standard input ends."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    acts = _acts(number)
    for line in sys.stdin:
        print(acts[line.strip()](), flush=True)


def _acts(number: int) -> dict[str, Callable[[], float]]:
    """Make `number` chats and return what is timed, as functions that return milliseconds."""
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client
    from django.urls import reverse
    from knox.models import AuthToken

    from benchmarks.chats import make_chat
    from benchmarks.engine.budgets import Prompts
    from benchmarks.engine.turns import Bench
    from memory.probes import STORED
    from memory.worker.sweep import sweep

    _fill(number)
    owner = User.objects.create_user("anna")
    chats = [make_chat(owner, 10) for _ in range(A_USER)]
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")
    bench = Bench("", owner, chats[A_USER // 2], Prompts())
    staff = Client(SERVER_NAME="127.0.0.1")
    staff.force_login(User.objects.create_superuser("looks"))
    page = reverse("admin:conversations_chat_changelist")
    token = AuthToken.objects.create(owner)[1]
    api = Client(SERVER_NAME="127.0.0.1", headers={"Authorization": f"Bearer {token}"})

    def turn() -> float:
        took = _milliseconds(bench._turn)
        bench.reset()
        return took

    return dict(
        zip(
            ACTS,
            (
                turn,
                lambda: _milliseconds(lambda: _get(api, "/v1/chats")),
                lambda: _milliseconds(lambda: _get(staff, page)),
                lambda: _milliseconds(sweep),
                lambda: _milliseconds(lambda: [read() for _, read in STORED.values()]),
            ),
            strict=True,
        )
    )


def _milliseconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return (time.perf_counter() - started) * 1000


def _get(client: Any, url: str) -> None:
    response = client.get(url)
    if response.status_code != 200:
        raise RuntimeError(f"{url} answered {response.status_code}")


# The chats


def _fill(number: int) -> None:
    """Copy the rows of a chat of one turn, which is deleted, `number` times, in a statement for each table."""
    from django.contrib.auth.models import User
    from django.db import connection, transaction

    from benchmarks.chats import make_chat
    from benchmarks.speech import Exchange
    from conversations.models import Chat, Message
    from memory.models import ContextRecord, ConversationBrief
    from memory.recall import index

    users = number // A_USER
    said = Exchange("Where is my order?", "It left on Monday.", 5, 6, "It left on Monday.", "User: Where is it?")
    first: User = User.objects.create_user("copied")
    chat = make_chat(first, 1, said=(said,))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")  # no look-up for each reference
        cursor.execute("SET LOCAL maintenance_work_mem = '512MB'")
        cursor.execute(f"DROP INDEX {index.OF_MESSAGES.name}")
        _copy(cursor, User, users, {"id": "nextval('auth_user_id_seq')", "username": "'user ' || n"})
        owner = f"{first.pk} + 1 + n % {users}"
        ago = f"now() - ({number} - n) * interval '1 second'"
        times = dict.fromkeys(("created_at", "updated_at", "last_message_at", "completed_at"), ago)
        ids = {"owner_id": owner, "chat_id": _id("chat"), **times}
        _copy(cursor, Chat, number, {**ids, "id": _id("chat")})
        for seq, name in enumerate(("question", "reply"), start=1):
            changed = {**ids, "id": _id(name)} | ({"reply_to_id": _id("question")} if seq == 2 else {})
            _copy(cursor, Message, number, changed, f"WHERE seq = {seq} AND chat_id = '{chat.pk}'")
        _copy(cursor, ContextRecord, number, {**ids, "reply_id": _id("reply")})
        _copy(cursor, ConversationBrief, number, ids)
        index.ensure()
    first.delete()


def _copy(cursor: Any, model: type[Model], number: int, changed: dict[str, str], which: str = "") -> None:
    """Copy the only row (of those `which` selects), with other values in some columns, for n from 1 to `number`."""
    columns = [str(field.column) for field in model._meta.concrete_fields]
    if columns[0] == "id" and "id" not in changed:
        raise ValueError(f"copies of {model} need ids")
    values = ", ".join(changed.get(name, name) for name in columns)
    cursor.execute(
        f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) SELECT {values}"
        f" FROM (SELECT * FROM {model._meta.db_table} {which}) AS copied, generate_series(1, {number}) AS n"
    )


def _id(kind: str) -> str:
    """An expression of a UUIDv7 that grows with `n`, and is random at its end."""
    chance = f"md5('{kind}' || n)"
    return (
        f"(lpad(to_hex(1700000000000 + n), 12, '0') || '7' || substr({chance}, 1, 3)"
        f" || '8' || substr({chance}, 4, 15))::uuid"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
