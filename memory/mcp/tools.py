"""The tools of agents: what they take, what they do, and what they return.

Each does what calls of the API do, for the same person and by the same rules. Text from chats is returned as prompts
have it: each line begins with a space, so that none can be taken for one of ours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import F
from django.urls import reverse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StringConstraints, ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from chatmemory.api.http import caller
from chatmemory.errors import ChatMemoryError, Conflict, NotFound
from chatmemory.text.cleaning import clean
from chatmemory.text.markers import indented
from conversations.accounts import quotas
from conversations.accounts.api_tokens import scopes_of
from conversations.accounts.authentication import require_end_user
from conversations.accounts.models import Scope
from conversations.api.receipts import counted, erased
from conversations.chat_filters import ChatFilter, chats_of
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
"""How many results of a search, chats or lines are returned."""
MAX_PAGE = 10_000

Text = Annotated[
    str,
    StringConstraints(min_length=1, strip_whitespace=True),
    BeforeValidator(lambda value: clean(value) if isinstance(value, str) else value),
]
A = TypeVar("A", bound="AgentCall")


class AgentCall(BaseModel):
    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class AgentTool(Generic[A]):
    """What an agent can call. `destroys`: it may delete; `writes`: it changes anything."""

    name: str
    title: str
    arguments: type[A]
    run: Callable[[Request, A], dict[str, Any]]
    writes: bool = False
    destroys: bool = False

    def described(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "description": " ".join((self.run.__doc__ or "").split()),
            "inputSchema": self.arguments.model_json_schema(),
            "annotations": {
                "readOnlyHint": not self.writes,
                "destructiveHint": self.destroys,
                "idempotentHint": True,
                "openWorldHint": False,
            },
        }


# Reading


class SearchCall(AgentCall):
    query: Text = Field(max_length=MAX_QUERY_CHARS, description="Words to look for, in any of their forms.")


def _search(request: Request, asked: SearchCall) -> dict[str, Any]:
    """Search all messages of the person's chats. The best matches come first, each with the passage that matches;
    `fetch` reads the whole message.
    """
    hits = search(caller(request), asked.query, MAX_RESULTS)
    return {"results": _places(request, [(hit.message, hit.snippet) for hit in hits])}


class FetchCall(AgentCall):
    id: UUID = Field(description="The id of a message.")


def _fetch(request: Request, asked: FetchCall) -> dict[str, Any]:
    """Read a message as it was said, with the ids of those before and after it in its chat."""
    message = _message(caller(request), asked.id)
    rows = Message.objects.filter(**message.chat_key.columns).exclude(status=Status.DELETED)
    ids = rows.values_list("pk", flat=True)
    around = {
        "previous": ids.filter(seq__lt=message.seq).order_by("-seq").first(),
        "next": ids.filter(seq__gt=message.seq).order_by("seq").first(),
    }
    (place,) = _places(request, [(message, message.content)])
    return {**place, "metadata": around}


class ListChatsCall(AgentCall):
    title: Text | None = Field(None, description="Words of the title.")
    page: int = Field(1, ge=1, le=MAX_PAGE, description=f"The first has the newest {MAX_RESULTS}.")


def _list_chats(request: Request, asked: ListChatsCall) -> dict[str, Any]:
    """List the person's chats, those with the newest messages first."""
    chats = chats_of(caller(request), ChatFilter(title=asked.title or ""))
    chats = chats.order_by(F("last_message_at").desc(nulls_last=True), "-pk")
    start = (asked.page - 1) * MAX_RESULTS
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


class GetMemoryCall(AgentCall):
    chat_id: UUID | None = Field(None, description="A chat. Without it: what is kept in mind in all chats.")


def _get_memory(request: Request, asked: GetMemoryCall) -> dict[str, Any]:
    """What is remembered, each line with the message that it is from: what holds in all chats of the person; or of one
    chat the summary of older turns, and what is pinned.
    """
    person = caller(request)
    if asked.chat_id is None:
        lines, said = (
            remembered_lines(person).order_by("-created_at", "-pk")[:MAX_PINS],
            quoted_elsewhere(person.pk)[:MAX_RESULTS],
        )
        return {
            "shared_by_chats": shared_by(request, person)["across"],
            "pinned": [_line(one) | {"chat_id": one.chat_id, "chat_title": one.chat_title} for one in lines],
            "quoted_in_other_chats": _places(request, [(one, one.text) for one in said]),
        }
    chat = get_chat(person, asked.chat_id)
    brief = brief_of(chat)
    holding = Pin.objects.filter(chat=chat, ended_at=None).order_by("-seq", "-start", "-pk")
    return {
        "chat_id": chat.pk,
        "summary": _quoted(brief.global_summary),
        "summarized_through": brief.last_summarized_message_id,
        "pinned": [_line(one) for one in holding],
    }


# Writing


class RememberCall(AgentCall):
    text: Text = Field(max_length=MAX_CHARS, description="What to keep in mind, as a sentence of the person.")
    chat_id: UUID | None = Field(None, description="Only in this chat. Without it: in all chats of the person.")


def _remember(request: Request, asked: RememberCall) -> dict[str, Any]:
    """Keep a statement in mind: it is pinned, and stands in each prompt from now on. Only if the person wants that."""
    person, chat_id = caller(request), asked.chat_id
    everywhere = chat_id is None
    if chat_id is None:
        notes = Chat.objects.filter(owner=person, title=NOTES, project="", temporary=False).order_by("-pk").first()
        chat_id = (notes or create_chat(person, title=NOTES, title_is_automatic=False)).pk
    scope = PinScope.PERSON if everywhere else PinScope.CHAT
    made, is_new = pin(person, chat_id, text=asked.text, scope=scope)
    level = Across(shared_by(request, person)["across"])
    return {
        "id": made.pk,
        "chat_id": chat_id,
        "is_new": is_new,
        "holds_in": "all chats" if made.scope == PinScope.PERSON and level != Across.OFF else "its chat only",
    }


class ForgetCall(AgentCall):
    kind: Literal["message", "pin", "chat"]
    id: UUID = Field(description="Its id, as another tool tells it.")
    confirm: StrictInt | None = Field(None, description="The `count` told by a call without it, which deletes nothing.")


def _forget(request: Request, asked: ForgetCall) -> dict[str, Any]:
    """Delete a message, a pin or a chat for good, from memory too. The first call counts what would be gone; repeat it
    with that `count` as `confirm` once the person agrees.
    """
    counts, delete = _deletion(caller(request), asked)
    told = {**counts, "count": counts["messages"] + counts["pins"], "deleted": asked.confirm is not None}
    if asked.confirm not in (None, told["count"]):
        raise Conflict(f"Nothing was deleted: the count is {told['count']} now.")
    return told if asked.confirm is None else {**told, **(delete() or {})}


def _deletion(person: User, asked: ForgetCall) -> tuple[dict[str, Any], Callable[[], dict[str, Any] | None]]:
    """What would be gone, counted; and what deletes it. Raises `NotFound`, and `ChatBusy`."""
    if asked.kind == "pin":
        found = Pin.objects.filter(owner_id=person.pk, pk=asked.id, ended_at=None).select_related("chat").first()
        if found is None:
            raise NotFound("There is no such pin.")
        return {"kind": "pin", "id": found.pk, "messages": 0, "pins": 1}, partial(unpin, found.chat, found.pk)
    if asked.kind == "chat":
        chat = get_chat(person, asked.id)
        return counted(chat), partial(erased, chat, partial(delete_chat, chat))
    message = _message(person, asked.id)
    return counted(message), partial(erased, message, partial(forget_message, message.chat_key, message.pk))


# What they have in common


def _message(person: User, message_id: UUID) -> Message:
    rows = Message.objects.filter(owner_id=person.pk, pk=message_id)
    if (found := rows.exclude(status=Status.DELETED).first()) is None:
        raise NotFound("There is no such message.")
    return found


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
        if message.chat_id in titles  # else it was just deleted
    ]


def _line(pin: Any) -> dict[str, Any]:
    return {
        "id": pin.pk,
        "text": _quoted(pin.text),
        "message_id": pin.message_id,
        "since": pin.created_at,
        "muted": pin.muted_at is not None,
    }


def _quoted(text: str) -> str:
    return f" {indented(text)}" if text else ""


def _url(request: Request, chat_id: UUID) -> str:
    """Where a person reads the chat."""
    return request.build_absolute_uri(f"{reverse('playground')}#chat={chat_id}")


TOOLS = {
    tool.name: tool
    for tool in (
        AgentTool("search", "Search chats", SearchCall, _search),
        AgentTool("fetch", "Read a message", FetchCall, _fetch),
        AgentTool("list_chats", "List chats", ListChatsCall, _list_chats),
        AgentTool("get_memory", "See what is remembered", GetMemoryCall, _get_memory),
        AgentTool("remember", "Keep in mind", RememberCall, _remember, writes=True),
        AgentTool("forget", "Forget", ForgetCall, _forget, writes=True, destroys=True),
    )
}


def tools_for(request: Request) -> list[AgentTool[Any]]:
    """The tools that the request's token allows."""
    only_reads = Scope.READ_ONLY in scopes_of(request.auth)
    return [tool for tool in TOOLS.values() if not (tool.writes and only_reads)]


def call(tool: AgentTool[Any], request: Request, arguments: object) -> dict[str, Any]:
    """AgentCall a tool, and return its result as the protocol has it; agents read there what went wrong."""
    try:
        require_end_user(request)
        if tool.writes:
            quotas.take_write(caller(request).pk)
        found = tool.run(request, tool.arguments.model_validate(arguments))
    except ValidationError as exc:
        wrong = [": ".join([*map(str, one["loc"]), one["msg"]]) for one in exc.errors()]
        return _told("\n".join(wrong), isError=True)
    except ChatMemoryError as exc:
        return _told(exc.message, isError=True)
    return _told(JSONRenderer().render(found).decode(), structuredContent=found)


def _told(text: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **more}
