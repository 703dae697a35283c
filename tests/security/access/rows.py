"""Rows that requests of the access tests refer to."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.management import call_command

from conversations.models import Message
from tests.admin.rows import make_chat


def remembered() -> dict[str, Any]:
    """Make a chat of alice's with a revision, and return the ids with its last question."""
    chat = make_chat(User.objects.get(username="alice"), title="A trip", said="Hello")
    call_command("resummarize", str(chat.pk), sync=True)
    question = Message.objects.filter(chat=chat, role="user").latest("seq")
    return {"chat_id": str(chat.pk), "message_id": str(question.pk), "version": 1}
