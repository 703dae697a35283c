"""Every tool of agents × every caller who does not own its object: nothing is told, and nothing happens."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from conversations.models import Chat
from memory.mcp.tools import TOOLS
from tests.security.access.callers import (
    APP,
    BESIDE,
    CANARY,
    END_USER,
    OTHERS,
    READS,
    STRANGERS,
    UNKNOWN,
    UNSCOPED,
    Caller,
    Ids,
    OwnedObjects,
    nowhere,
    of_app,
    owned_by,
    with_token,
)
from tests.security.access.operations import Filled
from tests.security.access.traces import everything
from tests.support.exhaustive import first_row_of
from tests.support.fakes.upstream import FakeUpstream

pytestmark = pytest.mark.nightly


def calls_of(ids: Ids) -> list[tuple[str, dict[str, Any]]]:
    """Calls of all tools that take an object, with each kind of id."""
    return [
        ("fetch", {"id": ids["message_id"]}),
        ("get_memory", {"chat_id": ids["chat_id"]}),
        ("remember", {"chat_id": ids["chat_id"], "text": "A word."}),
        *(
            ("forget", {"kind": kind, "id": ids[f"{kind}_id"], "confirm": confirm})
            for kind in ("message", "pin", "chat")
            for confirm in (None, 1, 2, 3, 4, 5)
        ),
    ]


OF_ONESELF: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": CANARY}),
    ("list_chats", {}),
    ("list_chats", {"words": CANARY}),
    ("get_memory", {}),
]


def filled(tool: str, arguments: dict[str, Any]) -> Filled:
    params = {"name": tool, "arguments": arguments}
    return Filled("POST", "/mcp", body={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def told(caller: Caller, tool: str, arguments: dict[str, Any]) -> str:
    """What a call of the tool answers."""
    answer = caller.send(filled(tool, arguments))
    assert answer.status_code == 200, answer.text
    return answer.text


def test_every_tool_is_covered() -> None:
    assert {tool for tool, _ in [*calls_of(nowhere()), *OF_ONESELF]} == set(TOOLS)


@pytest.mark.parametrize(
    ("owned", "name", "status"),
    [
        *(("owned_objects", name, 401) for name in (*UNKNOWN, "superuser, session")),
        *first_row_of(("end_users_house", name, 403) for name in UNSCOPED),
    ],
    indirect=["owned"],
)
@pytest.mark.promise("P21")
def test_tool_called_without_token_or_scope_is_refused(
    owned: OwnedObjects, name: str, status: int, calling: Callable[..., Caller]
) -> None:
    caller, before = (UNKNOWN | STRANGERS | UNSCOPED)[name](calling), everything()
    for tool, arguments in [*calls_of(owned.idle), *OF_ONESELF]:
        assert caller.send(filled(tool, arguments)).status_code == status, tool
    assert everything() == before


@pytest.mark.parametrize(
    ("owned", "name"), [one for one in OTHERS if "session" not in str(one.values)], indirect=["owned"]
)
@pytest.mark.promise("P21")
def test_tool_called_by_another_user_or_end_user_finds_nothing(
    owned: OwnedObjects, name: str, calling: Callable[..., Caller]
) -> None:
    """Answers are those for objects that do not exist, and nothing changes."""
    caller = (STRANGERS | BESIDE)[name](calling)
    if name in BESIDE:
        caller.send(Filled("POST", "/v1/chats", body={}))  # makes the end user
    before = everything()
    secret = [CANARY, *(str(ids[what]) for ids in owned.all for what in ("chat_id", "message_id", "pin_id"))]
    for ids in owned.all:
        for (tool, arguments), (_, absent) in zip(calls_of(ids), calls_of(nowhere()), strict=True):
            answer = told(caller, tool, arguments)
            assert answer == told(caller, tool, absent), tool
            assert json.loads(answer)["result"]["isError"], tool
    for tool, arguments in OF_ONESELF:
        answer = told(caller, tool, arguments)
        assert "isError" not in answer, answer
        assert not [word for word in secret if word in answer], tool
    assert everything() == before


@pytest.mark.promise("P21")
def test_tool_called_with_a_read_only_token_changes_nothing(
    calling: Callable[..., Caller], end_users_house: OwnedObjects
) -> None:
    caller, before = of_app(APP, END_USER, *READS)(calling), owned_by(f"{APP}/{END_USER}")
    for tool, arguments in [*calls_of(end_users_house.idle), *OF_ONESELF]:
        assert ("error" in json.loads(told(caller, tool, arguments))) == TOOLS[tool].writes, tool
    assert owned_by(f"{APP}/{END_USER}") == before


@pytest.mark.promise("P21")
def test_tool_called_by_its_owner_succeeds(
    calling: Callable[..., Caller], owned_objects: OwnedObjects, upstream: FakeUpstream
) -> None:
    """The control: the refusals above are due to the caller."""
    caller = with_token(calling, User.objects.get(username="alice"))
    deletions = [one for one in calls_of(owned_objects.idle) if one[0] == "forget" and one[1]["confirm"] is None]
    others = [one for one in calls_of(owned_objects.idle) if one[0] != "forget"]
    for tool, arguments in [*OF_ONESELF, *others, *deletions]:
        result = json.loads(told(caller, tool, arguments))["result"]
        assert "isError" not in result, (tool, result)
        if tool == "forget":
            confirmed = arguments | {"confirm": result["structuredContent"]["count"]}
            assert json.loads(told(caller, tool, confirmed))["result"]["structuredContent"]["deleted"], arguments
    assert not Chat.objects.filter(pk=owned_objects.idle["chat_id"]).exists()
