"""What is remembered: the brief in use, the revisions it came from, and what each reply was told.

The brief is the row that changes. Revisions and context records are written once, a comparison until it has ended.
Last come the figures of each day, which outlive chats and users.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from chatmemory.database.ids import new_id
from conversations.models import Chat, Message


class Requested(models.TextChoices):
    """What somebody asked of a chat's memory beyond what is due. Durable, because the queue is only a hint."""

    NOTHING = ""
    UPDATE = "update"
    REBUILD = "rebuild"


class ConversationBrief(models.Model):
    """The memory of a chat as it stands, and the state of the work on it.

    `version` only grows; `head` is the revision in use (0 before any). `epoch` changes whenever something was taken
    out from under a fold, so that a fold already under way cannot publish. The counters tell of the finished turns
    after `folded_through_seq`, `folded_tokens` of those up to it, as they were said (None where nothing is folded, and
    until the next fold of a chat that an older version folded). `seen_seq` is the last message that went into the
    state, later where a card tells of a turn that is still shown. `policy` and `options` are those in use: the chat's,
    once it has been rebuilt by them.

    `queued_at`: since when a task of this chat, `task_name`, waits in the queue; None where none does. `on_demand_at`:
    since when there is work that the chat's owner caused otherwise than by turns; before `delayed_until` none is done.
    `pin_tokens` are those of all pins that hold, as their section of a prompt would have them; 0 where there is none.
    `paused_at`: since when nothing is folded that nobody asks for (`memory.pause`); None where updates go on.
    `paused_with` are the counters of what waited already then. `kept_percent`: of the details that the revision in use
    was to keep; None before any.
    """

    chat = models.OneToOneField(Chat, on_delete=models.CASCADE, primary_key=True, related_name="brief")
    policy = models.CharField(max_length=32)
    options = models.JSONField(blank=True, default=dict)
    global_summary = models.TextField(blank=True, default="")
    last_summarized_message = models.ForeignKey(
        Message, on_delete=models.DO_NOTHING, null=True, blank=True, related_name="+"
    )
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

    unfolded_turns = models.PositiveIntegerField(default=0)
    unfolded_tokens = models.PositiveIntegerField(default=0)
    unfolded_line_tokens = models.PositiveIntegerField(default=0)
    anchor_seq = models.PositiveIntegerField(default=0)
    pin_tokens = models.PositiveIntegerField(default=0, db_default=0)

    due = models.BooleanField(default=False)
    requested = models.CharField(
        max_length=16, choices=Requested.choices, blank=True, default=Requested.NOTHING
    )
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
    paused_with = models.JSONField(null=True, blank=True)
    last_error = models.JSONField(null=True, blank=True)
    lease_owner = models.CharField(max_length=100, blank=True, default="")
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["next_attempt_at"],
                name="brief_waiting",
                condition=Q(due=True) | ~Q(requested="") | Q(degraded=True),
            ),
            models.Index(
                fields=["on_demand_at"], name="brief_on_demand", condition=Q(on_demand_at__isnull=False)
            ),
            models.Index(fields=["queued_at"], name="brief_queued", condition=Q(queued_at__isnull=False)),
            models.Index(fields=["kept_percent"], name="brief_kept", condition=Q(kept_percent__isnull=False)),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(head__lte=models.F("version")), name="brief_head_within_version"
            )
        ]

    def __str__(self) -> str:
        return f"brief of {self.chat_id}"


class RevisionKind(models.TextChoices):
    FOLD = "fold", "Update"
    REBUILD = "rebuild", "Rebuild"
    RESTORE = "restore", "Restore"
    MANUAL = "manual", "Manual edit"
    RETRACT = "retract", "Rollback"
    BRANCH = "branch", "Copy"


class SummaryRevision(models.Model):
    """One version of a chat's memory, never changed: what it says, what it was made from, by what and at what cost.

    `folded_tokens` are those of all turns up to `through_seq`, as they were said; None where nobody counted.
    `parent` is the version whose state it goes on from: for a restored one, the version restored. `soft_faults` are
    what is wanting in it, `is_wanting` if anything is; `drift` is how far a rebuild found the memory before it from
    the originals. `forgotten_at`: when its texts were taken out, because a message that it had seen was edited or
    forgotten; what it cost stays.
    """

    chat = models.ForeignKey(Chat, on_delete=models.CASCADE, related_name="revisions", db_index=False)
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
    source_hash = models.CharField(max_length=64, blank=True)
    duration_ms = models.PositiveIntegerField(default=0)
    retained = models.JSONField(default=dict)
    soft_faults = models.JSONField(blank=True, default=list)
    is_wanting = models.BooleanField(default=False)
    drift = models.JSONField(null=True, blank=True)
    forgotten_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
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
        """How many of a hundred details it kept; None where that was not measured, or it says nothing."""
        share = self.retained.get("share")
        return None if share is None or not self.tokens_after else round(100 * share)

    @classmethod
    def of(
        cls, brief: ConversationBrief, *, kind: str, parent: int | None, tokens_before: int, **fields: Any
    ) -> SummaryRevision:
        """What `brief` says now, as its newest revision, not saved. It folded nothing and cost nothing, unless `fields`
        say otherwise."""
        said: dict[str, Any] = {
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
        made = {
            "version": brief.version,
            "kind": kind,
            "parent": parent,
            "tokens_before": tokens_before,
            **said,
            **fields,
        }
        return cls(chat_id=brief.chat_id, **made)


class Comparing(models.TextChoices):
    """States of a comparison: it is over in the last two, of which a failed one can be continued."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Comparison(models.Model):
    """A stored chat played under several policies: who wanted it, how far it is, and what was measured.

    Numbers alone, none of what was said. `budget` is None where the setting's was meant. `turns` were played, of the
    chat's `of_turns`; `progress` tells by policy how many of them are done. `result` is what its page shows, None until
    the first policy has been played: `sheets`, `note`, `growth`, and by policy `failed` (why) and `seconds`. Of one
    that was made when all policies were one task, it has `sheets` and `note` alone. `played` is what the tasks of its
    policies hand on: the runs so far, and by which the chat is known to be the same. `started_at` is when the policy
    began that was played last.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    chat = models.ForeignKey(Chat, on_delete=models.CASCADE, related_name="comparisons", db_index=False)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    policies = models.JSONField()
    budget = models.PositiveIntegerField(null=True, blank=True)
    state = models.CharField(max_length=16, choices=Comparing.choices, default=Comparing.WAITING)
    turns = models.PositiveIntegerField(default=0)
    of_turns = models.PositiveIntegerField(default=0)
    progress = models.JSONField(blank=True, default=dict)
    error = models.CharField(max_length=300, blank=True, default="")
    result = models.JSONField(null=True, blank=True)
    played = models.JSONField(blank=True, default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        default_permissions = ()  # who may see a chat and its memory may see this
        indexes = [
            models.Index(fields=["chat", "-id"], name="comparison_chat_newest"),
            models.Index(fields=["state", "id"], name="comparison_by_state"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=Comparing.values), name="comparison_state_known"),
            models.UniqueConstraint(
                fields=["chat"],
                condition=Q(state__in=[Comparing.WAITING, Comparing.RUNNING]),
                name="comparison_one_at_a_time",
            ),
        ]

    def __str__(self) -> str:
        return f"comparison of {self.chat_id}"

    @property
    def is_over(self) -> bool:
        """Whether nothing will change any more."""
        return self.state in (Comparing.DONE, Comparing.FAILED)


class UsageDay(models.Model):
    """What the replies of a UTC day by one model variant took, and what memory saved. Sums over all chats, no text.

    `billed` replies are those whose usage the upstream told, `priced` those of them whose price is known; tokens and
    `cost_usd` are theirs. `compared` are the replies that did not fail and whose chat's length is known:
    `history_tokens` it had, `memory_tokens` were sent in its place, `saved_tokens` is the difference where memory was
    shorter. `saved_usd` is that at the average price of the reply's own input tokens. `cards` are the complete replies
    that were asked for a memory card, `cards_kept` those of them whose card could be used. `counted_tokens` is our own
    count of the prompts of billed replies, `counted_billed` what was billed for these; none of prompts with images.
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
    saved_usd = models.DecimalField(max_digits=20, decimal_places=9, default=0)
    cards = models.PositiveBigIntegerField(default=0, db_default=0)
    cards_kept = models.PositiveBigIntegerField(default=0, db_default=0)
    counted_tokens = models.PositiveBigIntegerField(default=0, db_default=0)
    counted_billed = models.PositiveBigIntegerField(default=0, db_default=0)

    class Meta:
        default_permissions = ()  # shown in the overview alone
        permissions = [("view_cost", "Can see what chats cost")]
        constraints = [models.UniqueConstraint(fields=["day", "model_variant"], name="usage_day_variant")]

    def __str__(self) -> str:
        return f"{self.day} {self.model_variant}"


class FoldDay(models.Model):
    """What the summarizer did on a UTC day, by kind of work and policy. Sums over all chats, no text.

    `folds` are the revisions that were published; cards that replies brought along are not among them. `share_sum` is
    the sum of the shares of salient spans that each kept. `failures` are attempts that brought nothing.
    """

    day = models.DateField()
    kind = models.CharField(max_length=16, choices=RevisionKind.choices)
    policy = models.CharField(max_length=32)
    folds = models.PositiveBigIntegerField(default=0)
    turns = models.PositiveBigIntegerField(default=0)
    tokens_before = models.PositiveBigIntegerField(default=0)
    tokens_after = models.PositiveBigIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=20, decimal_places=9, default=0)
    duration_ms = models.PositiveBigIntegerField(default=0)
    share_sum = models.FloatField(default=0)
    degraded = models.PositiveBigIntegerField(default=0)
    failures = models.PositiveBigIntegerField(default=0)

    class Meta:
        default_permissions = ()  # as above
        constraints = [models.UniqueConstraint(fields=["day", "kind", "policy"], name="fold_day_kind_policy")]

    def __str__(self) -> str:
        return f"{self.day} {self.kind} {self.policy}"


def new_brief(chat: Chat) -> dict[str, Any]:
    """The fields with which the brief of `chat` begins."""
    return {"policy": chat.policy, "options": chat.options}
