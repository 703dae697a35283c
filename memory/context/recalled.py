"""Decide what a prompt recalls of earlier turns, in addition to what it shows of memory anyway."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from uuid import UUID

from memory.context.load import Newest
from memory.context.plan.plan import Plan
from memory.context.plan.planner import Material, choose
from memory.history.turns import Turn
from memory.models import ConversationBrief
from memory.policies import StateSection
from memory.recall import index
from memory.recall.analysis.terms import terms
from memory.recall.decision import Recall, is_lean, room_for
from memory.recall.excerpts import RecalledMessage
from memory.recall.ranking import Near
from memory.recall.retrieve import Recalled, Search


@dataclass(frozen=True, slots=True)
class PlanRecall:
    """What is recalled for a plan: the decision, the excerpts, and the material for planning again with them."""

    decision: Recall
    material: Material
    found: Recalled = field(default_factory=Recalled)


def recall_for_plan(
    brief: ConversationBrief,
    span: Newest,
    state: Sequence[StateSection],
    material: Material,
    plan: Plan,
    question: str,
    near: Sequence[Near] = (),
) -> PlanRecall:
    """Return what is recalled for a prompt that would otherwise show `plan`, made of `material`.

    Nothing is searched while every turn of the chat is verbatim in the prompt.
    """
    limits = material.limits
    if not limits.recalls:
        return PlanRecall(Recall("none", "off"), material)
    is_shown = {one.from_seq for one in plan.verbatim}
    verbatim = [turn for turn in span.turns if turn.from_seq in is_shown]
    beyond = span.older_turns or brief.folded_through_seq
    if not beyond and len(verbatim) == sum(turn.tokens > 0 for turn in span.turns):
        return PlanRecall(Recall("none", "all_shown"), material)
    if not question:
        return PlanRecall(Recall("none", "no_words"), material)
    before = brief.chat.last_seq + 1 if span.before_seq is None else span.before_seq
    search = Search(brief.chat, question, before_seq=before, near=near)
    remembered = frozenset(terms("\n".join(section.text for section in state)))
    decision = search.decision(limits, _seqs(verbatim), remembered)
    if decision.sought == "none":
        return PlanRecall(decision, material)
    if lean := is_lean(decision):
        plan = choose(replace(material, lean=True))
        verbatim = verbatim[-len(plan.verbatim) :] if plan.verbatim else []
    room = room_for(decision, limits, plan.free)
    found = search.recalled(room, _seqs(verbatim))
    return PlanRecall(
        decision, replace(material, excerpts=found.excerpts, recall_tokens=room, lean=lean), found
    )


def _seqs(turns: Iterable[Turn]) -> Iterator[int]:
    return chain.from_iterable(range(turn.from_seq, turn.through_seq + 1) for turn in turns)


def quoted(chat_id: UUID, plan: Plan) -> dict[int, RecalledMessage]:
    """Return the messages that a stored plan quotes, as they are now, by seq."""
    return index.quoted(chat_id, [quote.seq for quotes in plan.recalled for quote in quotes])
