"""JSON of memory in the shapes of the public contract: the brief, prompts, revisions and estimates."""

from functools import partial
from typing import Any, get_args

from drf_spectacular.utils import (
    PolymorphicProxySerializer,
    extend_schema,
    extend_schema_field,
    extend_schema_serializer,
)
from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DateField,
    DateTimeField,
    FloatField,
    IntegerField,
    JSONField,
    ListField,
    Serializer,
    SerializerMethodField,
    UUIDField,
)

from chatmemory.api.fields import Choice, Flag, LongText, MaxChars, ObjectField, ShortList, Strict, Text, Whole
from chatmemory.api.http import page_of
from conversations.api.serializers import (
    HISTORY_MAX,
    POLICY,
    SOURCES_MAX,
    HistoryField,
    SourceIn,
    checked_text,
    known_policy,
)
from conversations.models import Role
from conversations.replies.serializers import TEXT, USAGE, VARIANT, StoredOut, UsageOut
from memory.briefs import fold_progress, readable_parts, unfolded
from memory.context.prompt import Context
from memory.explain.sources import MAX_SHOWN_CHARS, SourceKind
from memory.folding.answer_checks import SOFT_FAULTS
from memory.folding.fold import current_progress
from memory.models import MAX_CHARS, CardOutcome, ConversationBrief, Pin, PinKind, PinnedBy, PinScope, RevisionKind
from memory.policies import POLICIES
from memory.policies.interval import Interval
from memory.policies.state_parts import Shape
from memory.recall.ranking import REASONS, Recall, Sought
from memory.revisions.diff import Op
from memory.status import WorkPhase, work_of

memory_operation = partial(extend_schema, tags=["memory"])

MAX_VERSION = 2**31 - 1


def brief_json(brief: ConversationBrief) -> dict[str, Any]:
    """The brief as the API shows it. Checks for a live worker only if there is work to do."""
    left, rebuild = unfolded(brief), current_progress(brief)
    derived = {
        "unfolded": left,
        "next_update": None if rebuild else fold_progress(brief, left),
        "readable": readable_parts(brief),
        "work": work_of(brief),
        "paused": {"at": brief.paused_at, "by": brief.paused_by_whom} if brief.paused_at else None,
        "rebuild": rebuild,
    }
    return dict(BriefOut(vars(brief) | derived).data)


def context_json(context: Context, history_tokens: int | None, **past: object) -> dict[str, Any]:
    """The prompt that a model is sent in place of the `history_tokens` tokens of its chat; `past` is of a sent one."""
    of_prompt = {"context": context, "history_tokens": history_tokens, "prompt_hash": context.prompt_hash}
    return dict(ContextOut(of_prompt | past).data)


class BriefTextOut(Serializer[Any]):
    global_summary = CharField(help_text="The text of the summary.")
    last_summarized_message_id = UUIDField(allow_null=True, help_text="The last summarized message, or null.")


class EntryOut(Serializer[Any]):
    name = CharField(help_text="Its name; empty for a text without one.")
    text = CharField(help_text="The text.")


class ReadablePartOut(Serializer[Any]):
    title = CharField(help_text="The heading, such as `Summary`, `Decisions` or `Open questions`.")
    shape = ChoiceField(get_args(Shape), help_text="One text, a list of texts, or a table of texts by name.")
    entries = EntryOut(many=True, help_text="What stands below the heading; a `text` has one entry.")


class UnfoldedOut(Serializer[Any]):
    turns = IntegerField(help_text="How many turns.")
    tokens = IntegerField(help_text="Tokens of those turns.")


class NextUpdateOut(Serializer[Any]):
    unit = ChoiceField(["turns", "tokens"], help_text="What the policy counts.")
    has = IntegerField(help_text="By the measure of the chat's policy.")
    threshold = IntegerField(help_text="Turns that start an update. A token threshold may come first.")


class RebuildOut(Serializer[Any]):
    through_seq = IntegerField(help_text="The last message that the rebuild has covered.")
    of_seq = IntegerField(allow_null=True, help_text="The last message to cover; null before it begins.")
    turns = IntegerField(help_text="Turns that the rebuild has covered so far.")


class WorkOut(Serializer[Any]):
    state = ChoiceField(
        get_args(WorkPhase),
        help_text="`idle`: nothing is to be done. `queued`: it waits for the worker. `folding` and `rebuilding`: a "
        "worker is at it. `waiting`: an attempt failed, or memory was changed too often; it is tried later. "
        "`paused`: updates are paused. "
        "`no_worker`: it is to be done, and no worker answers.",
    )
    since = DateTimeField(allow_null=True, help_text="When this state began: queued, in work or paused; else null.")
    attempt = IntegerField(source="attempts", help_text="How many attempts have failed in a row.")
    error = CharField(allow_null=True, help_text="Error code of the last attempt; null if it did not fail.")
    sentence = CharField(help_text="The same as a sentence for people.")


class PausedOut(Serializer[Any]):
    at = DateTimeField(help_text="Since when.")
    by = ChoiceField(["user", "staff"], help_text="Who paused it: the chat's owner, or staff.")


class BriefOut(Serializer[Any]):
    chat_id = UUIDField(help_text="The chat's id.")
    policy = CharField(help_text=POLICY)
    version = IntegerField(help_text="The number of a version of the summary; 0 before the first.")
    brief = BriefTextOut(source="*", help_text="The summary and how far it reaches.")
    token_count = IntegerField(help_text="Tokens of the text.")
    unfolded = UnfoldedOut(help_text="Turns that are not summarized yet.")
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
    updated_at = DateTimeField(allow_null=True, help_text="When it last changed.")
    due = BooleanField(help_text="Whether older messages wait to be summarized.")
    degraded = BooleanField(help_text="Whether the built-in summarizer made it after the model kept failing.")
    last_error = ObjectField(allow_null=True, help_text="`code` and `message` of the last failure, or null.")
    work = WorkOut(help_text="The present work on the memory.")
    paused = PausedOut(
        allow_null=True,
        help_text="Updates are paused: the summary stays as it is until they are resumed, or until what was said since "
        "no longer fits into a prompt. Null where they are not.",
    )
    rebuild = RebuildOut(allow_null=True, help_text="Progress of a rebuild; null if none is running.")


class ResummarizeIn(Strict):
    mode = Choice(["update", "rebuild"], help_text="`update` or `rebuild`.")


class RestoreIn(Strict):
    pause = BooleanField(
        default=False,
        help_text="`true` keeps the version as it is: updates are paused. Else newer messages are summarized again.",
    )


class EstimateQuery(Serializer[Any]):
    mode = Choice(["update", "rebuild"], default="update", help_text="The work to estimate.")
    policy = Choice(
        sorted(POLICIES),
        required=False,
        help_text="A rebuild by this policy, whatever `mode` says.",
        error_messages={"invalid_choice": f"Unknown policy. Choose one of {', '.join(sorted(POLICIES))}."},
    )
    restore = IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_VERSION,
        help_text="The messages that are summarized again after this version is restored.",
    )


class EstimateOut(Serializer[Any]):
    turns = IntegerField(help_text="Turns that would be summarized.")
    tokens = IntegerField(help_text="Tokens of those turns.")
    calls = IntegerField(help_text="About how many summarizer calls it takes.")
    input_tokens = IntegerField(help_text="About how many tokens are sent.")
    output_tokens = IntegerField(help_text="About how many tokens come back.")
    cost_usd = FloatField(allow_null=True, help_text="Estimated cost in USD; null if the price is unknown.")
    minutes = FloatField(allow_null=True, help_text="Estimated duration; null if its speed is unknown.")


class TaskOut(Serializer[Any]):
    task_id = CharField(help_text="The background task.")


class ContextIn(Strict):
    message = LongText(checked_text, allow_blank=True, default="", help_text="The question of the prompt.")
    policy = Text(required=False, validators=[known_policy], help_text=POLICY)
    budget = Whole(required=False, min_value=0, max_value=1_000_000, help_text="Memory's token budget.")
    sources = ShortList(
        child=SourceIn(), default=list, max_length=SOURCES_MAX, help_text="Retrieved material for this turn."
    )


class SectionOut(Serializer[Any]):
    kind = CharField(help_text="Which part of the prompt: `summary`, `window`, `recall` and others.")
    tokens = IntegerField(help_text="Tokens of it.")
    text = CharField(help_text="The text.")
    message_ids = ListField(child=UUIDField(), help_text="The messages that are in it.")
    clipped = BooleanField(help_text="Whether it was shortened to fit.")


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]})
class ContentField(JSONField):
    """A text, or a list of parts if there are images or files."""


class NumberOrNull(IntegerField):
    """A number that is null where it is 0."""

    def to_representation(self, value: int) -> int | None:  # type: ignore[override]  # as above
        return value or None


class PromptMessageOut(StoredOut):
    role = ChoiceField(["system", "user", "assistant", "tool"], help_text="Who speaks.")
    content = ContentField(allow_null=True, help_text=TEXT)
    tool_calls = ListField(child=ObjectField(), required=False, help_text="Tool calls of the assistant.")
    tool_call_id = CharField(required=False, help_text="The call whose output this is.")


class RecallOut(Serializer[Any]):
    """Whether earlier turns were searched for the question, and why."""

    sought = ChoiceField(get_args(Sought), help_text="Whether all, some or no matches were recalled.")
    reason = ChoiceField(list(REASONS), help_text="Machine-readable reason.")
    why = CharField(help_text="Why, in a sentence for people.")

    def to_representation(self, instance: Recall) -> dict[str, Any]:
        return {"sought": instance.sought, "reason": instance.reason, "why": REASONS[instance.reason]}


@extend_schema_serializer(deprecate_fields=["said_tokens"])
class ContextOut(Serializer[Any]):
    tokens = IntegerField(
        source="context.tokens", help_text="Memory's tokens, without instructions, sources, question."
    )
    budget = IntegerField(source="context.plan.budget", help_text="Memory's token budget.")
    history_tokens = IntegerField(
        allow_null=True,
        help_text="Tokens of the whole chat, which memory stands for. For a past prompt, up to its question. "
        "Null if they were never counted.",
    )
    said_tokens = IntegerField(
        source="history_tokens", allow_null=True, help_text="Deprecated: the same as `history_tokens`."
    )
    sections = SectionOut(source="context.sections", many=True, help_text="Parts of the prompt, in order.")
    unrepresented = IntegerField(
        source="context.plan.unrepresented",
        help_text="Turns that are in the prompt in no form: they can only be recalled.",
    )
    clipped = IntegerField(source="context.plan.clipped", help_text="How many items were shortened.")
    refused_tokens = NumberOrNull(
        source="context.plan.refused_tokens",
        allow_null=True,
        help_text="Tokens of a larger prompt that the model's server refused before this one; null if there was none.",
    )
    recall = RecallOut(
        source="context.plan.recall",
        allow_null=True,
        help_text="Whether earlier messages were searched; null if unknown.",
    )
    elsewhere = RecallOut(
        source="context.plan.elsewhere_recall",
        allow_null=True,
        help_text="Whether other chats were searched; null in a chat that shares nothing that was said.",
    )
    prompt = PromptMessageOut(
        source="context.prompt.chat_messages",
        many=True,
        help_text="The prompt as messages, as the model gets it.",
    )
    prompt_hash = CharField(help_text="SHA-256 by which the prompt can be told from any other.")
    verified = BooleanField(required=False, help_text="Whether its hash is that of the sent prompt.")
    exact = BooleanField(required=False, help_text="Whether this is exactly the prompt that was sent.")
    why = CharField(required=False, allow_null=True, help_text="Why it may differ from the sent prompt, or null.")
    card = ChoiceField(
        CardOutcome.choices,
        required=False,
        allow_blank=True,
        help_text="The outcome of the memory card that the reply was asked for; empty if it was asked for none.",
    )


class PromptSourceOut(Serializer[Any]):
    kind = ChoiceField(get_args(SourceKind), help_text="What it is: `line` of a turn, `elsewhere` of another chat.")
    chat_id = UUIDField(help_text="The chat that it is from.")
    chat_title = CharField(allow_null=True, help_text="The title of that chat; null for this one.")
    message_id = UUIDField(allow_null=True, help_text="The message that says it; of a line, the first of its turn.")
    role = ChoiceField(Role.choices, allow_null=True, help_text="Who said it.")
    said_at = DateTimeField(allow_null=True, help_text="When it was said, or pinned.")
    text = CharField(help_text=f"The text; of a message in full, its first {MAX_SHOWN_CHARS} characters.")
    version = IntegerField(allow_null=True, help_text="The version of the summary that has it.")
    pin_id = UUIDField(allow_null=True, help_text="The pin.")
    muted = BooleanField(help_text="Whether it has been muted.")


class SourcesOut(Serializer[Any]):
    results = PromptSourceOut(many=True, help_text="All of them, in the order of the prompt.")


class UsageDayOut(UsageOut):
    date = DateField(help_text="The day, in UTC.")
    model_variant = CharField(help_text=VARIANT)
    replies = IntegerField(help_text="How many replies there were.")
    estimated = IntegerField(required=False, help_text="Replies without a token count from the provider.")


class UsageDaysOut(Serializer[Any]):
    results = UsageDayOut(many=True, help_text="Items on this page.")


class SummarizeIn(Strict):
    messages = HistoryField(min_length=1, max_length=HISTORY_MAX, help_text="System messages are left out.")
    previous_summary = LongText(checked_text, allow_blank=True, default="", help_text="The previous summary.")
    policy = Text(default=Interval.name, validators=[known_policy], help_text=POLICY)


class SummarizeOut(Serializer[Any]):
    summary = CharField(help_text="The summary.")
    state = ObjectField(help_text="What the policy remembers besides the summary.")
    usage = UsageOut(help_text=USAGE)


class RetainedOut(StoredOut):
    kept = ListField(child=CharField(), help_text="What was kept.")
    lost = ListField(child=CharField(), help_text="What was not kept.")
    share = FloatField(min_value=0, max_value=1, help_text="From 0 to 1: how much of it.")
    through_seq = IntegerField(required=False, help_text="Set if later messages were not searched in time.")


class SoftFaultOut(StoredOut):
    """A defect in a summary that was accepted anyway. Which numbers are present depends on the fault."""

    fault = ChoiceField(list(SOFT_FAULTS), help_text="The quality problem.")
    tokens = IntegerField(required=False, help_text="Tokens that it has.")
    expected = IntegerField(required=False, help_text="The expected number of tokens.")
    kept = IntegerField(required=False, help_text="How many were kept.")
    of = IntegerField(required=False, help_text="How many there were.")
    lost = ListField(child=CharField(), required=False, help_text="What was lost.")
    figures = ListField(
        child=CharField(),
        required=False,
        help_text="Numbers and codes that no message has: the first answer had them, this summary does not.",
    )
    from_seq = IntegerField(required=False, help_text="The first message concerned.")
    through_seq = IntegerField(required=False, help_text="The last message concerned.")


class RevisionOut(Serializer[Any]):
    version = IntegerField(help_text="The number of a version of the summary; 0 before the first.")
    parent = IntegerField(allow_null=True, help_text="The version from which it was made; null for the first one.")  # type: ignore[assignment]  # also DRF's name for the outer one
    kind = ChoiceField(
        RevisionKind.choices,
        help_text="What made it: an update (`fold`), a rebuild, a restore, an edit by hand, or a step back.",
    )
    degraded = BooleanField(help_text="Whether the built-in summarizer made it after the model kept failing.")
    global_summary = CharField(help_text="The text of the summary.")
    state = ObjectField(help_text="What the policy remembers besides the summary.")
    from_seq = IntegerField(help_text="The first message that was summarized into it.")
    through_seq = IntegerField(help_text="The last message summarized into it; before `from_seq` if none.")
    turns = IntegerField(help_text="Turns that were summarized into it.")
    tokens_before = IntegerField(help_text="Input tokens: the previous memory and the messages.")
    tokens_after = IntegerField(help_text="Tokens of the memory after it.")
    input_tokens = IntegerField(help_text="Tokens that the model read, as the provider counted them.")
    output_tokens = IntegerField(help_text="Tokens that the model wrote, as the provider counted them.")
    cost_usd = FloatField(allow_null=True, help_text="Cost in USD; null if the price is unknown.")
    model = CharField(help_text="The model's name, as the provider knows it.")
    prompt_hash = CharField(help_text="Identifies the summarizer's instructions: equal if unchanged.")
    focus = CharField(allow_blank=True, help_text="The chat's option `focus`, as in the instructions.")
    custom_instructions = BooleanField(help_text="Whether `MEMORY_SUMMARIZER_INSTRUCTIONS` was set.")
    source_hash = CharField(help_text="SHA-256 of the messages that it was made from.")
    duration_ms = IntegerField(help_text="How long the summarizer took, in milliseconds.")
    retained = RetainedOut(help_text="Of the numbers, ids and names that were summarized: which it kept.")
    soft_faults = SoftFaultOut(many=True, help_text="Quality problems of an accepted version.")
    created_at = DateTimeField(help_text="Creation time.")
    forgotten_at = DateTimeField(allow_null=True, help_text="When an edit or deletion removed its texts, or null.")


RevisionsPageOut = page_of("RevisionsPageOut", RevisionOut)


class DifferenceQuery(Serializer[Any]):
    against = IntegerField(required=False, min_value=1, max_value=MAX_VERSION, help_text="The version to compare with.")


class PieceOut(Serializer[Any]):
    op = ChoiceField(get_args(Op), help_text="Whether the text is in both, or in one of them.")
    text = CharField(help_text="The text.")


class DifferenceOut(Serializer[Any]):
    version = IntegerField(help_text="The number of a version of the summary; 0 before the first.")
    against = IntegerField(allow_null=True, help_text="The version to compare with.")
    pieces = PieceOut(many=True, help_text="Joined in order, they give both texts.")
    lost = ListField(child=CharField(), help_text="Numbers, ids and names that it no longer has.")
    gained = ListField(child=CharField(), help_text="Numbers, ids and names that only this version has.")
    policy = CharField(help_text="The policy that made the version.")
    against_policy = CharField(
        allow_null=True,
        help_text="The policy that made the version that it is compared with. Where they differ, all of one text is "
        "deleted and all of the other inserted.",
    )


# Pins


SCOPE = "Where it holds: in this chat, in all chats of its `project`, or in all chats of the person."


class PinTextIn(Strict):
    text = LongText(
        MaxChars(MAX_CHARS),
        help_text=f"Text for every prompt, at most {MAX_CHARS:,} characters.",
        error_messages={"required": "Give a text, or the message_id of a message to pin."},
    )
    scope = Choice(PinScope.choices, default=PinScope.CHAT, help_text=SCOPE)


class PinMessageIn(Strict):
    message_id = UUIDField(help_text=f"A message of this chat to pin: its first {MAX_CHARS:,} characters.")
    scope = Choice(PinScope.choices, default=PinScope.CHAT, help_text=SCOPE)


PIN_IN = PolymorphicProxySerializer("PinIn", [PinTextIn, PinMessageIn], None)
"""One of the two."""


class PinChangeIn(Strict):
    text = LongText(MaxChars(MAX_CHARS), required=False, help_text="Its new text.")
    scope = Choice(PinScope.choices, required=False, help_text=SCOPE)
    muted = Flag(required=False, help_text="Whether it is kept, but in no prompt.")


class PinsQuery(Serializer[Any]):
    ended = BooleanField(default=False, help_text="Whether to list also those that no longer hold.")


class PinOut(Serializer[Any]):
    id = UUIDField(help_text="Its id.")
    text = CharField(help_text="The text.")
    message_id = UUIDField(allow_null=True, help_text="The message that it was found in, or that was pinned.")
    kind = ChoiceField(PinKind.choices, help_text="Instruction, preference, fact about a person, or other.")
    by = ChoiceField(PinnedBy.choices, help_text="Who pinned it.")
    created_at = DateTimeField(help_text="Creation time.")
    scope = ChoiceField(PinScope.choices, help_text=SCOPE)
    muted = SerializerMethodField(help_text="Whether it is kept, but in no prompt.")
    used = IntegerField(help_text="Number of replies whose prompt had it while it held in several chats.")
    ended_at = DateTimeField(allow_null=True, help_text="When it ended.")
    ended_by = UUIDField(source="ended_by_id", allow_null=True, help_text="The message that ended it; null: a person.")
    ended_in = UUIDField(default=None, allow_null=True, help_text="The chat of that message.")

    def get_muted(self, pin: Pin) -> bool:
        return pin.muted_at is not None


PinsPageOut = page_of("PinsPageOut", PinOut)
