"""Chats, messages, attachments, and replies being written. A `Message` is stored once it is final; a reply being
written is an `ActiveReply`.

Order is always that of `seq`, never of a clock. All rows of a chat are found and deleted by the chat's id. References
between rows of one chat are DO_NOTHING: such rows are only deleted together, with their whole chat, and the database
checks that at commit.
"""

from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from chatmemory.database.compiled import Select
from chatmemory.database.expressions import DaysAfter
from chatmemory.database.ids import new_id
from chatmemory.database.owned import ChatKey, Owned, OwnedByChat, OwnedKey, OwnedOneToOne
from chatmemory.errors import NotFound
from chatmemory.llm.protocol import Usage
from conversations.accounts.models import Reserved
from conversations.retention import models as retention_models  # noqa: F401
from conversations.webhooks import models as webhook_models  # noqa: F401

DEFAULT_RETENTION = Q(temporary=False, pinned=False, retain_days__isnull=True)
"""Chats without days of their own: their app's setting applies, or the server's."""
OWN_DAYS = Q(temporary=False, pinned=False, retain_days__isnull=False)
"""Chats with days of their own."""


class Across(models.TextChoices):
    """What chats of a person share with each other: nothing, pins, or also what was said in them."""

    OFF = "off"
    PINS = "pins"
    ALL = "all"


MAX_PROJECT_CHARS = 100


class Chat(Owned):
    """A conversation of one owner, with the memory policy that applies to it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="chats", db_index=False)
    app = models.ForeignKey(
        "App",
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        editable=False,
    )
    """The app whose account, or whose end user, the owner is; None for all others."""
    title = models.CharField(max_length=200, blank=True, default="")
    title_is_automatic = models.BooleanField(default=False, db_default=False, editable=False)
    """The title is made from the first message, and made again when that changes: see `turn_line`."""
    policy = models.CharField(max_length=32)
    options = models.JSONField(blank=True, default=dict)
    instructions = models.TextField(blank=True, default="")
    metadata = models.JSONField(blank=True, default=dict)
    project = models.CharField(max_length=MAX_PROJECT_CHARS, blank=True, default="", db_default="")
    """Chats share what was said only with those of the same project, those without one with others without one."""
    across = models.CharField(max_length=4, choices=Across.choices, default=Across.ALL, db_default=Across.ALL)
    """The most that it shares with other chats: `memory.across.consent` decides."""
    last_seq = models.PositiveIntegerField(default=0, editable=False)
    open_seq = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    """Seq of the user's message whose turn waits for the output of a tool, or for the reply to it; 0 if none does."""
    pinned = models.BooleanField(default=False, db_default=False)
    """Retention leaves it alone, unless it is temporary."""
    retain_days = models.PositiveIntegerField(null=True, blank=True)
    """Days after its last message at which it is erased; None: as its app or the server is set."""
    temporary = models.BooleanField(default=False, db_default=False, editable=False)
    """Erased some hours after its last message, in no list, without a title of its own."""
    last_message_at = models.DateTimeField(default=timezone.now, db_default=Now(), editable=False)
    """When its newest message was stored; without one, when it was created. Retention counts from here."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        indexes = [
            models.Index(fields=["owner", "-id"], name="chat_owner_newest"),
            models.Index(fields=["-updated_at", "-id"], name="chat_last_active"),
            models.Index(
                fields=["app", "-updated_at", "-id"],
                name="chat_app_last_active",
                condition=Q(app__isnull=False),
            ),
            models.Index(fields=["app", "last_message_at"], name="chat_kept_by_app", condition=DEFAULT_RETENTION),
            models.Index(DaysAfter("last_message_at", "retain_days"), name="chat_kept_by_itself", condition=OWN_DAYS),
            models.Index(fields=["last_message_at"], name="chat_temporary", condition=Q(temporary=True)),
        ]
        permissions = [("view_content", "Can read messages and memory")]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def key(self) -> ChatKey:
        return ChatKey(self.id, self.owner_id)


class ChatMetadata(Owned):
    """A member of a chat's metadata as a hash, by which the chat is found: see `conversations.chat_filters`."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    chat = OwnedKey(Chat, on_delete=models.CASCADE, related_name="pairs")
    pair = models.CharField(max_length=32)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "pair", "chat"], name="chat_metadata_pair")]
        default_permissions = ()  # the admin does not show it


class Role(models.TextChoices):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL_CALL = "tool_call", "Tool call"
    """A call of a tool, next to the text of the reply before it."""
    TOOL = "tool", "Tool output"
    """The output of a tool that was called."""


class Status(models.TextChoices):
    """Final states of a message. The API shows an `ActiveReply` as `streaming`."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DELETED = "deleted"


STREAMING = "streaming"
TEXT_STATUSES = (Status.COMPLETE, Status.INCOMPLETE, Status.CANCELLED)
"""States in which a message's text is part of its turn, unless it is superseded."""


def usage_json(usage: Usage | None, cost_usd: Decimal | None) -> dict[str, Any] | None:
    """Return tokens and USD as the API shows them, or None if the upstream reported none."""
    if usage is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": None if cost_usd is None else float(cost_usd.quantize(Decimal("1E-9"))),
    }


class Message(OwnedByChat):
    """One message as it was said. Summarizing never changes its text."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    chat = OwnedKey(Chat, on_delete=models.CASCADE, related_name="messages", db_index=False)
    seq = models.PositiveIntegerField()
    role = models.CharField(max_length=16, choices=Role.choices)
    content = models.TextField(blank=True)
    """The text of the message; for a tool call or its output, the text that memory reads."""
    payload = models.JSONField(null=True, blank=True, editable=False)
    """JSON whose keys depend on the kind of message: `{"call_id", "name", "arguments", "custom"?}` for a tool call,
    `{"call_id", "name"}` for its output, `{"calls"}` (how many calls follow) for a reply that calls tools,
    `{"attachments"}` for a user's message with images or files."""
    status = models.CharField(max_length=16, choices=Status.choices)
    model_variant = models.CharField(max_length=64, blank=True, default="")
    model = models.CharField(max_length=128, blank=True, default="")
    token_count = models.PositiveIntegerField(default=0)
    reply_to = OwnedKey(
        "self", on_delete=models.DO_NOTHING, null=True, blank=True, related_name="replies", db_index=False
    )
    superseded_by = OwnedKey(
        "self", on_delete=models.DO_NOTHING, null=True, blank=True, related_name="supersedes", db_index=False
    )
    outline = models.CharField(max_length=400, blank=True, default="")
    line = models.TextField(blank=True, default="")
    terms = models.TextField(null=True, editable=False)
    """Search terms for recall (`memory.recall.terms`); None until the message is analysed."""
    response_id = models.CharField(max_length=200, blank=True, default="")
    input_tokens = models.PositiveIntegerField(null=True, blank=True)
    cached_tokens = models.PositiveIntegerField(null=True, blank=True)
    output_tokens = models.PositiveIntegerField(null=True, blank=True)
    cost_usd = models.DecimalField(max_digits=16, decimal_places=9, null=True, blank=True)
    error = models.JSONField(null=True, blank=True)
    metadata = models.JSONField(blank=True, default=dict)
    muted_at = models.DateTimeField(null=True, blank=True, editable=False)
    """When it was muted: it is not recalled any more."""
    created_at = models.DateTimeField()
    completed_at = models.DateTimeField(null=True, blank=True)
    edited_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        # Every foreign key has an index: without it, deleting a chat scans the whole table once per message.
        indexes = [
            models.Index(fields=["reply_to"], name="message_reply_to", condition=Q(reply_to__isnull=False)),
            models.Index(
                fields=["superseded_by"],
                name="message_superseded_by",
                condition=Q(superseded_by__isnull=False),
            ),
            models.Index(fields=["id"], name="message_not_analysed", condition=Q(terms__isnull=True)),
            models.Index(fields=["-id", "chat"], name="message_failed", condition=Q(status="failed")),
        ]
        constraints = [
            models.UniqueConstraint(fields=["chat", "seq"], name="message_chat_seq"),
            models.CheckConstraint(condition=Q(seq__gte=1), name="message_seq_from_one"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="message_role_known"),
            models.CheckConstraint(condition=Q(status__in=Status.values), name="message_status_final"),
            models.CheckConstraint(
                condition=Q(role=Role.ASSISTANT) | Q(reply_to=None),
                name="message_only_replies_reply",
            ),
            models.CheckConstraint(
                condition=~Q(role=Role.USER) | Q(superseded_by=None), name="message_questions_stand"
            ),
        ]

    def __str__(self) -> str:
        return f"message {self.seq}"

    @property
    def is_first(self) -> bool:
        return self.seq == 1

    @property
    def muted(self) -> bool:
        return self.muted_at is not None

    @property
    def usage(self) -> dict[str, Any] | None:
        """Tokens and USD as the API shows them, or None if the upstream reported none."""
        return usage_json(self.billed, self.cost_usd)

    @property
    def billed(self) -> Usage | None:
        """Tokens as the upstream reported them, if it did."""
        if self.input_tokens is None:
            return None
        return Usage(self.input_tokens, self.cached_tokens or 0, self.output_tokens or 0)


class StoredAttachment(Owned):
    """The bytes of an image or a file, stored once per user for a limited time: see `conversations.attachments`."""

    OWNER = "user_id"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    sha256 = models.CharField(max_length=64)
    media_type = models.CharField(max_length=255)
    size = models.PositiveIntegerField()
    sent_at = models.DateTimeField(db_index=True)
    messages = models.ManyToManyField(Message, through="AttachmentLink", related_name="stored_attachments")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "sha256"], name="attachment_once_a_user")]


class AttachmentLink(OwnedByChat):
    """A stored attachment of a message."""

    storedattachment = OwnedKey(StoredAttachment, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    message = OwnedKey(Message, on_delete=models.CASCADE, related_name="+", db_constraint=False)

    class Meta:
        db_table = "conversations_storedattachment_messages"
        default_permissions = ()  # it is shown with its message
        unique_together = [("storedattachment", "message")]


class AttachmentPiece(OwnedByChat):
    """A piece of a stored attachment's bytes: readers and writers hold one piece in memory at a time."""

    attachment = OwnedKey(StoredAttachment, on_delete=models.CASCADE, related_name="pieces", db_index=False)
    number = models.PositiveIntegerField()
    data = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attachment", "number"], name="attachment_piece_number")]


MEMORY_COLUMNS = ("terms", "line", "outline")
"""Long columns of a message that only memory uses; they may be as long as the text."""


class ActiveReply(Reserved, OwnedByChat):
    """A reply being written. A chat has at most one, hence the key. Deleted when the reply is final."""

    chat = OwnedOneToOne(Chat, on_delete=models.CASCADE, primary_key=True, related_name="active_reply")
    message_id = models.UUIDField(unique=True)
    user_message = OwnedKey(Message, on_delete=models.DO_NOTHING, related_name="+")
    supersedes = models.UUIDField(null=True, blank=True)
    model_variant = models.CharField(max_length=64)
    model = models.CharField(max_length=128)
    metadata = models.JSONField(default=dict)
    context = models.JSONField(default=dict)
    text = models.TextField(default="")
    lease_owner = models.CharField(max_length=100, db_index=True, db_column="owner")
    lease_expires_at = models.DateTimeField(db_index=True)
    cancel_requested = models.BooleanField(default=False)
    started_at = models.DateTimeField()

    class Meta:
        verbose_name, verbose_name_plural = "reply being written", "replies being written"

    def __str__(self) -> str:
        return f"reply {self.message_id}"


class IdempotencyKey(Owned):
    """A key that a client sent with a request, and the message and reply that it made. Kept for 24 hours."""

    OWNER = "user_id"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    key = models.CharField(max_length=128)
    request_hash = models.CharField(max_length=64)
    chat = OwnedKey(Chat, on_delete=models.CASCADE, related_name="+")
    user_message_id = models.UUIDField()
    message_id = models.UUIDField()
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="idempotency_user_key")]


class ChatCompletion(Owned):
    """A reply requested through the OpenAI API, with hashes to find its history again.

    Created with the turn. `openai_api.history` makes the hashes; the client's own words are in the
    messages.
    """

    OWNER = "user_id"

    message_id = models.UUIDField(primary_key=True)
    """Id of the reply."""
    chat = OwnedKey(Chat, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    seq = models.PositiveIntegerField()
    """Seq of the reply."""
    asked = models.BinaryField(max_length=32)
    """Hash of the history including the question."""
    question = models.BinaryField(max_length=32)
    """Hash of only the question."""
    request = models.BinaryField(max_length=32)
    """Hash of the request, which is the same in a retry."""
    end_user = models.CharField(max_length=64, blank=True, default="", db_default="")
    """Hash of the end user that the client named, "" for none: their conversations are kept apart."""
    model = models.CharField(max_length=128)
    """The model as the client named it."""
    api = models.CharField(max_length=20, default="Chat Completions", db_default="Chat Completions")
    """The API that it was requested through, as its name is."""
    decision = models.CharField(max_length=16)
    found_by = models.CharField(max_length=16, blank=True)
    """`decision` and `found_by`: how its chat was chosen, and by which key. See `openai_api.find_conversation`."""
    response = models.JSONField(null=True)
    """Fields of the request that a response object repeats; None for a completion, and once the response is deleted."""
    sibling = models.UUIDField(null=True)
    """The chat that has another turn in this one's place: see `openai_api.turns`. It may be gone."""
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(fields=["user", "asked"], name="completion_asked"),
            models.Index(fields=["user", "question"], name="completion_question"),
        ]


class NamedConversation(Owned):
    """The chat that a client of the OpenAI API knows by a name of its own. Names are separate for each user."""

    OWNER = "user_id"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    name = models.CharField(max_length=300)
    """`source:name`: the header or field that held the name, and the name."""
    chat = OwnedKey(Chat, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="named_conversation")]


class ContentView(models.Model):
    """A record that a staff member viewed content of a chat or its memory. It outlives the content and holds none.

    A list or a search makes one record with a count, not one for each row.
    """

    viewer = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False
    )
    viewer_name = models.CharField(max_length=150)
    owner_id = models.BigIntegerField(null=True)
    """Id of the chat's owner, kept after that user is deleted. None for a list of several owners' chats."""
    chat_id = models.UUIDField(null=True, db_index=True)
    """None for a list of several chats."""
    page = models.CharField(max_length=64)
    """`app_model` of the admin page that was shown."""
    object_id = models.CharField(max_length=64)
    count = models.PositiveIntegerField(default=1)
    """Rows of a list, or hits of a search, that showed content."""
    at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        verbose_name, verbose_name_plural = "audit log entry", "audit log"
        indexes = [models.Index(fields=["viewer"], name="content_view_viewer")]

    def __str__(self) -> str:
        return f"{self.viewer_name} saw {self.page} {self.object_id}"


_CHAT = Select(lambda chat, owner: Chat.objects.filter(pk=chat, owner=owner))
_LOCKED_CHAT = Select(lambda chat, owner: Chat.objects.select_for_update().filter(pk=chat, owner=owner))


def get_chat(user: User, chat_id: UUID, *, lock: bool = False) -> Chat:
    """Return a chat of `user`. Views get chats only this way: a 404 for all others confirms no chat's existence."""
    chat = (_LOCKED_CHAT if lock else _CHAT).first(chat_id, user.pk)
    if chat is None:
        raise NotFound("Chat not found.")
    return chat


def lock_chat(key: ChatKey) -> Chat | None:
    """Lock a chat until the transaction ends, and return it as it is now; None if it is gone."""
    return _LOCKED_CHAT.first(*key)


def find_key(chat_id: UUID) -> ChatKey | None:
    """Find whose chat this is by its id alone, which is all that the queue and operators know. None if it is gone."""
    found = Chat.objects.filter(pk=chat_id).values_list("pk", "owner_id").first()
    return ChatKey(*found) if found else None


def get_message(chat: Chat, message_id: UUID) -> Message | ActiveReply:
    """Return a message of a chat that the caller may see; one still being written as its `ActiveReply`."""
    found = (
        ActiveReply.objects.filter(chat=chat, message_id=message_id).select_related("user_message").first()
        or Message.objects.filter(chat=chat, pk=message_id).first()
    )
    if found is None:
        raise NotFound("This chat has no such message.")
    return found


def messages_at(owner_id: int, places: Iterable[tuple[UUID, int]]) -> models.QuerySet[Message]:
    """Return the owner's messages at these places, each a chat and a seq."""
    by_chat: dict[UUID, list[int]] = defaultdict(list)
    for chat_id, seq in places:
        by_chat[chat_id].append(seq)
    # Each alternative uses an index: with one more that has none, SQLite would read the whole table.
    each = [Q(chat_id=chat_id, seq__in=seqs) for chat_id, seqs in by_chat.items()]
    return Message.objects.filter(reduce(or_, each), owner_id=owner_id) if each else Message.objects.none()
