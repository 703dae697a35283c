"""JSON of memory in the shapes of the public contract: the brief, prompts, revisions and estimates."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, get_args

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from chatmemory.api.http import Text, Whole
from chatmemory.text.word_diff import DiffPiece
from conversations.api.serializers import (
    SOURCES_MAX,
    HistoryField,
    ObjectField,
    PageOut,
    SourceIn,
    Strict,
    UsageOut,
    checked_text,
    known_policy,
)
from conversations.replies.events import iso, usage_json
from memory.briefs import fold_progress, readable_parts, unfolded
from memory.context.prompt import Context
from memory.folding.answer_checks import SOFT_FAULTS
from memory.folding.rebuild import current_progress
from memory.folding.summarizer import Folded
from memory.models import CardOutcome, ConversationBrief, RevisionKind, SummaryRevision
from memory.policies import POLICIES
from memory.policies.edit_form import Shape
from memory.policies.interval import Interval
from memory.recall.ranking import REASONS, Recall, Sought
from memory.work import WorkPhase, work_of


def brief_json(brief: ConversationBrief) -> dict[str, Any]:
    """The brief as the API shows it; the inner `brief` has the shape of version 2 of the seeds."""
    last, rebuild = brief.last_summarized_message_id, current_progress(brief)
    left = unfolded(brief)
    progress = None if rebuild else fold_progress(brief, left)
    return {
        "chat_id": str(brief.chat_id),
        "policy": brief.policy,
        "version": brief.version,
        "brief": {
            "global_summary": brief.global_summary,
            "last_summarized_message_id": None if last is None else str(last),
        },
        "token_count": brief.token_count,
        "unfolded": {"turns": left.turns, "tokens": left.tokens},
        "next_update": progress and asdict(progress),
        "state": brief.state,
        "readable": [asdict(part) for part in readable_parts(brief)],
        "updated_at": iso(brief.updated_at),
        "due": brief.due,
        "degraded": brief.degraded,
        "last_error": brief.last_error,
        "work": work_json(brief),
        "paused": {"at": iso(brief.paused_at), "by": brief.paused_by_whom} if brief.paused_at else None,
        "rebuild": rebuild and rebuild._asdict(),
    }


def work_json(brief: ConversationBrief) -> dict[str, Any]:
    """The state of work on the memory. Checks for a live worker only if there is work to do."""
    work = work_of(brief)
    return {
        "state": work.state,
        "since": iso(work.since),
        "attempt": work.attempts,
        "error": work.error,
        "sentence": work.sentence,
    }


def context_json(context: Context, said: int | None, recorded_hash: str | None = None) -> dict[str, Any]:
    """The prompt that a model is sent in place of the `said` tokens of its chat.

    `verified`: whether the rebuilt prompt has the hash that was recorded when it was sent.
    """
    body: dict[str, Any] = {
        "tokens": context.tokens,
        "budget": context.budget,
        "said_tokens": said,
        "sections": [
            {
                "kind": section.kind,
                "tokens": section.tokens,
                "text": section.text,
                "message_ids": [str(message_id) for message_id in section.message_ids],
                "clipped": section.clipped,
            }
            for section in context.sections
        ],
        "unrepresented": context.unrepresented,
        "clipped": context.clipped,
        "recall": RecallOut(context.plan.recall).data if context.plan.recall else None,
        "prompt": context.prompt.chat_messages,
        "prompt_hash": recorded_hash or context.prompt_hash,
    }
    return body if recorded_hash is None else {**body, "verified": recorded_hash == context.prompt_hash}


def summarized_json(folded: Folded) -> dict[str, Any]:
    """A summary that is not stored."""
    return {
        "summary": folded.state.summary,
        "state": folded.state.to_json(),
        "usage": usage_json(folded.usage, folded.cost_usd),
    }


class BriefTextOut(serializers.Serializer[Any]):
    global_summary = serializers.CharField(help_text="The text of the summary.")
    last_summarized_message_id = serializers.UUIDField(
        allow_null=True, help_text="The last message that the summary covers; null where it covers none."
    )


class EntryOut(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="What it is called; empty for a text without a name.")
    text = serializers.CharField(help_text="The text.")


class ReadablePartOut(serializers.Serializer[Any]):
    title = serializers.CharField(
        help_text="The heading, such as `Summary`, `Decisions` or `Open questions`."
    )
    shape = serializers.ChoiceField(
        get_args(Shape), help_text="One text, a list of texts, or a table of texts by name."
    )
    entries = EntryOut(many=True, help_text="What stands below the heading; a `text` has one entry.")


class UnfoldedOut(serializers.Serializer[Any]):
    turns = serializers.IntegerField(help_text="How many turns.")
    tokens = serializers.IntegerField(help_text="Tokens of those turns.")


class NextUpdateOut(serializers.Serializer[Any]):
    unit = serializers.ChoiceField(["turns", "tokens"], help_text="What the policy counts.")
    has = serializers.IntegerField(help_text="By the measure of the chat's policy.")
    threshold = serializers.IntegerField(
        help_text="Number of turns that start an update. The token threshold may start it earlier."
    )


class RebuildOut(serializers.Serializer[Any]):
    through_seq = serializers.IntegerField(help_text="The last message that the rebuild has covered.")
    of_seq = serializers.IntegerField(
        allow_null=True, help_text="The last message that the rebuild is to cover; null before it has begun."
    )
    turns = serializers.IntegerField(help_text="Turns that the rebuild has covered so far.")


class WorkOut(serializers.Serializer[Any]):
    state = serializers.ChoiceField(
        get_args(WorkPhase),
        help_text="`idle`: nothing is to be done. `queued`: it waits for the worker. `folding` and `rebuilding`: a "
        "worker is at it. `waiting`: an attempt failed, or memory was changed too often; it is tried later. "
        "`paused`: updates are paused. "
        "`no_worker`: it is to be done, and no worker answers.",
    )
    since = serializers.DateTimeField(
        allow_null=True,
        help_text="Since when it is queued, being worked on or paused; null where nobody knows.",
    )
    attempt = serializers.IntegerField(help_text="How many attempts have failed in a row.")
    error = serializers.CharField(
        allow_null=True, help_text="The code of the last attempt's error; null if it did not fail."
    )
    sentence = serializers.CharField(help_text="The same as a sentence for people.")


class PausedOut(serializers.Serializer[Any]):
    at = serializers.DateTimeField(help_text="Since when.")
    by = serializers.ChoiceField(["user", "staff"], help_text="Who paused it: the chat's owner, or staff.")


class BriefOut(serializers.Serializer[Any]):
    chat_id = serializers.UUIDField(help_text="The chat's id.")
    policy = serializers.CharField(
        help_text="The memory policy: `chunked`, `hierarchical`, `card`, `interval` or `progressive`."
    )
    version = serializers.IntegerField(
        help_text="The number of a version of the summary; 0 before the first."
    )
    brief = BriefTextOut(help_text="The summary and how far it reaches.")
    token_count = serializers.IntegerField(help_text="Tokens of the text.")
    unfolded = UnfoldedOut(help_text="What is not summarized yet.")
    next_update = NextUpdateOut(
        allow_null=True,
        help_text="How far the chat is from its next update. Null where no number starts one, while memory is "
        "rebuilt, and while updates are paused.",
    )
    state = ObjectField(help_text="What the policy remembers besides the summary.")
    readable = ReadablePartOut(
        many=True,
        help_text="All that the memory holds, laid out for people, whatever the policy. Empty before the first update.",
    )
    updated_at = serializers.DateTimeField(allow_null=True, help_text="When it last changed.")
    due = serializers.BooleanField(help_text="Whether older messages wait to be summarized.")
    degraded = serializers.BooleanField(
        help_text="Whether the built-in summarizer made it, because the model kept failing."
    )
    last_error = ObjectField(
        allow_null=True, help_text="Why the last attempt failed: `code` and `message`. Null if it did not."
    )
    work = WorkOut(help_text="What is going on with the memory now.")
    paused = PausedOut(
        allow_null=True,
        help_text="Updates are paused: the summary stays as it is until they are resumed, or until what was said since "
        "no longer fits into a prompt. Null where they are not.",
    )
    rebuild = RebuildOut(allow_null=True, help_text="Progress of a rebuild; null if none is running.")


class ResummarizeIn(Strict):
    mode = serializers.ChoiceField(["update", "rebuild"], help_text="`update` or `rebuild`.")


class RestoreIn(Strict):
    pause = serializers.BooleanField(
        required=False,
        default=False,
        help_text="`true` keeps the version as it is: updates are paused. Else newer messages are summarized again.",
    )


@extend_schema_field({"type": "string", "enum": sorted(POLICIES)})
class PolicyName(Text):
    """The name of a policy."""


class EstimateQuery(serializers.Serializer[Any]):
    mode = serializers.ChoiceField(
        ["update", "rebuild"],
        required=False,
        default="update",
        help_text="What is to be estimated: an update (the default), or a rebuild.",
    )
    policy = PolicyName(
        required=False, validators=[known_policy], help_text="A rebuild by this policy, whatever `mode` says."
    )
    restore = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=2**31 - 1,
        help_text="What is summarized again after this version is restored.",
    )


class EstimateOut(serializers.Serializer[Any]):
    turns = serializers.IntegerField(help_text="Turns that would be summarized.")
    tokens = serializers.IntegerField(help_text="Tokens of those turns.")
    calls = serializers.IntegerField(help_text="About how many summarizer calls it takes.")
    input_tokens = serializers.IntegerField(help_text="About how many tokens are sent.")
    output_tokens = serializers.IntegerField(help_text="About how many tokens come back.")
    cost_usd = serializers.FloatField(
        allow_null=True, help_text="About what it costs, in USD; null where the price is not known."
    )
    minutes = serializers.FloatField(
        allow_null=True,
        help_text="About how long it takes; null where nothing is known of the summarizer's speed.",
    )


class TaskOut(serializers.Serializer[Any]):
    task_id = serializers.CharField(help_text="The background task.")


class ContextIn(Strict):
    message = Text(
        required=False,
        allow_blank=True,
        default="",
        trim_whitespace=False,
        validators=[checked_text],
        help_text="The question to show the prompt for.",
    )
    policy = Text(
        required=False,
        validators=[known_policy],
        help_text="The memory policy: `chunked`, `hierarchical`, `card`, `interval` or `progressive`.",
    )
    budget = Whole(
        required=False, min_value=0, max_value=1_000_000, help_text="Tokens that memory may have in a prompt."
    )
    sources = serializers.ListField(
        child=SourceIn(),
        required=False,
        default=list,
        max_length=SOURCES_MAX,
        help_text="Retrieved material for this turn.",
    )


class SectionOut(serializers.Serializer[Any]):
    kind = serializers.CharField(
        help_text="Which part of the prompt: `summary`, `window`, `recall` and others."
    )
    tokens = serializers.IntegerField(help_text="Tokens of it.")
    text = serializers.CharField(help_text="The text.")
    message_ids = serializers.ListField(
        child=serializers.UUIDField(), help_text="The messages that are in it."
    )
    clipped = serializers.BooleanField(help_text="Whether it was shortened to fit.")


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]})
class ContentField(serializers.JSONField):
    """A text, or a list of parts if there are images or files."""


class PromptMessageOut(serializers.Serializer[Any]):
    role = serializers.ChoiceField(["system", "user", "assistant", "tool"], help_text="Who speaks.")
    content = ContentField(allow_null=True, help_text="The text, exactly as it was sent.")
    tool_calls = serializers.ListField(
        child=ObjectField(), required=False, help_text="The calls of tools that the assistant made."
    )
    tool_call_id = serializers.CharField(required=False, help_text="The call that this is the output of.")


class RecallOut(serializers.Serializer[Any]):
    """Whether earlier turns were searched for the question, and why."""

    sought = serializers.ChoiceField(
        get_args(Sought), help_text="Whether all matching messages were brought back, some of them, or none."
    )
    reason = serializers.ChoiceField(list(REASONS), help_text="Machine-readable reason.")
    why = serializers.CharField(help_text="Why, in a sentence for people.")

    def to_representation(self, instance: Recall) -> dict[str, Any]:
        return {"sought": instance.sought, "reason": instance.reason, "why": REASONS[instance.reason]}


class ContextOut(serializers.Serializer[Any]):
    tokens = serializers.IntegerField(
        help_text="Tokens of memory in the prompt, without instructions, sources and question."
    )
    budget = serializers.IntegerField(help_text="Tokens that memory may have in a prompt.")
    said_tokens = serializers.IntegerField(
        allow_null=True,
        help_text="Tokens of the whole chat as it was said: what memory stands for. Of a past prompt, up to its "
        "question. Null where they were never counted.",
    )
    sections = SectionOut(many=True, help_text="The parts of the prompt, in order.")
    unrepresented = serializers.IntegerField(
        help_text="Turns that are in the prompt in no form: they can only be recalled."
    )
    clipped = serializers.IntegerField(help_text="How many items were shortened.")
    recall = RecallOut(
        allow_null=True,
        help_text="Whether earlier messages were searched for the question; null where that is not known.",
    )
    prompt = PromptMessageOut(many=True, help_text="The prompt as messages, as the model gets it.")
    prompt_hash = serializers.CharField(help_text="SHA-256 by which the prompt can be told from any other.")
    verified = serializers.BooleanField(
        required=False,
        help_text="Whether the rebuilt prompt has the hash that was recorded when it was sent.",
    )
    exact = serializers.BooleanField(
        required=False, help_text="Whether this is exactly the prompt that was sent."
    )
    why = serializers.CharField(
        required=False,
        allow_null=True,
        help_text="Why this may not be the prompt that was sent; null where it is.",
    )
    card = serializers.ChoiceField(
        CardOutcome.choices,
        required=False,
        allow_blank=True,
        help_text="What became of the memory card that the reply was asked for; empty where none was.",
    )


class UsageQuery(serializers.Serializer[Any]):
    since = serializers.DateTimeField(required=False, help_text="From this moment on.")
    until = serializers.DateTimeField(required=False, help_text="Up to this moment.")


class UsageDayOut(UsageOut):
    date = serializers.DateField(help_text="The day, in UTC.")
    model_variant = serializers.CharField(
        help_text="The name under which the model is offered here: see `GET /v1/models`."
    )
    replies = serializers.IntegerField(help_text="How many replies there were.")


class UsageDaysOut(serializers.Serializer[Any]):
    results = UsageDayOut(many=True, help_text="Items on this page.")


class SummarizeIn(Strict):
    messages = HistoryField(help_text="System messages are left out.")
    previous_summary = Text(
        required=False,
        allow_blank=True,
        default="",
        trim_whitespace=False,
        validators=[checked_text],
        help_text="The summary so far, to go on from.",
    )
    policy = Text(
        required=False,
        default=Interval.name,
        validators=[known_policy],
        help_text="The memory policy: `chunked`, `hierarchical`, `card`, `interval` or `progressive`.",
    )


class SummarizeOut(serializers.Serializer[Any]):
    summary = serializers.CharField(help_text="The summary.")
    state = ObjectField(help_text="What the policy remembers besides the summary.")
    usage = UsageOut(help_text="Tokens and cost as reported by the provider; null if it reported none.")


MOST_VERSIONS = 2**31 - 1
OPS = {"same": "equal", "del": "delete", "ins": "insert"}


class RetainedOut(serializers.Serializer[Any]):
    kept = serializers.ListField(child=serializers.CharField(), help_text="What was kept.")
    lost = serializers.ListField(child=serializers.CharField(), help_text="What was not kept.")
    share = serializers.FloatField(min_value=0, max_value=1, help_text="From 0 to 1: how much of it.")
    through_seq = serializers.IntegerField(
        required=False, help_text="Only where messages after this one were not looked at, for want of time."
    )


class SoftFaultOut(serializers.Serializer[Any]):
    """A defect in a summary that was accepted anyway. Which numbers are present depends on the fault."""

    fault = serializers.ChoiceField(list(SOFT_FAULTS), help_text="The quality problem.")
    tokens = serializers.IntegerField(required=False, help_text="Tokens that it has.")
    expected = serializers.IntegerField(required=False, help_text="The expected number of tokens.")
    kept = serializers.IntegerField(required=False, help_text="How many were kept.")
    of = serializers.IntegerField(required=False, help_text="How many there were.")
    lost = serializers.ListField(child=serializers.CharField(), required=False, help_text="What was lost.")
    from_seq = serializers.IntegerField(required=False, help_text="The first message concerned.")
    through_seq = serializers.IntegerField(required=False, help_text="The last message concerned.")


class RevisionOut(serializers.Serializer[Any]):
    version = serializers.IntegerField(
        help_text="The number of a version of the summary; 0 before the first."
    )
    parent = serializers.IntegerField(
        allow_null=True, help_text="The version that it goes on from; null for a first one."
    )  # type: ignore[assignment]  # also DRF's name for the outer one
    kind = serializers.ChoiceField(
        RevisionKind.choices,
        help_text="What made it: an update (`fold`), a rebuild, a restore, an edit by hand, or a step back.",
    )
    degraded = serializers.BooleanField(
        help_text="Whether the built-in summarizer made it, because the model kept failing."
    )
    global_summary = serializers.CharField(help_text="The text of the summary.")
    state = ObjectField(help_text="What the policy remembers besides the summary.")
    from_seq = serializers.IntegerField(help_text="The first message that was summarized into it.")
    through_seq = serializers.IntegerField(
        help_text="The last message that was summarized into it; before `from_seq` if none was."
    )
    turns = serializers.IntegerField(help_text="Turns that were summarized into it.")
    tokens_before = serializers.IntegerField(
        help_text="Tokens that it was made from: the memory before, and the messages."
    )
    tokens_after = serializers.IntegerField(help_text="Tokens of the memory after it.")
    input_tokens = serializers.IntegerField(
        help_text="Tokens that the model read, as the provider counted them."
    )
    output_tokens = serializers.IntegerField(
        help_text="Tokens that the model wrote, as the provider counted them."
    )
    cost_usd = serializers.FloatField(
        allow_null=True, help_text="Cost in USD; null where the price is not known."
    )
    model = serializers.CharField(help_text="The model's name, as the provider knows it.")
    prompt_hash = serializers.CharField(
        help_text="The version of the instructions that the summarizer got: equal if they were the same."
    )
    focus = serializers.CharField(
        allow_blank=True, help_text="The chat's option `focus`, as it was part of the instructions."
    )
    custom_instructions = serializers.BooleanField(
        help_text="Whether the instructions were those of the setting `MEMORY_SUMMARIZER_INSTRUCTIONS`."
    )
    source_hash = serializers.CharField(help_text="SHA-256 of the messages that it was made from.")
    duration_ms = serializers.IntegerField(help_text="How long the summarizer took, in milliseconds.")
    retained = RetainedOut(help_text="Of the numbers, ids and names that were summarized: which it kept.")
    soft_faults = SoftFaultOut(
        many=True, help_text="Quality problems of a version that was accepted nevertheless."
    )
    created_at = serializers.DateTimeField(help_text="Creation time.")
    forgotten_at = serializers.DateTimeField(
        allow_null=True,
        help_text="When its texts were removed, because a message that it tells of was edited or deleted.",
    )

    def to_representation(self, instance: SummaryRevision) -> dict[str, Any]:
        """JSON columns as they are stored, whatever an older version wrote into them."""
        cost = instance.cost_usd
        return {name: getattr(instance, name) for name in map(str, self.fields)} | {
            "cost_usd": None if cost is None else float(cost),
            "created_at": iso(instance.created_at),
            "forgotten_at": iso(instance.forgotten_at),
        }


class RevisionsPageOut(PageOut):
    results = RevisionOut(many=True, help_text="Items on this page.")


class DifferenceQuery(serializers.Serializer[Any]):
    against = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_VERSIONS,
        help_text="The version that it is compared with.",
    )


class PieceOut(serializers.Serializer[Any]):
    op = serializers.ChoiceField(
        list(OPS.values()), help_text="Whether the text is in both, or in one of them."
    )
    text = serializers.CharField(help_text="The text.")

    def to_representation(self, instance: DiffPiece) -> dict[str, Any]:
        return {"op": OPS[instance.kind], "text": instance.text}


class DifferenceOut(serializers.Serializer[Any]):
    version = serializers.IntegerField(
        help_text="The number of a version of the summary; 0 before the first."
    )
    against = serializers.IntegerField(allow_null=True, help_text="The version that it is compared with.")
    pieces = PieceOut(many=True, help_text="Joined in order, they give both texts.")
    lost = serializers.ListField(
        child=serializers.CharField(), help_text="Numbers, ids and names that it has no more."
    )
    gained = serializers.ListField(
        child=serializers.CharField(), help_text="Numbers, ids and names that it has and the other had not."
    )
    policy = serializers.CharField(help_text="The policy that made the version.")
    against_policy = serializers.CharField(
        allow_null=True,
        help_text="The policy that made the version that it is compared with. Where they differ, all of one text is "
        "deleted and all of the other inserted.",
    )
