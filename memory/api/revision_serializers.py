"""JSON of revisions and of the differences between them, in the shapes of the public contract."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from conversations.api.serializers import ObjectField, PageOut
from conversations.replies.message_json import iso
from memory.folding.answer_checks import SOFT_FAULTS
from memory.models import RevisionKind, SummaryRevision
from memory.revisions.diff import Difference

MOST_VERSIONS = 2**31 - 1
OPS = {"same": "equal", "del": "delete", "ins": "insert"}


def revision_json(revision: SummaryRevision) -> dict[str, Any]:
    """A revision as the API shows it."""
    plain = (
        "version parent kind degraded global_summary state from_seq through_seq turns tokens_before tokens_after "
        "input_tokens output_tokens model prompt_hash focus custom_instructions source_hash duration_ms retained "
        "soft_faults drift"
    ).split()
    return {
        **{name: getattr(revision, name) for name in plain},
        "cost_usd": None if revision.cost_usd is None else float(revision.cost_usd),
        "created_at": iso(revision.created_at),
        "forgotten_at": iso(revision.forgotten_at),
    }


def difference_json(found: Difference) -> dict[str, Any]:
    """The difference between two revisions: joined in order, the pieces give both texts."""
    return {
        "version": found.version,
        "against": found.against,
        "pieces": [{"op": OPS[piece.kind], "text": piece.text} for piece in found.pieces],
        "lost": found.lost,
        "gained": found.gained,
        "policy": found.policy,
        "against_policy": found.against_policy,
    }


class RetainedOut(serializers.Serializer[Any]):
    kept = serializers.ListField(child=serializers.CharField())
    lost = serializers.ListField(child=serializers.CharField())
    share = serializers.FloatField(min_value=0, max_value=1)
    through_seq = serializers.IntegerField(
        required=False, help_text="Only where messages after this one were not looked at, for want of time."
    )


class SoftFaultOut(serializers.Serializer[Any]):
    """A defect in a summary that was accepted anyway. Which numbers are present depends on the fault."""

    fault = serializers.ChoiceField(list(SOFT_FAULTS))
    tokens = serializers.IntegerField(required=False)
    expected = serializers.IntegerField(required=False)
    kept = serializers.IntegerField(required=False)
    of = serializers.IntegerField(required=False)
    lost = serializers.ListField(child=serializers.CharField(), required=False)
    from_seq = serializers.IntegerField(required=False)
    through_seq = serializers.IntegerField(required=False)


class SharesOut(serializers.Serializer[Any]):
    before = serializers.FloatField(min_value=0, max_value=1)
    after = serializers.FloatField(min_value=0, max_value=1)


class AddedOut(serializers.Serializer[Any]):
    before = serializers.ListField(child=serializers.CharField())
    after = serializers.ListField(child=serializers.CharField())


class DriftOut(serializers.Serializer[Any]):
    """How far the memory before a rebuild was from the originals, compared with the rebuilt one."""

    against = serializers.IntegerField()
    share = SharesOut()
    lost = serializers.ListField(child=serializers.CharField())
    only_before = serializers.ListField(child=serializers.CharField())
    added = AddedOut()


class RevisionOut(serializers.Serializer[Any]):
    version = serializers.IntegerField()
    parent = serializers.IntegerField(allow_null=True)  # type: ignore[assignment]  # also DRF's name for the outer one
    kind = serializers.ChoiceField(RevisionKind.choices)
    degraded = serializers.BooleanField()
    global_summary = serializers.CharField()
    state = ObjectField()
    from_seq = serializers.IntegerField()
    through_seq = serializers.IntegerField()
    turns = serializers.IntegerField()
    tokens_before = serializers.IntegerField()
    tokens_after = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cost_usd = serializers.FloatField(allow_null=True)
    model = serializers.CharField()
    prompt_hash = serializers.CharField(
        help_text="The version of the instructions that the summarizer got: equal if they were the same."
    )
    focus = serializers.CharField(
        allow_blank=True, help_text="The chat's option `focus`, as it was part of the instructions."
    )
    custom_instructions = serializers.BooleanField(
        help_text="Whether the instructions were those of the setting `MEMORY_SUMMARIZER_INSTRUCTIONS`."
    )
    source_hash = serializers.CharField()
    duration_ms = serializers.IntegerField()
    retained = RetainedOut()
    soft_faults = SoftFaultOut(many=True)
    drift = DriftOut(allow_null=True)
    created_at = serializers.DateTimeField()
    forgotten_at = serializers.DateTimeField(allow_null=True)

    def to_representation(self, instance: Any) -> Any:
        return revision_json(instance)


class RevisionsPageOut(PageOut):
    results = RevisionOut(many=True)


class DifferenceQuery(serializers.Serializer[Any]):
    against = serializers.IntegerField(required=False, min_value=1, max_value=MOST_VERSIONS)


class PieceOut(serializers.Serializer[Any]):
    op = serializers.ChoiceField(list(OPS.values()))
    text = serializers.CharField()


class DifferenceOut(serializers.Serializer[Any]):
    version = serializers.IntegerField()
    against = serializers.IntegerField(allow_null=True)
    pieces = PieceOut(many=True)
    lost = serializers.ListField(child=serializers.CharField())
    gained = serializers.ListField(child=serializers.CharField())
    policy = serializers.CharField(help_text="The policy that made the version.")
    against_policy = serializers.CharField(
        allow_null=True,
        help_text="The policy that made the version that it is compared with. Where they differ, all of one text is "
        "deleted and all of the other inserted.",
    )
