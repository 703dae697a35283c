"""Show turns verbatim: clip those that are too long, and render them as messages or as text.

Knows nothing of budgets. `memory.context.plan.planner` decides which turns are shown verbatim.
"""

from __future__ import annotations

from collections.abc import Sequence

from chatmemory.llm.protocol import PromptMessage, Role
from chatmemory.text.markers import RECENT_HEADING, quote_markers
from chatmemory.text.tokens import clip_middle
from memory.context.plan.plan import Shown
from memory.history import tool_steps
from memory.history.costs import CUT_OFF_TOKENS, turn_cost
from memory.history.turns import Turn, assistant_text

MIN_SIDE = 16
"""Tokens below which a clipped side would be little more than the mark of the cut."""

LABELS: dict[Role, str] = {"user": "User: ", "assistant": "Assistant: ", "tool": "Tool: "}


def show_whole(turn: Turn) -> Shown:
    """Show the whole of `turn`."""
    return Shown(turn.from_seq, turn.through_seq)


def show_clipped(turn: Turn, room: int) -> Shown | None:
    """Clip `turn` to `room` tokens, overhead included; None if that leaves nothing worth reading.

    The user's message takes precedence: a reply can be generated again.
    """
    assistant = turn.assistant_tokens + (CUT_OFF_TOKENS if turn.cut_off else 0)
    text_room = room - (turn_cost(turn) - turn.user_tokens - assistant)
    user_clip, assistant_clip = _shares(turn.user_tokens, assistant, text_room)
    clips = [clip for clip in (user_clip, assistant_clip) if clip is not None]
    if any(clip < MIN_SIDE for clip in clips):
        return None
    return Shown(turn.from_seq, turn.through_seq, user_clip, assistant_clip)


def _shares(user: int, assistant: int, room: int) -> tuple[int | None, int | None]:
    """The tokens each side is cut to, None if it is whole. The user's side gets up to three quarters."""
    if user + assistant <= room:
        return None, None
    most = max(room // 2, min(room * 3 // 4, room - 2 * MIN_SIDE))
    if user <= most:
        return None, room - user
    if assistant <= room - most:
        return room - assistant, None
    return most, room - most


def equal_shares(costs: Sequence[int], room: int) -> list[int]:
    """Divide `room` tokens into equal shares; what one does not need of its share goes to the others."""
    shares = [0] * len(costs)
    left = max(0, room)
    by_cost = sorted(range(len(costs)), key=costs.__getitem__)
    for done, index in enumerate(by_cost):
        shares[index] = min(costs[index], left // (len(costs) - done))
        left -= shares[index]
    return shares


def as_messages(turn: Turn, shown: Shown, *, attached: bool = False) -> list[PromptMessage]:
    """Render the turn as messages in their own roles. A side without text sends none.

    With `attached`, its images and files are sent, too. Tool calls are sent as such unless the reply is clipped or
    was cut off: a model that reads them as text writes them as text.
    """
    if turn.steps and shown.assistant_clip is None and not turn.cut_off:
        clips = [tool_steps.OUTPUT_TOKENS if step.role == "tool" else None for step in turn.steps]
        replies = tool_steps.as_messages(turn.steps, clips)
    else:
        reply = _clipped(assistant_text(turn), shown.assistant_clip)
        replies = [PromptMessage("assistant", reply)] if reply else []
    asked = _clipped(turn.user, shown.user_clip)
    question = PromptMessage("user", asked, attachments=turn.attachments if attached else ())
    return [question, *replies] if asked else replies


def as_text(pairs: Sequence[tuple[Turn, Shown]]) -> str:
    """Render all turns as one block, in the format of seed 000; "" if there is nothing to show."""
    blocks = [block for turn, shown in pairs if (block := _block(turn, shown))]
    return "\n\n".join([RECENT_HEADING, *blocks]) if blocks else ""


def _block(turn: Turn, shown: Shown) -> str:
    sides: tuple[tuple[Role, str], ...] = (
        ("user", _quoted(turn.user, shown.user_clip)),
        ("assistant", _quoted(assistant_text(turn), shown.assistant_clip)),
    )
    return "\n".join(LABELS[role] + text for role, text in sides if text)


def _quoted(text: str, clip: int | None) -> str:
    quoted = quote_markers(text)
    # Again after clipping: text from the middle of a line may now be at the start of one.
    return quoted if clip is None else quote_markers(clip_middle(quoted, clip))


def _clipped(text: str, clip: int | None) -> str:
    return text if clip is None else clip_middle(text, clip)
