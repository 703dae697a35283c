"""An app with many end users: what one of them feels of the others, and what staff feel of all.

10,000 end users with 5 chats each, made in bulk. A turn, the list of chats and the admin's filtered lists of one of
them are timed in turn with those of a user with 5 chats who belongs to no app, and compared with what that user's
took before the app was there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from statistics import median
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from knox.models import AuthToken

from benchmarks import bulk
from benchmarks.chats import make_chat
from benchmarks.engine.budgets import Prompts
from benchmarks.engine.turns import Bench
from benchmarks.figures import Figure, Group, ratio
from chatmemory.database.ids import new_id
from conversations.accounts import api_tokens
from conversations.accounts.end_users import create_app, create_end_user
from conversations.accounts.models import App, EndUser, Scope
from conversations.models import Chat, Message, Role, Status

END_USERS, CHATS = 10_000, 5
TURNS = 10
ROUNDS, WARM_UP = 60, 10
BAR = 1.1
BATCH = 5_000
Acts = dict[str, Callable[[], object]]


def run(owner: User, *, end_users: int = END_USERS) -> Group:
    """Time what one does, before and after there are many."""
    staff = Client(SERVER_NAME="127.0.0.1")
    staff.force_login(User.objects.create_superuser("looks"))
    token = AuthToken.objects.create(owner)[1]
    alone = _acts(owner, staff, {"Authorization": f"Bearer {token}"}, {"owner__id__exact": owner.pk})
    before = _timed({name: {"alone": act} for name, act in alone.items()})
    app = create_app("shop")
    _fill(app, end_users)
    anna = create_end_user(app, "anna").user
    issued = api_tokens.issue(app.user, None, "", [Scope.ACT_FOR_USERS])
    assert issued is not None
    headers = {"Authorization": f"Bearer {issued[1]}", "X-Chatmemory-User": "anna"}
    among = _acts(anna, staff, headers, {"owner__id__exact": anna.pk}, app)
    alone[ADMIN_APP] = alone[ADMIN]
    among[ADMIN_APP] = _page(staff, {"app": app.pk, "owner__id__exact": anna.pk})
    before[ADMIN_APP] = before[ADMIN]
    after = _timed({name: {"alone": alone[name], "among": act} for name, act in among.items()})
    title = f"One of {end_users:,} end users with {end_users * CHATS:,} chats"
    return Group(title, tuple(_figures(before, after)))


ADMIN, ADMIN_APP = "the admin's chats of one owner", "the same, filtered by the app, too"


def _acts(user: User, staff: Client, headers: dict[str, str], owner: dict[str, int], app: App | None = None) -> Acts:
    """What is timed of one user, who gets chats."""
    chats = [make_chat(user, TURNS) for _ in range(CHATS)]
    Chat.objects.filter(owner=user).update(app=app)
    chats[-1].refresh_from_db()
    bench = Bench("", user, chats[-1], Prompts())
    api = Client(SERVER_NAME="127.0.0.1", headers=headers)

    def turn() -> None:
        bench._turn()
        spent = time.perf_counter()
        bench.reset()
        _untimed.append(time.perf_counter() - spent)

    return {"a turn": turn, "the list of chats": lambda: _get(api, "/v1/chats"), ADMIN: _page(staff, owner)}


_untimed: list[float] = []
"""Seconds that the act that is timed spent on setting back what it did."""


def _page(staff: Client, query: dict[str, int]) -> Callable[[], object]:
    url = reverse("admin:conversations_chat_changelist")
    return lambda: _get(staff, url, query)


def _get(client: Client, url: str, query: dict[str, int] | None = None) -> None:
    response = client.get(url, query)
    if response.status_code != 200:
        raise RuntimeError(f"{url} answered {response.status_code}")


def _timed(acts: dict[str, Acts]) -> dict[str, dict[str, list[float]]]:
    """Return milliseconds by act and by who does it, in rounds of one each, so that all drift alike."""
    spent = {name: {who: list[float]() for who in whose} for name, whose in acts.items()}
    for number in range(WARM_UP + ROUNDS):
        for name, whose in acts.items():
            for who, act in whose.items():
                _untimed.clear()
                started = time.perf_counter()
                act()
                took = time.perf_counter() - started - sum(_untimed)
                if number >= WARM_UP:
                    spent[name][who].append(took * 1000)
    return spent


def _figures(before: dict[str, dict[str, list[float]]], after: dict[str, dict[str, list[float]]]) -> Iterator[Figure]:
    for name, whose in after.items():
        was, alone, among = before[name]["alone"], whose["alone"], whose["among"]
        note = f"{median(among):.2f} ms; without an app {median(alone):.2f} ms, before {median(was):.2f} ms"
        yield Figure(
            f"{name}, over that of a user without an app",
            ratio(among, alone),
            "×",
            bar=BAR,
            portable=True,
            note=note,
        )
        yield Figure(f"{name}, over that before", median(among) / median(was), "×", bar=BAR)


@transaction.atomic
def _fill(app: App, end_users: int) -> None:
    """Store the end users with their chats, each of one message."""
    now = timezone.now()
    for start in range(0, end_users, BATCH):
        numbers = range(start, min(end_users, start + BATCH))
        bulk.insert([User(username=f"{app}/{number}", password="!", date_joined=now) for number in numbers])
        users = list(User.objects.filter(username__startswith=f"{app}/").order_by("-pk")[: len(numbers)])
        bulk.insert(
            [
                EndUser(user=one, app=app, external_id=one.username.partition("/")[2], **_now(EndUser, now))
                for one in users
            ]
        )
        chats = [
            Chat(owner=one, app=app, policy="chunked", title="One of many", last_seq=1, **_now(Chat, now))
            for one in users
            for _ in range(CHATS)
        ]
        bulk.insert(chats)
        bulk.insert([_message(chat, now) for chat in chats])


def _now(model: type[Model], now: datetime) -> dict[str, Any]:
    names = ("created_at", "updated_at", "last_message_at")
    return {one.name: now for one in model._meta.concrete_fields if one.name in names}


def _message(chat: Chat, now: datetime) -> Message:
    return Message(
        id=new_id(),
        chat=chat,
        seq=1,
        role=Role.USER,
        content="Where is my order?",
        status=Status.COMPLETE,
        terms="",
        created_at=now,
        completed_at=now,
    )
