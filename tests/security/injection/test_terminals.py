"""Hostile text sends no escape sequence to a terminal: in logs, in the output of commands, in files they write."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.runtime.escape import plain, plain_json, plain_lines
from chatmemory.runtime.logs import logging_config
from chatmemory.text.turn_line import plain_title
from conversations.models import Chat, Message
from tests.support.commands import refusal, run
from tests.support.factories import add_turns, make_chat
from tests.support.live_server import Client

pytestmark = pytest.mark.exhaustive

ESCAPES = (
    "\x1b[31mred\x1b]0;title\x07\x9b2J\rover\x7f \u202egnp\u2066\u2028\u2029\x85\u200b\U000e0041 [bold]x[/] \ufeffend"
)
ACTS = set("\x1b\x07\x9b\r\x7f\u202e\u2066\u2028\u2029\x85\u200b\U000e0041\ufeff")


@pytest.mark.promise("P24")
@pytest.mark.parametrize("style", ["json", "console"])
def test_logs_contain_no_terminal_controls(
    style: str, user_client: Callable[[str], Client], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = user_client("eve\x1b[31m\u202e")
    headers: Any = {"X-Request-ID": "a\tb", "User-Agent": b"\x9b31m", "Idempotency-Key": b"k\x9b"}
    for path in ("/v1/%1b[31m%0aevent=fake%0d%07%9b/x", "/v1/chats/%1b%5d0;x%07", "/%e2%80%aeadmin%c2%85/"):
        client.http.get(path, headers=headers)
        client.http.post(path, json={ESCAPES: ESCAPES}, headers=headers)
    formatter = logging_config(style, "DEBUG")["formatters"]["structured"]["()"]()
    lines = [formatter.format(record) for record in caplog.records]
    assert any("[31m" in line for line in lines), "the path is told"
    assert not any(ACTS & set(line) or "\n" in line for line in lines)
    assert not any(line.startswith("event=fake") for line in lines)


def saying(tmp_path: Path, name: str = "chat.json") -> Path:
    """Write a file of a conversation whose title and texts are full of escape sequences."""
    path = tmp_path / name
    said = [{"role": role, "content": f"{ESCAPES} {role}"} for role in ("user", "assistant")] * 2
    path.write_text(json.dumps({"title": ESCAPES, "messages": said}), encoding="utf-8")
    return path


@pytest.mark.django_db
def test_command_output_contains_no_terminal_controls(tmp_path: Path) -> None:
    User.objects.create_user("alice")
    assert not ACTS & set(run("import_chat", saying(tmp_path), "--user", "alice"))
    bad = tmp_path / "\x1b[31mbad.json"
    bad.write_text("{", encoding="utf-8")
    for name in (bad, tmp_path / "\x1b]0;none.json"):
        assert not ACTS & set(refusal("import_chat", name, "--user", "alice"))
    for command in ("create_token", "resummarize"):
        assert not ACTS & set(refusal(command, "eve\x1b[31m"))


@pytest.mark.django_db
def test_an_export_contains_no_terminal_controls_and_imports_unchanged(tmp_path: Path) -> None:
    chat = make_chat(title=ESCAPES, instructions=ESCAPES, metadata={ESCAPES: ESCAPES})
    add_turns(chat, [(f"{ESCAPES} =1+1\t👩\u200d🚀", f"{ESCAPES}\n<script>")])
    text = run("export_chat", chat.pk)
    assert not ACTS & set(text)
    assert "👩\u200d🚀" in text
    path = tmp_path / "out.json"
    path.write_text(text, encoding="utf-8")
    again = Chat.objects.get(pk=run("import_chat", path, "--user", "alice").strip())
    title = plain_title(chat.title)  # as of any chat
    assert (again.title, again.instructions, again.metadata) == (title, chat.instructions, chat.metadata)
    said = [
        list(Message.objects.filter(chat=one).order_by("seq").values_list("content", flat=True))
        for one in (chat, again)
    ]
    assert said[0] == said[1]


@given(st.text(st.characters(exclude_categories=[])))
def test_escaping_controls_is_lossless(text: str) -> None:
    assert plain(plain(text)) == plain(text)
    assert len(plain(text).splitlines()) <= 1
    assert not ACTS & set(plain(text))
    assert plain_lines(text).count("\n") == text.count("\n")
    assert plain_lines(text).isprintable() or "\n" in text or not plain(text).isprintable()
    assert json.loads(plain_json(json.dumps({"a": text}, ensure_ascii=False, indent=1))) == {"a": text}
