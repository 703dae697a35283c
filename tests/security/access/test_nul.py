"""NUL characters, which PostgreSQL cannot store: every text of a request's body refuses them."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from knox.models import AuthToken

from conversations.accounts.end_users import create_end_user
from conversations.accounts.models import App, Scope, TokenGrant
from tests.security.access.callers import END_USER, OwnedObjects
from tests.security.access.operations import Operation, operations
from tests.support.exhaustive import first_of
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


@pytest.mark.parametrize(
    "one",
    first_of([one for one in operations() if one.body is not None and one.id != LIBERAL], 4),
    ids=lambda one: one.id,
)
def test_no_text_field_accepts_nul(one: Operation, alice: Client, owned_objects: OwnedObjects) -> None:
    user = User.objects.get(username="alice")
    create_end_user(App.objects.create(user=user, requires_end_user=False), END_USER)
    token = AuthToken.objects.filter(user=user).earliest("created")
    TokenGrant.objects.create(token=token, scopes=[Scope.ACT_FOR_USERS])
    ids = {name: value for name, value in owned_objects.question.items() if name != "Idempotency-Key"}
    filled = one.fill({**ids, "username": "alice", "password": "x", "metadata": {"lesson": "one"}})
    for path in texts(filled.body):
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
