"""The tools of agents: what they take, what they do, and what they return.

Each does what calls of the API do, for the same person and by the same rules. Text from chats is returned as prompts
have it: each line begins with a space, so that none can be taken for one of ours.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from django.contrib.auth.models import User
from django.core.exceptions import ObjectDoesNotExist
from django.db.models import F
from django.urls import reverse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StringConstraints, ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from chatmemory.api.http import caller
from chatmemory.errors import ChatMemoryError, Conflict
from chatmemory.text.cleaning import clean
from chatmemory.text.markers import indented
from conversations.accounts import quotas
from conversations.accounts.api_tokens import scopes_of
from conversations.accounts.authentication import require_end_user
from conversations.accounts.models import Scope
from conversations.api.receipts import deletion_counts, erase_with_receipt
from conversations.chat_filters import chats_of
from conversations.chat_lifecycle import create_chat, delete_chat
from conversations.message_changes import forget_message
from conversations.models import Across, Chat, Message, Status, get_chat
from memory.api.person import quoted_elsewhere, remembered_lines, shared_by
from memory.briefs import brief_of
from memory.models import MAX_CHARS, MAX_PINS, Pin, PinScope
from memory.pins.pins import pin, unpin
from memory.recall.search import MAX_QUERY_CHARS, search

NOTES = "Remembered by agents"
"""The title of the chat that has what agents were told to keep in mind, unless they name another."""
MAX_RESULTS = 20
"""How many messages, chats or lines are returned."""

Text = Annotated[
    str,
    StringConstraints(min_length=1, strip_whitespace=True),
    BeforeValidator(lambda value: clean(value) if isinstance(value, str) else value),
]


class AgentTool(BaseModel):
    """A call of a tool with its arguments. Agents read the docstring, and the names and descriptions of the fields."""

    model_config = ConfigDict(extra="forbid")
    name: ClassVar[str]
    title: ClassVar[str]
    writes: ClassVar[bool] = False
    destroys: ClassVar[bool] = False

    @classmethod
    def described(cls) -> dict[str, Any]:
        schema = cls.model_json_schema()
        return {
            "name": cls.name,
            "title": cls.title,
            "description": " ".join(schema.pop("description").split()),
            "inputSchema": schema,
            "annotations": {
                "readOnlyHint": not cls.writes,
                "destructiveHint": cls.destroys,
                "idempotentHint": True,
                "openWorldHint": False,
            },
        }

    @abstractmethod
    def run(self, request: Request) -> dict[str, Any]:
        """Do it, and return what agents are told."""


class SearchTool(AgentTool):
    """Search all messages of the person's chats. The best matches come first, each with the passage that matches;
    `fetch` reads the whole message.
    """

    name, title = "search", "Search chats"
    query: Text = Field(max_length=MAX_QUERY_CHARS, description="Words to look for, in any of their forms.")

    def run(self, request: Request) -> dict[str, Any]:
        hits = search(caller(request), self.query, MAX_RESULTS)
        return {"results": _places(request, [(hit.message, hit.snippet) for hit in hits])}


class FetchTool(AgentTool):
    """Read a message as it was said, with the ids of those before and after it in its chat."""

    name, title = "fetch", "Read a message"
    id: UUID = Field(description="The id of a message.")

    def run(self, request: Request) -> dict[str, Any]:
        message = _message(caller(request), self.id)
        rows = Message.objects.filter(**message.chat_key.columns).exclude(status=Status.DELETED)
        ids = rows.values_list("pk", flat=True)
        before, after = ids.filter(seq__lt=message.seq), ids.filter(seq__gt=message.seq)
        around = {"previous": before.order_by("-seq").first(), "next": after.order_by("seq").first()}
        for place in _places(request, [(message, message.content)]):
            return {**place, "metadata": around}
        raise Message.DoesNotExist


class ListChatsTool(AgentTool):
    """List the person's chats, those with the newest messages first."""

    name, title = "list_chats", "List chats"
    words: Text | None = Field(None, description="Words of the title.")
    page: int = Field(1, ge=1, le=10_000, description=f"The first has the newest {MAX_RESULTS}.")

    def run(self, request: Request) -> dict[str, Any]:
        chats = chats_of(caller(request), title=self.words or "")
        chats = chats.order_by(F("last_message_at").desc(nulls_last=True), "-pk")
        start = (self.page - 1) * MAX_RESULTS
        return {
            "chats": [
                {
                    "id": chat.pk,
                    "title": chat.title,
                    "url": _url(request, chat.pk),
                    "project": chat.project,
                    "messages": chat.last_seq,
                    "last_message_at": chat.last_message_at,
                }
                for chat in chats[start : start + MAX_RESULTS]
            ]
        }


class GetMemoryTool(AgentTool):
    """What is remembered, each line with the message that it is from: what holds in all chats of the person; or of one
    chat the summary of older turns, and what is pinned.
    """

    name, title = "get_memory", "See what is remembered"
    chat_id: UUID | None = Field(None, description="A chat. Without it: what is kept in mind in all chats.")

    def run(self, request: Request) -> dict[str, Any]:
        person = caller(request)
        if self.chat_id is None:
            pinned = remembered_lines(person).order_by("-created_at", "-pk")[:MAX_PINS]
            quoted = [(one, one.text) for one in quoted_elsewhere(person.pk)[:MAX_RESULTS]]
            return {
                "shared_by_chats": shared_by(request, person)["across"],
                "pinned": [{**_line(one), "chat_title": one.chat_title} for one in pinned],
                "quoted_in_other_chats": _places(request, quoted),
            }
        brief = brief_of(get_chat(person, self.chat_id))
        pinned = Pin.objects.filter(chat=brief.chat, ended_at=None).order_by("-seq", "-start", "-pk")
        return {
            "summary": _quoted(brief.global_summary),
            "summarized_through": brief.last_summarized_message_id,
            "pinned": [_line(one) for one in pinned],
        }


class RememberTool(AgentTool):
    """Keep a statement in mind: it is pinned, and stands in each prompt from now on. Only if the person wants that."""

    name, title, writes = "remember", "Keep in mind", True
    text: Text = Field(max_length=MAX_CHARS, description="What to keep in mind, as a sentence of the person.")
    chat_id: UUID | None = Field(None, description="Only in this chat. Without it: in all chats of the person.")

    def run(self, request: Request) -> dict[str, Any]:
        person, chat_id, scope = caller(request), self.chat_id, PinScope.CHAT
        if chat_id is None:
            notes = Chat.objects.filter(owner=person, title=NOTES, project="", temporary=False).order_by("-pk").first()
            chat_id, scope = (notes or create_chat(person, title=NOTES)).pk, PinScope.PERSON
        made, is_new = pin(person, chat_id, text=self.text, scope=scope)
        is_shared = made.scope == PinScope.PERSON and shared_by(request, person)["across"] != Across.OFF
        return {**_line(made), "is_new": is_new, "holds_in": "all chats" if is_shared else "its chat only"}


class ForgetTool(AgentTool):
    """Delete a message, a pin or a chat for good, from memory too. The first call counts what would be gone; repeat it
    with that `count` as `confirm` once the person agrees.
    """

    name, title, writes, destroys = "forget", "Forget", True, True
    kind: Literal["message", "pin", "chat"]
    id: UUID = Field(description="Its id, as another tool tells it.")
    confirm: StrictInt | None = Field(None, description="The `count` told by a call without it, which deletes nothing.")

    def run(self, request: Request) -> dict[str, Any]:
        counts, delete = self._deletion(caller(request))
        told = {**counts, "count": counts["messages"] + counts["pins"], "deleted": self.confirm is not None}
        if self.confirm not in (None, told["count"]):
            raise Conflict(f"Nothing was deleted: the count is {told['count']} now.")
        return told if self.confirm is None else {**told, **(delete() or {})}

    def _deletion(self, person: User) -> tuple[dict[str, Any], Callable[[], dict[str, Any] | None]]:
        """Return the counts of what would be deleted, and the function that deletes it. Raises `ObjectDoesNotExist`, or
        `ChatMemoryError`."""
        if self.kind == "pin":
            found = Pin.objects.select_related("chat").get(owner_id=person.pk, pk=self.id, ended_at=None)
            return {"kind": "pin", "id": found.pk, "messages": 0, "pins": 1}, partial(unpin, found.chat, found.pk)
        if self.kind == "chat":
            chat = get_chat(person, self.id)
            return deletion_counts(chat), partial(erase_with_receipt, chat, partial(delete_chat, chat))
        message = _message(person, self.id)
        forget = partial(forget_message, message.chat_key, message.pk)
        return deletion_counts(message), partial(erase_with_receipt, message, forget)


TOOLS: dict[str, type[AgentTool]] = {
    tool.name: tool for tool in (SearchTool, FetchTool, ListChatsTool, GetMemoryTool, RememberTool, ForgetTool)
}


def tools_for(request: Request) -> dict[str, type[AgentTool]]:
    """The tools that the request's token allows, by name."""
    only_reads = Scope.READ_ONLY in scopes_of(request.auth)
    return {name: tool for name, tool in TOOLS.items() if not (tool.writes and only_reads)}


def call(tool: type[AgentTool], request: Request, arguments: object) -> dict[str, Any]:
    """Call a tool, and return its result as the protocol has it; agents read there what went wrong."""
    try:
        require_end_user(request)
        if tool.writes:
            quotas.take_write(caller(request).pk)
        found = tool.model_validate(arguments).run(request)
    except ValidationError as exc:
        wrong = [": ".join([*map(str, one["loc"]), one["msg"]]) for one in exc.errors()]
        return _told("\n".join(wrong), isError=True)
    except ObjectDoesNotExist:
        return _told("There is no such message or pin.", isError=True)
    except ChatMemoryError as exc:
        return _told(exc.message, isError=True)
    return _told(JSONRenderer().render(found).decode(), structuredContent=found)


def _told(text: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **more}


def _message(person: User, message_id: UUID) -> Message:
    return Message.objects.exclude(status=Status.DELETED).get(owner_id=person.pk, pk=message_id)


def _places(request: Request, texts: Sequence[tuple[Message, str]]) -> list[dict[str, Any]]:
    """Texts of messages, and where these stand. Connectors of ChatGPT know the first four fields."""
    chats = Chat.objects.filter(owner=caller(request), pk__in={message.chat_id for message, _ in texts})
    titles = dict(chats.values_list("pk", "title"))
    return [
        {
            "id": message.pk,
            "title": titles[message.chat_id],
            "url": _url(request, message.chat_id),
            "text": _quoted(text),
            "chat_id": message.chat_id,
            "said_by": message.role,
            "said_at": message.created_at,
        }
        for message, text in texts
        if message.chat_id in titles  # else the chat was just deleted
    ]


def _line(pin: Any) -> dict[str, Any]:
    return {
        "id": pin.pk,
        "text": _quoted(pin.text),
        "chat_id": pin.chat_id,
        "message_id": pin.message_id,
        "since": pin.created_at,
        "muted": pin.muted_at is not None,
    }


def _quoted(text: str) -> str:
    return f" {indented(text)}" if text else ""


def _url(request: Request, chat_id: UUID) -> str:
    """Where a person reads the chat."""
    return request.build_absolute_uri(f"{reverse('playground')}#chat={chat_id}")
