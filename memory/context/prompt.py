"""Assemble the prompt for one question: memory within its budget, with the other parts of the prompt around it.

`memory.context.plan` chooses by stored counts. Here the plan is rendered and the assembled text is counted again,
because joined text can cost more than its parts. While it is over budget, a smaller plan is made from turns whose
text is already loaded. So the budget holds for any text, and nothing is loaded twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from chatmemory.llm.attachments import Attachment
from chatmemory.llm.protocol import Prompt
from chatmemory.text.cleaning import disarm
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_repeated, count_tokens
from memory.context.plan import Plan, Section
from memory.context.planner import Material, choose_within
from memory.context.render import (
    Rendered,
    Source,
    fit_sources,
    render_memory,
    render_part,
    render_question,
    render_sources,
    render_steps,
)
from memory.history.open_turn_budget import fit_steps
from memory.history.turns import Step, Turn, step_messages
from memory.limits import MemoryLimits
from memory.pins.section import NO_PINS, PinSection
from memory.policies.protocol import StateSection
from memory.recall.excerpts import RecalledMessage
from memory.recall.ranking import Near

NOTHING_SAID: Mapping[int, RecalledMessage] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """The parts of one prompt that are not memory."""

    question: str = ""
    instructions: str = ""
    sources: tuple[Source, ...] = ()
    cache_key: str = ""
    disarms: bool = False
    """Whether control tokens of models are broken up in the whole prompt."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """The client's tools, in the format of Chat Completions."""
    open_turn: tuple[Step, ...] = ()
    """The messages that have followed the question so far."""
    open_clips: tuple[int | None, ...] = ()
    """The tokens that each of them keeps (`memory.history.open_turn_budget.fit_steps`); empty: all are whole."""
    attachments: tuple[Attachment, ...] = ()
    """Images and files that came with the question, whose text has a mark for each."""
    turn_instructions: str = ""
    """The turn's own instructions, which follow the chat's."""
    card_instructions: str = ""
    """What the reply is told about a memory card; "": it brings none."""
    open_seqs: tuple[int, ...] = ()
    """The seqs of the messages of `open_turn`."""
    near: tuple[Near, ...] = ()
    """The messages that `memory.recall.embeddings` found for the question."""

    def disarmed(self) -> PromptRequest:
        """Return a copy with the control tokens of models broken up."""
        sources = tuple(Source(disarm(source.title), disarm(source.text)) for source in self.sources)
        return replace(
            self,
            question=disarm(self.question),
            instructions=disarm(self.instructions),
            sources=sources,
            tools=disarmed_tools(self.tools, disarm),
            attachments=tuple(one.with_texts(disarm) for one in self.attachments),
        )


def disarmed_tools(
    tools: Sequence[Mapping[str, Any]], change: Callable[[str], str]
) -> tuple[Mapping[str, Any], ...]:
    """Return the tools with `change` applied to their JSON."""
    return tuple(json.loads(change(tools_text([tool])))[0] for tool in tools)


def tools_text(tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the tools as JSON, the form in which their tokens are counted; "" for none."""
    return json.dumps(list(tools), ensure_ascii=False, separators=(",", ":")) if tools else ""


@dataclass(frozen=True, slots=True)
class Context:
    """A prompt with its plan, sections and counts. `tokens` counts only memory, as rendered."""

    tokens: int
    budget: int
    sections: tuple[Section, ...]
    unrepresented: int
    """Finished turns that appear neither as text nor as a line: only recall can find them."""
    clipped: int
    """Number of parts that were cut: turns, sections of state, sources, pins, steps of the open turn."""
    dropped: int
    """Turns of the window that are not verbatim."""
    prompt: Prompt
    plan: Plan
    prompt_hash: str


def assemble(
    plan: Plan,
    material: Material,
    state: Sequence[StateSection],
    turns: Sequence[Turn],
    asked: PromptRequest,
    *,
    said: Mapping[int, RecalledMessage] = NOTHING_SAID,
    pinned: PinSection = NO_PINS,
    attached: Sequence[int] = (),
) -> Context:
    """Render `plan` with the parts around it, making it smaller until its text fits the budget.

    The budget is never exceeded, for any text. `pinned` comes first in the prompt and adds its tokens to the budget.

    `plan` is the result of `choose` for `material`, which was made of `state` and `turns`; `turns` now have the text of
    those that it shows verbatim. `said` are the messages that its excerpts quote, `attached` the first seqs of the
    turns that are sent with their images and files. Store the plan of the returned context, not `plan`.
    """

    def render(planned: Plan) -> list[Rendered]:
        planned = replace(planned, disarms=asked.disarms, attached=tuple(attached))
        return render_memory(planned, state, turns, said, count_repeated)

    asked = asked.disarmed() if asked.disarms else asked
    memory = render(plan)
    if _tokens(memory) > material.limits.prompt_budget:
        plan, memory = _smaller(plan, memory, material, render)
    sources = fit_sources(asked.sources, material.limits.sources_budget)
    shown = {one.from_seq for one in plan.verbatim}
    plan = replace(
        plan,
        sources=sources,
        disarms=asked.disarms,
        attached=tuple(seq for seq in attached if seq in shown),
        open_turn=asked.open_seqs,
        open_clips=asked.open_clips,
    )
    if pinned.shown:
        plan = replace(
            plan, budget=plan.budget + pinned.tokens, pins=pinned.shown, pins_left_out=pinned.left_out
        )
        pins_alone = Plan(plan.budget, pins=plan.pins, pins_left_out=plan.pins_left_out, disarms=plan.disarms)
        memory = [*render_memory(pins_alone, (), (), {}, count_repeated, pinned.texts), *memory]
    return _finish(plan, memory, asked)


def _smaller(
    plan: Plan, memory: list[Rendered], material: Material, render: Callable[[Plan], list[Rendered]]
) -> tuple[Plan, list[Rendered]]:
    """Return the first plan that fits as rendered, and its rendering. It shows only turns verbatim that `plan` did."""
    budget = allowance = material.limits.prompt_budget
    material = replace(material, may_show=frozenset(shown.from_seq for shown in plan.verbatim))
    step = 1
    while (over := _tokens(memory) - budget) > 0:
        # Doubled, so that the loop also ends for a text whose cost does not shrink with its allowance.
        allowance -= over * step
        step *= 2
        plan = choose_within(material, allowance)
        memory = render(plan)
    return plan, memory


def with_fitting_steps(asked: PromptRequest, budget: int) -> PromptRequest:
    """Return `asked` with an open turn of at most `budget` tokens, as rendered."""
    room, step = budget, 1
    while True:
        clips = fit_steps(asked.open_turn, room)
        clips = clips if any(clip is not None for clip in clips) else ()
        part = render_steps(asked.open_turn, clips, count_repeated, disarms=asked.disarms)
        over = part.section.tokens - budget
        if over <= 0 or room <= 0:
            return replace(asked, open_clips=clips)
        room -= over * step
        step *= 2


def rebuild(
    plan: Plan,
    state: Sequence[StateSection],
    turns: Sequence[Turn],
    asked: PromptRequest,
    said: Mapping[int, RecalledMessage] = NOTHING_SAID,
    pinned: Mapping[str, str] | None = None,
) -> Context:
    """Rebuild the context that `plan` was stored for, from the texts it names.

    If one of them has been edited or erased since, the prompt differs, and so does its hash.
    """
    asked = asked.disarmed() if plan.disarms else asked
    return _finish(plan, render_memory(plan, state, turns, said, count_repeated, pinned), asked)


def hash_prompt(prompt: Prompt) -> str:
    """SHA-256 of the prompt as canonical JSON (ASCII, so that any text can be hashed), its tools included."""
    sent: list[Any] = [*prompt.chat_messages, *prompt.tools]
    canonical = json.dumps(sent, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _finish(plan: Plan, memory: Sequence[Rendered], asked: PromptRequest) -> Context:
    before, after = _before(asked), _after(plan, asked)
    messages = tuple(message for part in (*memory, *after) for message in part.messages)
    prompt = Prompt(messages, asked.instructions, asked.cache_key, tools=asked.tools)
    return Context(
        tokens=_tokens(memory),
        budget=plan.budget,
        sections=(*before, *(part.section for part in (*memory, *after)), *_attached(prompt)),
        unrepresented=plan.unrepresented,
        clipped=plan.clipped,
        dropped=plan.dropped,
        prompt=prompt,
        plan=plan,
        prompt_hash=hash_prompt(prompt),
    )


def _before(asked: PromptRequest) -> list[Section]:
    tools = tools_text(asked.tools)
    made = [
        Section("instructions", count_repeated(asked.instructions) + MESSAGE_OVERHEAD, asked.instructions),
        Section("tools", count_repeated(tools), tools),
    ]
    return [section for section in made if section.text]


def _attached(prompt: Prompt) -> list[Section]:
    """Images and files anywhere in the prompt: not part of memory, and counted separately."""
    attached = prompt.attachments
    tokens = sum(one.tokens for one in attached)
    return [Section("attachments", tokens, "\n".join(one.mark for one in attached))] if attached else []


def _after(plan: Plan, asked: PromptRequest) -> list[Rendered]:
    cut = any(clip is not None for clip in plan.sources)
    sources = render_part("sources", render_sources(asked.sources, plan.sources), count_tokens, clipped=cut)
    question = render_question(asked.question, asked.attachments, count_tokens)
    steps = render_steps(asked.open_turn, asked.open_clips, count_repeated, disarms=plan.disarms)
    return [part for part in (sources, question, steps) if part.messages]


def _tokens(memory: Sequence[Rendered]) -> int:
    return sum(part.section.tokens for part in memory)


# A budget for the whole prompt, instructions included, as in seed 001: how much of it is left for memory
#
# Instructions and the question are always sent in full, and an open turn has at most half of the budget; sources are
# cut first, then memory. Only if those three exceed the budget does the prompt exceed it; memory and sources are then
# empty.


def memory_limits(limits: MemoryLimits, asked: PromptRequest) -> MemoryLimits:
    """Return `limits` with the budget that the other parts of this prompt leave for memory."""
    if limits.budget_for == "memory":
        return limits
    asked = asked.disarmed() if asked.disarms else asked
    left = max(0, limits.prompt_budget - _fixed(asked))
    # At most half of what is left: the budget is meant for memory.
    sources = min(limits.sources_budget, left // 2)
    taken = _text_tokens(render_sources(asked.sources, fit_sources(asked.sources, sources)))
    return replace(limits, prompt_budget=left - taken, sources_budget=sources)


def _fixed(asked: PromptRequest) -> int:
    """Tokens of the parts that are always sent in full."""
    steps = sum(message.tokens(count_tokens) for message in step_messages(asked.open_turn, asked.open_clips))
    texts = (asked.instructions, asked.question, tools_text(asked.tools))
    return sum(map(_text_tokens, texts)) + steps + sum(one.tokens for one in asked.attachments)


def _text_tokens(text: str) -> int:
    return count_tokens(text) + MESSAGE_OVERHEAD if text else 0
