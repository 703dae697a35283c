"""Assemble the prompt for one question: memory within its budget, with sources, the open turn and instructions around
it; control tokens are disarmed in all of them.

`memory.context.planner` chooses by stored counts. Here the plan is rendered and the assembled text is counted again,
because joined text can cost more than its parts. While it is over budget, a smaller plan is made from turns whose
text is already loaded. So the budget holds for any text, and nothing is loaded twice. Sources and the open turn have
budgets of their own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

from chatmemory.llm.attachments import Attachment
from chatmemory.llm.protocol import CALL_OVERHEAD, Prompt, PromptMessage, ToolCall
from chatmemory.text.cleaning import disarm
from chatmemory.text.markers import SOURCES_HEADING
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_repeated, count_tokens
from memory.context.plan import (
    ALTERNATES_SINCE,
    Clips,
    Plan,
    QuotedChat,
    Section,
    Source,
    elsewhere_section,
    render_memory,
    render_sources,
    render_steps,
    section_of,
    source_blocks,
)
from memory.context.planner import Material, choose, equal_shares
from memory.history.turns import MARK_TOKENS, OUTPUT_TOKENS, Step, Turn
from memory.limits import MemoryLimits
from memory.pins.section import NO_PINS, PinSection
from memory.policies.protocol import StateSection
from memory.recall.ranking import Near, RecalledMessage

Result = TypeVar("Result")


NOTHING_ELSEWHERE = Section("elsewhere", 0)


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
    """The tokens that each of them keeps (`fit_steps`); empty: all are whole."""
    attachments: tuple[Attachment, ...] = ()
    """Images and files that came with the question, whose text has a mark for each."""
    turn_instructions: str = ""
    """The turn's own instructions, which follow the chat's."""
    card_instructions: str = ""
    """The instructions to add a memory card to the reply; "": it brings none."""
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
            tools=_disarmed_tools(self.tools),
            attachments=tuple(one.with_texts(disarm) for one in self.attachments),
        )


def disarmed(prompt: Prompt) -> Prompt:
    """Return a prompt that has no memory with the control tokens of models broken up."""
    messages = tuple(one.with_texts(disarm) for one in prompt.messages)
    tools = _disarmed_tools(prompt.tools)
    return replace(prompt, messages=messages, instructions=disarm(prompt.instructions), tools=tools)


def _disarmed_tools(tools: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple(json.loads(disarm(tools_text([tool])))[0] for tool in tools)


def tools_text(tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the tools as JSON, the form in which their tokens are counted; "" for none."""
    return json.dumps(list(tools), ensure_ascii=False, separators=(",", ":")) if tools else ""


@dataclass(frozen=True, slots=True)
class Context:
    """A prompt with its plan and sections. `tokens` counts only memory, as rendered."""

    tokens: int
    sections: tuple[Section, ...]
    prompt: Prompt
    plan: Plan
    prompt_hash: str


def assemble(
    plan: Plan,
    material: Material,
    state: Sequence[StateSection],
    turns: Sequence[Turn],
    request: PromptRequest,
    *,
    quoted: Mapping[int, RecalledMessage] | None = None,
    pinned: PinSection = NO_PINS,
    attached: Sequence[int] = (),
    elsewhere: Section = NOTHING_ELSEWHERE,
) -> Context:
    """Render `plan` with the parts around it, making it smaller until its text fits the budget.

    The budget is never exceeded, for any text. `pinned` comes first in the prompt and adds its tokens to the budget.

    `plan` is the result of `choose` for `material`, which was made of `state` and `turns`; `turns` now have the text of
    those that it shows verbatim. `quoted` are the messages that its excerpts quote, `attached` the first seqs of the
    turns that are sent with their images and files, `elsewhere` the excerpts of other chats, which keep their room.
    Store the plan of the returned context, not `plan`.
    """
    request = request.disarmed() if request.disarms else request
    limits, largest = material.limits, plan
    loaded = replace(material, may_show=frozenset(shown.from_seq for shown in plan.verbatim))

    def rendered(allowance: int) -> tuple[tuple[Plan, list[Section]], int]:
        smaller = largest if allowance == limits.prompt_budget else choose(loaded, allowance)
        smaller = replace(smaller, disarms=request.disarms, attached=tuple(attached))
        memory = render_memory(smaller, state, turns, quoted or {})
        return (smaller, memory), _tokens(memory) + elsewhere.tokens

    plan, memory = _fitting(limits.prompt_budget, rendered)
    shown = {one.from_seq for one in plan.verbatim}
    plan = replace(
        plan,
        sources=fit_sources(request.sources, limits.sources_budget),
        attached=tuple(seq for seq in attached if seq in shown),
        open_turn=request.open_seqs,
        open_clips=request.open_clips,
    )
    memory += [elsewhere] if elsewhere.tokens else []
    if pinned.shown:
        plan = replace(plan, budget=plan.budget + pinned.tokens, pins=pinned.shown, pins_left_out=pinned.left_out)
        pins_alone = Plan(plan.budget, pins=plan.pins, pins_left_out=plan.pins_left_out, disarms=plan.disarms)
        memory = [*render_memory(pins_alone, (), (), {}, pinned.texts), *memory]
    return _finish(plan, memory, request)


def _fitting(budget: int, make: Callable[[int], tuple[Result, int]]) -> Result:
    """Return what `make` makes, with its tokens, of an allowance: `budget`, or ever less until it has room in that."""
    allowance, step = budget, 1
    while True:
        result, tokens = make(allowance)
        if tokens <= budget or allowance <= 0:
            return result
        # Doubled, so that the loop also ends for a text whose cost does not shrink with its allowance.
        allowance -= (tokens - budget) * step
        step *= 2


def rebuild(
    plan: Plan,
    state: Sequence[StateSection],
    turns: Sequence[Turn],
    request: PromptRequest,
    quoted: Mapping[int, RecalledMessage] | None = None,
    pinned: Mapping[str, str] | None = None,
    others: Mapping[str, QuotedChat] | None = None,
) -> Context:
    """Rebuild the context that `plan` was stored for, from the texts it names.

    If one of them has been edited or erased since, the prompt differs, and so does its hash.
    """
    request = request.disarmed() if plan.disarms else request
    memory = render_memory(plan, state, turns, quoted or {}, pinned)
    elsewhere = elsewhere_section(plan.elsewhere, others or {}, disarms=plan.disarms)
    return _finish(plan, [*memory, *([elsewhere] if elsewhere.tokens else [])], request)


def hash_prompt(prompt: Prompt) -> str:
    """SHA-256 of the prompt as canonical JSON (ASCII, so that any text can be hashed), its tools included."""
    sent: list[Any] = [*prompt.chat_messages, *prompt.tools]
    canonical = json.dumps(sent, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _finish(plan: Plan, memory: Sequence[Section], request: PromptRequest) -> Context:
    tools = tools_text(request.tools)
    before = [
        Section("instructions", _text_tokens(request.instructions), request.instructions),
        Section("tools", count_repeated(tools), tools),
    ]
    cut = any(clip is not None for clip in plan.sources)
    question = PromptMessage("user", request.question, attachments=request.attachments)
    after = [
        section_of("sources", render_sources(request.sources, plan.sources, plan.renderer), clipped=cut),
        section_of("question", [question] if question.content else []),
        render_steps(request.open_turn, request.open_clips, disarms=plan.disarms),
    ]
    sections = [*memory, *(section for section in after if section.messages)]
    messages = tuple(message for section in sections for message in section.messages)
    prompt = Prompt(
        messages,
        request.instructions,
        request.cache_key,
        tools=request.tools,
        alternates=plan.renderer >= ALTERNATES_SINCE,
    )
    # Images and files anywhere in the prompt are not part of memory, and counted separately.
    marks = "\n".join(one.mark for one in prompt.attachments)
    attached = Section("attachments", sum(one.tokens for one in prompt.attachments), marks)
    return Context(
        tokens=_tokens(memory),
        sections=(
            *(section for section in before if section.text),
            *sections,
            *([attached] if prompt.attachments else []),
        ),
        prompt=prompt,
        plan=plan,
        prompt_hash=hash_prompt(prompt),
    )


def _tokens(memory: Sequence[Section]) -> int:
    return sum(section.tokens for section in memory)


def _text_tokens(text: str) -> int:
    return count_repeated(text) + MESSAGE_OVERHEAD if text else 0


# Sources: material that was retrieved for one question. It has its own limit and is not memory


MIN_SOURCE = 24
"""Tokens up to which a clipped source is left out."""


def fit_sources(sources: Sequence[Source], budget: int) -> Clips:
    """Return how to clip the sources, the last ones first, so that their message has at most `budget` tokens."""
    costs: list[int] = []
    left = budget
    for block in source_blocks(sources):
        # Once the budget is exceeded, the rest are not counted but given a number above it.
        costs.append(count_tokens(block) + 1 if left >= 0 else budget + 1)
        left -= costs[-1]

    def clipped(allowance: int) -> tuple[Clips, int]:
        left = allowance - MESSAGE_OVERHEAD - count_repeated(SOURCES_HEADING)
        clips: list[int | None] = []
        for tokens in costs:
            if tokens <= left:
                clips.append(None)
                left -= tokens
            else:
                clips.append(left - 1 if left > MIN_SOURCE else 0)
                left = 0
        return tuple(clips), _text_tokens(render_sources(sources, clips))

    return _fitting(budget, clipped)


# The open turn: its question and what followed so far. Its calls and outputs can outgrow their budget
#
# Round by round, as the turn grew, so that each prompt of a turn begins like the one before: when the turn no longer
# fits, the oldest texts are cut, at once so far that several more rounds fit, and stay so.


def with_fitting_steps(request: PromptRequest, budget: int) -> PromptRequest:
    """Return `request` with an open turn of at most `budget` tokens, as rendered."""

    def cut(room: int) -> tuple[Clips, int]:
        clips = fit_steps(request.open_turn, room)
        clips = clips if any(clip is not None for clip in clips) else ()
        return clips, render_steps(request.open_turn, clips, disarms=request.disarms).tokens

    return replace(request, open_clips=_fitting(budget, cut))


def fit_steps(steps: Sequence[Step], room: int) -> Clips:
    """Return the tokens of its text that each step keeps so that all fit into `room`. None: all; 0: it is left out.

    The newest outputs, which the model has not seen yet, come first. Older texts are cut to `OUTPUT_TOKENS`, then to a
    mark, the oldest first. Only if marks do not fit either, calls are left out, each together with its output.
    """
    turn = _OpenTurn(steps)
    starts = [at for at, step in enumerate(steps) if at == 0 or step.role == "assistant"]
    for start, end in pairwise([*starts, len(steps)]):
        turn.add_round(start, end, room)
    return tuple(turn.clips)


class _OpenTurn:
    """The steps of an open turn, the tokens that each keeps of its text, and what each costs."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.clips: list[int | None] = [None] * len(steps)
        self._steps = steps
        self._texts: list[int] = []
        self._costs: list[int] = []
        self._total = 0
        """The tokens of the rounds so far. Kept, because adding it up each time takes ten seconds for a thousand
        rounds."""
        for step in steps:
            payload = step.payload or {}
            is_call = step.role == "tool_call"
            text = count_repeated(str(payload.get("arguments", "")) if is_call else step.content)
            text += ToolCall.of(payload).reasoning_tokens if is_call else 0
            name = count_repeated(str(payload.get("name", ""))) + CALL_OVERHEAD
            self._texts.append(text)
            self._costs.append(text + (name if is_call else MESSAGE_OVERHEAD))

    def add_round(self, start: int, end: int, room: int) -> None:
        """Add the steps of a reply with its calls and their outputs. Cut what no longer fits."""
        older, newest = self._total, sum(self._costs[start:end])
        self._total += newest
        if self._total <= room:
            return
        self._cut_older(start, older - max(room // 4, min(room // 2, room - newest)))
        texts = self._texts[start:end]
        if (over := self._total - room) > 0:
            for at, share in enumerate(equal_shares(texts, sum(texts) - over), start):
                self._cut(at, max(MARK_TOKENS, share))
        for ats in self._oldest_first(start, end):
            if self._total <= room:
                break
            for at in ats:
                self._total -= self._costs[at]
                self.clips[at] = self._costs[at] = 0

    def _cut_older(self, start: int, over: int) -> None:
        for clip in (OUTPUT_TOKENS, MARK_TOKENS):
            for at in range(start):
                if over <= 0:
                    return
                over -= self._cut(at, clip)

    def _cut(self, at: int, clip: int) -> int:
        """Cut a step to `clip` tokens of its text, unless it is shorter already; return how many that saves."""
        before = self.clips[at]
        kept = self._texts[at] if before is None else min(self._texts[at], before)
        if clip >= kept:
            return 0
        self.clips[at] = clip
        self._costs[at] -= kept - clip
        self._total -= kept - clip
        return kept - clip

    def _oldest_first(self, start: int, end: int) -> Iterator[Sequence[int]]:
        """Yield what can be left out together: the rounds before `start`, then pairs of a call and its output."""
        starts = [at for at in range(start) if at == 0 or self._steps[at].role == "assistant"]
        yield from (range(low, high) for low, high in pairwise([*starts, start]))
        calls: dict[str, int] = {}
        for at in range(start, end):
            call_id = (self._steps[at].payload or {}).get("call_id", "")
            if self._steps[at].role == "tool_call":
                calls[call_id] = at
            elif call_id in calls:
                yield [calls[call_id], at]


# A budget for the whole prompt, instructions included, as in seed 001: how much of it is left for memory
#
# Instructions and the question are always sent in full, and an open turn has at most half of the budget; sources are
# cut first, then memory. Only if those three exceed the budget does the prompt exceed it; memory and sources are then
# empty.


def memory_limits(limits: MemoryLimits, request: PromptRequest) -> MemoryLimits:
    """Return `limits` with the budget that the other parts of this prompt leave for memory."""
    if limits.budget_for == "memory":
        return limits
    request = request.disarmed() if request.disarms else request
    texts = (request.instructions, request.question, tools_text(request.tools))
    fixed = sum(map(_text_tokens, texts))
    fixed += render_steps(request.open_turn, request.open_clips, disarms=False).tokens
    fixed += sum(one.tokens for one in request.attachments)
    left = max(0, limits.prompt_budget - fixed)
    # At most half of what is left: the budget is meant for memory.
    sources = min(limits.sources_budget, left // 2)
    taken = _text_tokens(render_sources(request.sources, fit_sources(request.sources, sources)))
    return replace(limits, prompt_budget=left - taken, sources_budget=sources)
