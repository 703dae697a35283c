"""Memory's models and the rules of one row: the brief in use, its versions, pins, prompts sent, vectors, daily figures.

The brief is the row that changes. Versions are written once. The daily figures outlive chats and users,
those of a person not.
"""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from chatmemory.database.ids import new_id
from chatmemory.database.owned import Owned, OwnedByChat, OwnedKey, OwnedOneToOne
from chatmemory.database.vector_field import VectorField
from conversations.accounts.models import App
from conversations.models import MAX_PROJECT_CHARS, Across, Chat, Message

MAX_CHARS = 1_000
"""The longest text of a pin, in characters; that of a longer message is cut."""
MAX_PINS = 100
"""The most pins of one chat at a time."""
BY_HAND = 2**31 - 1
"""The `start` of a pin that was not found in a message: it sorts after all that were."""


class Requested(models.TextChoices):
    """A request for work on a chat's memory beyond what is due. It is stored, because the queue is only a hint."""

    NOTHING = ""
    UPDATE = "update"
    REBUILD = "rebuild"


class ConversationBrief(OwnedByChat):
    """The current memory of a chat, and the state of the work on it.

    `version` only grows; `head` is the revision in use (0 if there is none). `epoch` is raised whenever something was
    removed that a fold may have read, so that a running fold cannot publish. `folded_tokens` is the size in tokens of
    the turns up to `folded_through_seq`, before folding (None if nothing is folded, and until the next rebuild of a
    chat that an older version folded). `seen_seq` is the last message that went into the state, which is later than
    `folded_through_seq` if a card describes a turn that is still shown.
    `policy` and `options` are those in use: the chat's, once memory has been rebuilt with them.

    `queued_at`: since when a task of this chat, `task_name`, has been waiting in the queue. `on_demand_at`: since when
    there has been work that the chat's owner caused other than by turns; none of it is done before `delayed_until`.
    `pin_tokens` is the size of all current pins as rendered in a prompt. `kept_percent`: that of the revision in use.

    `paused_at`: since when only requested folds are made (`pause`); `paused_seq` is the last message at that moment.
    """

    chat = OwnedOneToOne(Chat, on_delete=models.CASCADE, primary_key=True, related_name="brief")
    policy = models.CharField(max_length=32)
    options = models.JSONField(blank=True, default=dict)
    global_summary = models.TextField(blank=True, default="")
    last_summarized_message = OwnedKey(Message, on_delete=models.DO_NOTHING, null=True, blank=True, related_name="+")
    folded_through_seq = models.PositiveIntegerField(default=0)
    folded_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    seen_seq = models.PositiveIntegerField(default=0)
    version = models.PositiveIntegerField(default=0)
    head = models.PositiveIntegerField(default=0)
    epoch = models.PositiveIntegerField(default=0)
    token_count = models.PositiveIntegerField(default=0)
    state = models.JSONField(blank=True, default=dict)
    degraded = models.BooleanField(default=False)
    kept_percent = models.PositiveSmallIntegerField(null=True, blank=True)

    anchor_seq = models.PositiveIntegerField(default=0)
    pin_tokens = models.PositiveIntegerField(default=0, db_default=0)

    due = models.BooleanField(default=False)
    requested = models.CharField(max_length=16, choices=Requested.choices, blank=True, default=Requested.NOTHING)
    rebuild = models.JSONField(null=True, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    delayed_until = models.DateTimeField(null=True, blank=True)
    on_demand_at = models.DateTimeField(null=True, blank=True)
    task_name = models.CharField(max_length=64, blank=True, default="", db_default="")
    queued_at = models.DateTimeField(null=True, blank=True)
    paused_at = models.DateTimeField(null=True, blank=True)
    paused_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    paused_seq = models.PositiveIntegerField(null=True, blank=True)
    last_error = models.JSONField(null=True, blank=True)
    lease_owner = models.CharField(max_length=100, blank=True, default="")
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name, verbose_name_plural = "memory", "memory of chats"
        indexes = [
            models.Index(
                fields=["next_attempt_at"],
                name="brief_waiting",
                condition=Q(due=True) | ~Q(requested="") | Q(degraded=True),
            ),
            models.Index(fields=["on_demand_at"], name="brief_on_demand", condition=Q(on_demand_at__isnull=False)),
            models.Index(fields=["queued_at"], name="brief_queued", condition=Q(queued_at__isnull=False)),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(head__lte=models.F("version")), name="brief_head_within_version")
        ]

    def __str__(self) -> str:
        return f"brief of {self.chat_id}"

    def pause(self, user: User | None) -> None:
        """Stop folding from here on, and drop requested and running work. Saves nothing.

        The pause ends when a user resumes, updates or rebuilds memory; or by itself, when the messages since no
        longer fit into a prompt: nothing that is said meanwhile is ever left out. The caller must have raised the
        epoch, and decides `due` afterwards.
        """
        self.paused_at, self.paused_by = timezone.now(), user
        self.paused_seq = self.chat.last_seq
        self.requested, self.rebuild, self.on_demand_at = Requested.NOTHING, None, None

    def unpause(self) -> None:
        """Allow folding again. Does not save, and does not decide `due`."""
        self.paused_at = self.paused_by = self.paused_seq = None

    @property
    def paused_by_whom(self) -> Literal["user", "staff"]:
        """Who paused updates: the chat's owner, or another user."""
        return "user" if self.paused_by_id == self.chat.owner_id else "staff"


def new_brief(chat: Chat) -> dict[str, Any]:
    """The initial fields of a chat's brief."""
    return {"policy": chat.policy, "options": chat.options}


class RevisionKind(models.TextChoices):
    FOLD = "fold", "Update"
    REBUILD = "rebuild", "Rebuild"
    RESTORE = "restore", "Restore"
    MANUAL = "manual", "Manual edit"
    RETRACT = "retract", "Rollback"
    BRANCH = "branch", "Copy"


class SummaryRevision(OwnedByChat):
    """One version of a chat's memory, written once: its text, its sources, the model that made it, and the cost.

    `folded_tokens` is the size in tokens of all turns up to `through_seq`, before folding; None if it was not
    counted. `parent` is the version from whose state this one was made: for a restored one, the version restored.
    `soft_faults` are its defects, `is_wanting` is set if there are any. `prompt_hash` is the version of the
    instructions that the summarizer got, `focus` the chat's option of that name, which was part of them;
    `custom_instructions` is set if they were the operator's (`MEMORY_SUMMARIZER_INSTRUCTIONS`). `forgotten_at`: when
    its texts were removed, because a message that it had seen was edited or forgotten; its cost is kept.
    """

    chat = OwnedKey(Chat, on_delete=models.CASCADE, related_name="revisions", db_index=False)
    version = models.PositiveIntegerField()
    parent = models.PositiveIntegerField(null=True, blank=True)
    kind = models.CharField(max_length=16, choices=RevisionKind.choices)
    policy = models.CharField(max_length=32)
    degraded = models.BooleanField(default=False)
    global_summary = models.TextField(blank=True)
    state = models.JSONField(default=dict)
    from_seq = models.PositiveIntegerField()
    through_seq = models.PositiveIntegerField()
    seen_seq = models.PositiveIntegerField(default=0)
    folded_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    turns = models.PositiveIntegerField()
    tokens_before = models.PositiveIntegerField()
    tokens_after = models.PositiveIntegerField()
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=16, decimal_places=9, null=True, blank=True)
    model = models.CharField(max_length=128, blank=True)
    prompt_hash = models.CharField(max_length=64, blank=True)
    focus = models.CharField(max_length=500, blank=True, default="", db_default="")
    custom_instructions = models.BooleanField(default=False, db_default=False)
    source_hash = models.CharField(max_length=64, blank=True)
    duration_ms = models.PositiveIntegerField(default=0)
    retained = models.JSONField(default=dict)
    soft_faults = models.JSONField(blank=True, default=list)
    is_wanting = models.BooleanField(default=False)
    forgotten_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name, verbose_name_plural = "version", "versions of summaries"
        indexes = [
            models.Index(fields=["-id"], name="revision_wanting", condition=Q(is_wanting=True)),
            models.Index(fields=["chat", "seen_seq"], name="revision_chat_seen"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["chat", "version"], name="revision_chat_version"),
            models.CheckConstraint(condition=Q(version__gte=1), name="revision_version_from_one"),
            models.CheckConstraint(condition=Q(kind__in=RevisionKind.values), name="revision_kind_known"),
            models.CheckConstraint(
                condition=Q(through_seq__gte=models.F("from_seq") - 1), name="revision_span_forward"
            ),
        ]

    def __str__(self) -> str:
        return f"version {self.version}"

    @property
    def kept_percent(self) -> int | None:
        """The percentage of details that it kept; None if that was not measured, or if it is empty."""
        share = self.retained.get("share")
        return None if share is None or not self.tokens_after else round(100 * share)

    @classmethod
    def add(
        cls, brief: ConversationBrief, *, kind: str, parent: int | None, tokens_before: int, **fields: Any
    ) -> SummaryRevision:
        """Store the current content of `brief`, which is saved afterwards, as its next revision: the one in use.

        It folded nothing and cost nothing, unless `fields` say otherwise.
        """
        brief.head = brief.version = brief.version + 1
        content: dict[str, Any] = {
            "chat": brief.chat,
            "version": brief.version,
            "kind": kind,
            "parent": parent,
            "tokens_before": tokens_before,
            "policy": brief.policy,
            "degraded": brief.degraded,
            "global_summary": brief.global_summary,
            "state": brief.state,
            "from_seq": brief.folded_through_seq + 1,
            "through_seq": brief.folded_through_seq,
            "seen_seq": brief.seen_seq,
            "folded_tokens": brief.folded_tokens,
            "turns": 0,
            "tokens_after": brief.token_count,
            "cost_usd": 0,
        }
        return cls.objects.create(**content | fields)

    @property
    def provenance(self) -> dict[str, Any]:
        """The fields that a revision with the same text has in common with this one."""
        names = "degraded model prompt_hash focus custom_instructions retained soft_faults is_wanting"
        return {name: getattr(self, name) for name in names.split()}


class PinKind(models.TextChoices):
    """What a pin expresses; `pinned` is anything that a user pinned by hand."""

    INSTRUCTION = "instruction"
    PREFERENCE = "preference"
    IDENTITY = "identity"
    REMEMBER = "remember"
    PINNED = "pinned"


class PinnedBy(models.TextChoices):
    USER = "user"
    STAFF = "staff"
    RULE = "rule"
    SUMMARIZER = "summarizer"


class PinScope(models.TextChoices):
    """Where a pin holds: in its chat, in all chats of the chat's project, or in all chats of its owner."""

    CHAT = "chat"
    PROJECT = "project"
    PERSON = "person"


PEOPLE = (PinnedBy.USER, PinnedBy.STAFF)
"""Authors who pin on purpose: pins found automatically never change theirs."""


class Pin(OwnedByChat):
    """A statement that applies in a chat, or in several (`scope`), until it is removed, and is part of every prompt.

    `message` is the one in which it was found, or that was pinned; None: its text is stored only here. `seq` is the
    last message when it was pinned, and `start` its position in that message. `ended_at`: since when it no longer
    applies, kept for the prompts that contained it; `ended_by` is then the message that replaced or revoked it, also
    one of another chat; None if a user removed it. `muted_at`: since when no prompt has it, until it is unmuted.
    `used` is the number of replies whose prompt had it while it held in several chats.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    chat = OwnedKey(Chat, on_delete=models.CASCADE, related_name="pins")
    text = models.TextField()
    kind = models.CharField(max_length=16, choices=PinKind.choices, default=PinKind.PINNED)
    by = models.CharField(max_length=16, choices=PinnedBy.choices)
    pinned_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    message = OwnedKey(Message, on_delete=models.DO_NOTHING, null=True, blank=True, related_name="+", db_index=False)
    scope = models.CharField(max_length=8, choices=PinScope.choices, default=PinScope.CHAT, db_default=PinScope.CHAT)
    muted_at = models.DateTimeField(null=True, blank=True)
    used = models.IntegerField(default=0, db_default=0, editable=False)
    seq = models.PositiveIntegerField()
    start = models.PositiveIntegerField(default=BY_HAND)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = OwnedKey(Message, on_delete=models.DO_NOTHING, null=True, blank=True, related_name="+", db_index=False)

    class Meta:
        default_permissions = ("view", "delete")
        # Every foreign key has an index: see `conversations.models`.
        indexes = [
            models.Index(fields=["message"], name="pin_message", condition=Q(message__isnull=False)),
            models.Index(fields=["ended_by"], name="pin_ended_by", condition=Q(ended_by__isnull=False)),
            models.Index(fields=["owner_id", "-created_at"], name="pin_of_several_chats", condition=~Q(scope="chat")),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=PinKind.values), name="pin_kind_known"),
            models.CheckConstraint(condition=Q(by__in=PinnedBy.values), name="pin_by_known"),
            models.CheckConstraint(
                condition=Q(ended_by__isnull=True) | Q(ended_at__isnull=False), name="pin_ended_at_known"
            ),
        ]

    @property
    def place(self) -> tuple[Any, ...]:
        """The sort key of pins, oldest first."""
        return self.seq, self.start, self.pk


class Consent(Owned):
    """What a person's chats may share with each other, who decided that, and when. Without a row, no one has."""

    OWNER = "user_id"

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="consent"
    )
    across = models.CharField(max_length=4, choices=Across.choices)
    lifts_pins = models.BooleanField(default=False)
    """Whether what a message states about the person holds in the other chats at once, without a click."""
    given_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    """The person, or the app that they use."""
    given_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name, verbose_name_plural = "memory across chats", "memory across chats"
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"memory across chats of user {self.user_id}: {self.across}"


FIRST_CHAT = UUID(int=0)
"""An id that is lower than that of any chat."""


class MemoryScope(Owned):
    """The chats that share what was said: those of one project of an owner, or those without a project."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    project = models.CharField(max_length=MAX_PROJECT_CHARS, blank=True, default="")
    last_number = models.PositiveBigIntegerField(default=0)
    """The number of its newest message."""
    fill_after = models.UUIDField(null=True, default=FIRST_CHAT)
    """The sweep has yet to go through the chats after this one, in the order of their ids; None: it has gone through
    all, and the messages from before the scope existed are in it, too."""

    class Meta:
        default_permissions = ()  # the admin does not show it
        constraints = [models.UniqueConstraint(fields=["owner", "project"], name="memory_scope_once")]
        indexes = [models.Index(fields=["id"], name="memory_scope_to_fill", condition=Q(fill_after__isnull=False))]


class ScopedMessage(OwnedByChat):
    """A message that other chats of its scope may quote, with its search terms; `number` is its place in the scope.

    It is only found by this row: whether it may be quoted, and its text, are read from the message and its chat.
    """

    scope = OwnedKey(MemoryScope, on_delete=models.CASCADE, related_name="messages", db_index=False)
    number = models.PositiveBigIntegerField()
    chat = OwnedKey(Chat, on_delete=models.CASCADE, related_name="+", db_index=False)
    seq = models.PositiveIntegerField()
    terms = models.TextField(editable=False)
    used = models.PositiveIntegerField(default=0)
    """The number of replies in other chats whose prompt quoted it."""

    class Meta:
        default_permissions = ()  # the admin does not show it
        constraints = [
            models.UniqueConstraint(fields=["scope", "number"], name="scoped_message_number"),
            models.UniqueConstraint(fields=["chat", "seq"], name="scoped_message_once"),
        ]
        indexes = [models.Index(fields=["owner_id", "-id"], name="scoped_message_used", condition=Q(used__gt=0))]


class CardOutcome(models.TextChoices):
    """The outcome of the memory card requested from a reply; "" if none was requested."""

    NONE = ""
    KEPT = "kept"
    MISSING = "missing"
    MALFORMED = "malformed"


class ContextText(OwnedByChat):
    """A text of a prompt that is stored nowhere else (instructions, sources), kept once per chat by its hash."""

    chat = OwnedKey(Chat, on_delete=models.CASCADE, related_name="+", db_index=False)
    sha256 = models.CharField(max_length=64)
    text = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["chat", "sha256"], name="context_text_chat_hash")]


class ContextRecord(OwnedByChat):
    """The prompt sent for one reply, as a plan over stored texts; `prompt_hash` verifies the rebuilt prompt.

    `history_tokens` is the size in tokens of all turns before the question, which would have been sent without memory
    (None if that is unknown). `is_counted`: whether the reply is in the daily figures.
    """

    reply = OwnedOneToOne(Message, on_delete=models.CASCADE, primary_key=True, related_name="context_record")
    revision = models.PositiveIntegerField()
    policy = models.CharField(max_length=32)
    plan = models.JSONField()
    sections = models.JSONField()
    tokens = models.PositiveIntegerField()
    budget = models.PositiveIntegerField()
    unrepresented = models.PositiveIntegerField()
    clipped = models.PositiveIntegerField()
    dropped = models.PositiveIntegerField()
    card = models.CharField(max_length=16, choices=CardOutcome.choices, blank=True, default="")
    instructions_hash = models.CharField(max_length=64, blank=True)
    turn_instructions_hash = models.CharField(max_length=64, blank=True)
    sources_hash = models.CharField(max_length=64, blank=True)
    tools_hash = models.CharField(max_length=64, blank=True, default="", db_default="")
    prompt_hash = models.CharField(max_length=64)
    history_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    is_counted = models.BooleanField(default=False, db_default=False)

    class Meta:
        verbose_name, verbose_name_plural = "prompt sent", "prompts sent"
        indexes = [
            models.Index(fields=["reply"], name="context_not_counted", condition=Q(is_counted=False)),
        ]

    def __str__(self) -> str:
        return f"context of {self.reply_id}"


class UsageDay(models.Model):
    """Sums over the replies of one model variant on one UTC day: what they cost, and what memory saved. No text.

    `billed` are the replies whose usage the upstream reported, `priced` those of them with a known price, of which
    `cost_usd` is. Tokens are of billed replies, and by our own count of others that did not fail. `compared` are the
    replies that did not fail and whose chat's length is known: the chat had `history_tokens`, `memory_tokens` were sent
    in its place, and `saved_tokens` is the difference if memory was shorter. `cards` are the complete replies whose
    prompt requested a memory card, `cards_kept` those whose card was usable. `counted_tokens` is our own count of the
    prompts of billed replies, `counted_billed` what was billed for these; prompts with images are left out.
    """

    day = models.DateField()
    model_variant = models.CharField(max_length=64)
    replies = models.PositiveBigIntegerField(default=0)
    failed = models.PositiveBigIntegerField(default=0)
    billed = models.PositiveBigIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    cached_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    priced = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=20, decimal_places=9, default=0)
    compared = models.PositiveBigIntegerField(default=0)
    history_tokens = models.PositiveBigIntegerField(default=0)
    memory_tokens = models.PositiveBigIntegerField(default=0)
    saved_tokens = models.PositiveBigIntegerField(default=0)
    cards = models.PositiveBigIntegerField(default=0, db_default=0)
    cards_kept = models.PositiveBigIntegerField(default=0, db_default=0)
    counted_tokens = models.PositiveBigIntegerField(default=0, db_default=0)
    counted_billed = models.PositiveBigIntegerField(default=0, db_default=0)

    class Meta:
        verbose_name, verbose_name_plural = "usage of a day", "usage by day"
        default_permissions = ()  # staff who may see memory may see them
        permissions = [("view_cost", "Can see what chats cost")]
        constraints = [models.UniqueConstraint(fields=["day", "model_variant"], name="usage_day_variant")]

    def __str__(self) -> str:
        return f"{self.day} {self.model_variant}"


class FoldDay(models.Model):
    """Sums over the summarizer's work on one UTC day, by kind of work and policy. No text.

    `folds` are the published revisions, except those made from cards of replies. `share_sum` is the sum of the shares
    of salient spans that each kept. `failures` are failed attempts.
    """

    day = models.DateField()
    kind = models.CharField(max_length=16, choices=RevisionKind.choices)
    policy = models.CharField(max_length=32)
    folds = models.PositiveBigIntegerField(default=0)
    turns = models.PositiveBigIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=20, decimal_places=9, default=0)
    duration_ms = models.PositiveBigIntegerField(default=0)
    share_sum = models.FloatField(default=0)
    degraded = models.PositiveBigIntegerField(default=0)
    failures = models.PositiveBigIntegerField(default=0)

    class Meta:
        verbose_name, verbose_name_plural = "summary updates of a day", "summary updates by day"
        default_permissions = ()  # as above
        constraints = [models.UniqueConstraint(fields=["day", "kind", "policy"], name="fold_day_kind_policy")]

    def __str__(self) -> str:
        return f"{self.day} {self.kind} {self.policy}"


class OwnerMonth(models.Model):
    """The calls for one account's chats in one month, which `month`, its first day, stands for. Deleted with it.

    An app's row, whose owner is the app, has all calls for its end users, too, and keeps them when they are erased. A
    month and not a day, so that there are few rows, and an index finds the costliest. `priced` are the calls with a
    known price, of which `cost_usd` is. No text.
    """

    replies = models.PositiveBigIntegerField(default=0)
    folds = models.PositiveBigIntegerField("summary updates", default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    cached_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    priced = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=20, decimal_places=9, default=0)
    month = models.DateField()
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    app = models.ForeignKey(App, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)

    class Meta:
        verbose_name, verbose_name_plural = "usage of a month", "usage by month"
        default_permissions = ()  # as above
        indexes = [
            models.Index(fields=["-month", "-cost_usd", "-id"], name="owner_month_costliest"),
            models.Index(fields=["app", "-month", "-cost_usd", "-id"], name="owner_month_of_app"),
        ]
        constraints = [models.UniqueConstraint(fields=["owner", "month"], name="owner_month_once")]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m} user {self.owner_id}"


class Worker(models.Model):
    """A worker, by the name under which it holds leases, and when it was last alive. Removed when it ends."""

    name = models.CharField(max_length=100, primary_key=True)
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        default_permissions = ()  # the admin does not show it


class ChatEmbeddings(OwnedByChat):
    """Which messages of a chat have vectors, of which model, and their cost. Only if embeddings are on.

    Messages up to `through_seq` have vectors. Work on it counts as an attempt before it begins, and is not repeated
    before `next_attempt_at`: so two workers do not do the same work, and a failing endpoint is not called again at
    once. `queued_at`: since when a task for it has been waiting in the queue.
    """

    chat = OwnedOneToOne(Chat, on_delete=models.CASCADE, primary_key=True, related_name="embedded")
    model = models.CharField(max_length=128)
    dimensions = models.PositiveIntegerField()
    through_seq = models.PositiveIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=16, decimal_places=9, default=0)
    queued_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        default_permissions = ()  # the admin does not show it


class MessageEmbedding(OwnedByChat):
    """The vector of a message, by its seq; its length is one.

    It is of the model named in the chat's `ChatEmbeddings`, and removed with the message's text.
    """

    chat = OwnedKey(Chat, on_delete=models.CASCADE, related_name="+", db_index=False)
    seq = models.PositiveIntegerField()
    vector = VectorField()

    class Meta:
        default_permissions = ()  # as above
        constraints = [models.UniqueConstraint(fields=["chat", "seq"], name="embedding_chat_seq")]
