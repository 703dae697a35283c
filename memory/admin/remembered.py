"""A brief or a revision as staff read it: what its policy remembers, as it reads in a prompt."""

from __future__ import annotations

from memory.models import ConversationBrief, SummaryRevision
from memory.policies import POLICIES, State, StateSection


def remembered(row: ConversationBrief | SummaryRevision) -> list[StateSection]:
    """The state's sections; for a plain summary, and for a policy that is no more, the summary alone."""
    state = State.from_json(row.global_summary, row.state)
    if state.data and row.policy in POLICIES:
        return POLICIES[row.policy].render(state)
    return [StateSection("summary", row.global_summary)] if row.global_summary else []


def text_of(row: ConversationBrief | SummaryRevision) -> str:
    """The sections as one text, to be compared with another revision's."""
    return "\n\n".join(section.text for section in remembered(row))
