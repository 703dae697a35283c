"""NUL characters, which PostgreSQL cannot store: every text of a request's body refuses them."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from knox.models import AuthToken

from conversations.accounts.end_users import create_end_user
from conversations.accounts.models import App, Scope, TokenGrant
from conversations.models import Message
from memory.pins import pins
from tests.admin.rows import make_chat
from tests.security.access.operations import Operation, operations
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

NUL = "a\0b"
LIBERAL = "chats_import"
"""Takes what others wrote, and removes NULs: see `tests/unit/interchange/test_services.py`."""
Path = tuple[str | int, ...]


def texts(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of each text in a filled body, including the names in free objects."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts(inner, (*path, key))


def with_nul(body: Any, path: Path) -> Any:
    changed = copy.deepcopy(body)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = NUL
    return changed


def remembered() -> dict[str, Any]:
    """Make a chat of alice's, an app, with a revision, and return the ids with its last question."""
    alice = User.objects.get(username="alice")
    create_end_user(App.objects.create(user=alice, requires_end_user=False), "anna")
    TokenGrant.objects.create(token=AuthToken.objects.get(user=alice), scopes=[Scope.ACT_FOR_USERS])
    chat = make_chat(alice, title="A trip", said="Hello")
    call_command("resummarize", str(chat.pk), sync=True)
    question = Message.objects.filter(chat=chat, role="user").latest("seq")
    pin, _ = pins.pin(alice, chat.pk, text="Be brief.")
    return {
        "chat_id": str(chat.pk),
        "message_id": str(question.pk),
        "version": 1,
        "pin_id": str(pin.pk),
        "end_user": "anna",
    }


@pytest.mark.parametrize(
    "one",
    first_of([one for one in operations() if one.body is not None and one.id != LIBERAL], 4),
    ids=lambda one: one.id,
)
def test_no_text_field_accepts_nul(one: Operation, alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.MEMORY_EMBEDDINGS_MODEL = "arco"
    filled = one.fill({**remembered(), "username": "alice", "password": "x", "metadata": {"lesson": "one"}})
    found = list(texts(filled.body))
    for path in found:
        answer = alice.http.request(
            filled.method, filled.path, params=dict(filled.query), json=with_nul(filled.body, path)
        )
        if one.id in ("completions_create", "responses_create", "embeddings_create"):
            # As OpenAI: no model has such a name, and in a message or an input it is removed.
            is_choice = path[-1] in ("role", "encoding_format")
            assert answer.status_code == (404 if path == ("model",) else 400 if is_choice else 200), path
            continue
        assert answer.status_code == 400, f"{path}: {answer.text}"
        assert answer.json()["error"]["code"] == "invalid_request"
