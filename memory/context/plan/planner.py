"""Choose what of memory a prompt shows, from stored counts only: takes a budget, returns a `Plan`. Pure.

What stays the same from one question to the next comes first and has its own part of the budget: the state, turns
verbatim, a line for each older turn. The window takes precedence over older turns, the newest turn over everything.
Excerpts of earlier turns come last, in the room that is left, so their size moves nothing before them. Turns are
chosen newest first and shown oldest first. Turns with neither text nor line are counted. Texts are not read here, so
only those that a plan shows need to be loaded. `docs/prompt.md` has a diagram.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_repeated
from memory.context.plan.fit_excerpts import ExcerptChoice
from memory.context.plan.lines import LineCosts
from memory.context.plan.plan import Clips, Merged, Plan, Shown, TurnSpan, clip_state
from memory.context.plan.prefix import Room, first_verbatim
from memory.context.verbatim import equal_shares, show_clipped, show_whole
from memory.history.costs import MERGED_TOKENS, lines_head_cost, turn_cost, verbatim_head_cost
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.policies.protocol import StateSection
from memory.recall.excerpts import Excerpt


@dataclass(frozen=True, slots=True)
class Material:
    """The input of a plan. `turns` are those that have text (loaded or not), in order."""

    state_tokens: tuple[int, ...]
    """Tokens of each section of the state, including message overhead."""
    turns: tuple[Turn, ...]
    older_turns: int
    older_from_seq: int | None
    limits: MemoryLimits
    window_turns: int
    anchor_seq: int
    excerpts: tuple[Excerpt, ...] = ()
    """Excerpts of earlier turns, best first."""
    recall_tokens: int | None = None
    """Maximum tokens that excerpts may have; None: all that are left."""
    lean: bool = False
    """Whether turns before the window become lines, and shorter ones, to make room for excerpts."""
    may_show: frozenset[int] | None = None
    """`from_seq` of the turns that may be verbatim because their text is loaded. None: any turn."""

    def showable(self, index: int) -> bool:
        """True if turn `index` may be verbatim."""
        return self.may_show is None or self.turns[index].from_seq in self.may_show


def gather(
    state: Sequence[StateSection],
    turns: Sequence[Turn],
    *,
    older_turns: int,
    older_from_seq: int | None,
    limits: MemoryLimits,
    window_turns: int,
    anchor_seq: int,
    excerpts: Sequence[Excerpt] = (),
) -> Material:
    """Collect the input of a plan: the newest unfolded finished turns (oldest first; only counts and lines are read).

    `older_turns` is the number of unfolded turns that are not among them, from message `older_from_seq` on.
    `anchor_seq` is that of the previous plan (0: none). `excerpts` are passages of earlier turns that match the
    question, best first.
    """
    return Material(
        state_tokens=tuple(count_repeated(section.text) + MESSAGE_OVERHEAD for section in state),
        turns=tuple(turn for turn in turns if turn.tokens),
        older_turns=older_turns,
        older_from_seq=older_from_seq,
        limits=limits,
        window_turns=max(1, window_turns) if limits.enabled else 1,
        anchor_seq=anchor_seq,
        excerpts=tuple(excerpts) if limits.enabled else (),
    )


MIN_NEWEST = 60
"""Tokens that the newest turn gets before the state gets any."""
LEAN_LINE = 0.35
"""Length of lines in a lean prompt, relative to the usual, if other prompts show some of these turns verbatim.

`make evidence`: 86.5 % of the evidence of LoCoMo is in the prompt and 68.8 % of that of service chats; with 0.5 it is
85.9 and 68.8 %, with 0.4 86.2 and 69.0 %, with 0.3 86.5 and 68.3 %. No other set differs.
"""
BORROWED = 0.5
"""Share of the excerpts' part of the budget that lines may use while a fold is late."""


def choose(material: Material) -> Plan:
    """Plan a prompt within the budget of its limits."""
    return choose_within(material, material.limits.prompt_budget)


def choose_within(material: Material, allowance: int) -> Plan:
    """Plan as `choose` does, but spend at most `allowance` tokens. Zero or less shows nothing."""
    return _PlanChoice(material, max(0, allowance)).plan()


class _PlanChoice:
    """One distribution of the budget. `left` is what has not been spent of the stable part."""

    def __init__(self, material: Material, allowance: int) -> None:
        self.m = material
        self.turns = material.turns
        self.budget = allowance
        self.costs = [turn_cost(turn) for turn in material.turns]
        self.lines = LineCosts(material.turns, older=material.older_turns > 0)
        self.window_at = max(0, len(self.turns) - material.window_turns)
        self.verbatim: dict[int, Shown] = {}
        self.part = allowance if self._is_all() else min(allowance, self._stable_part())
        self.left = self.part

    def plan(self) -> Plan:
        """Run all steps, in order."""
        state = self._newest_and_state()
        self._rest_of_window()
        start = self._start()
        line_tokens = 0
        if not self.m.lean:
            self._show(range(start, self.window_at))
        elif start < self.window_at:
            # Otherwise other prompts have the same lines, and a provider may have them and the window in its cache.
            line_tokens = int(self.m.limits.line_tokens * LEAN_LINE)
            self.lines.cut(line_tokens)
        plan = Plan(
            budget=self.m.limits.prompt_budget,
            turns_as=self.m.limits.turns_as,
            state=state,
            line_tokens=line_tokens,
            verbatim=tuple(self.verbatim[index] for index in sorted(self.verbatim)),
            dropped=sum(index not in self.verbatim for index in range(self.window_at, len(self.turns))),
            anchor_seq=self.turns[start].from_seq if self.turns else 0,
        )
        return self._with_excerpts(self._with_lines(plan))

    # The parts of the budget

    def _stable_part(self) -> int:
        if not self.m.limits.enabled:
            return self.budget
        return self.m.limits.stable_part(sum(self.m.state_tokens))

    def _is_all(self) -> bool:
        """Whether the whole chat fits verbatim: then there is nothing to recall, and turns may use the whole budget."""
        if self.m.older_turns or any(self.m.state_tokens):
            return False
        head = verbatim_head_cost(self.m.limits.turns_as)
        return self._lowest() == 0 and head + sum(self.costs) <= self.budget

    def _window_part(self) -> int:
        """Maximum tokens of the window: all that there are while the prompt has nothing else of memory."""
        is_alone = self.window_at == 0 and not self.m.older_turns and not any(self.m.state_tokens)
        return self.budget if is_alone or not self.m.limits.enabled else self.m.limits.window_part

    # The newest turn and the state

    def _newest_and_state(self) -> Clips:
        wanted = sum(self.m.state_tokens) if self.m.limits.enabled else 0
        newest = self._show_newest(wanted)
        room = min(wanted, self.left)
        if newest is not None and newest.clipped:
            room = min(room, self.left - self._reserve(len(self.turns) - 1))
        clips, spent = clip_state(self.m.state_tokens, room)
        self.left -= spent
        return clips

    def _show_newest(self, state: int) -> Shown | None:
        """Show the newest turn, leaving room for `state` tokens of state.

        It is clipped if both do not fit, the state then getting at most half, or if it exceeds its share of the
        window.
        """
        last = len(self.turns) - 1
        if last < 0 or not self.m.showable(last):
            return None
        head = verbatim_head_cost(self.m.limits.turns_as)
        room = self.part - state
        if head + self.costs[last] > room:
            usable = self.part - self._reserve(last)
            room = usable - min(state, usable // 2, max(0, usable - MIN_NEWEST))
        room = min(room, head + self._newest_share())
        shown = _show_within(self.turns[last], self.costs[last], room - head)
        if shown is not None:
            self.verbatim[last] = shown
            self.left -= min(head + self.costs[last], room)
        return shown

    def _newest_share(self) -> int:
        """Maximum tokens of the newest turn: what the window's other turns leave of its part, at least half."""
        others = sum(self.costs[index] for index in range(self.window_at, len(self.turns) - 1))
        return max(MIN_NEWEST, self._window_part() // 2, self._window_part() - others)

    # The rest of the window

    def _rest_of_window(self) -> None:
        """Show the other turns of the window: whole if they fit, otherwise each within an equal share of the room.

        A turn of which next to nothing would be left becomes a line.
        """
        last = len(self.turns) - 1
        rest = [index for index in range(self.window_at, last) if self.m.showable(index)]
        newest = min(self.costs[last], self._newest_share()) if last in self.verbatim else 0
        room = min(self.left - self._reserve(self.window_at), self._window_part() - newest)
        if sum(self.costs[index] for index in rest) <= room:
            self._show(rest)
            return
        room = min(self.left - self._reserve(last), self._window_part() - newest)
        shares = equal_shares([self.costs[index] for index in rest], room)
        for index, share in zip(rest, shares, strict=True):
            shown = _show_within(self.turns[index], self.costs[index], share)
            if shown is not None and not _says_less_than_its_line(shown):
                self.verbatim[index] = shown
                self.left -= min(share, self.costs[index])

    def _reserve(self, before: int) -> int:
        """Tokens reserved for the lines of the turns before index `before`."""
        if not self.m.limits.enabled:
            return 0
        return self.lines.reserve(range(max(0, before)), self.budget)

    def _show(self, indexes: Sequence[int]) -> None:
        for index in indexes:
            self.verbatim[index] = show_whole(self.turns[index])
            self.left -= self.costs[index]

    # More turns verbatim

    def _start(self) -> int:
        """Index from which turns before the window are verbatim, too, each in place of its line."""
        if self._everything_fits():
            return 0
        left = self.left + self._lent()
        lines = self._all_lines()
        if lines > left:
            return self.window_at
        lowest = self._lowest()
        before = range(lowest, self.window_at)
        anchor = self._anchor()
        window = sum(self.costs[index] for index in self.verbatim)
        return lowest + first_verbatim(
            self.costs[lowest : self.window_at],
            [self.lines.of(index) if self.m.limits.enabled else 0 for index in before],
            Room(left, window, lines),
            None if anchor is None else anchor - lowest,
        )

    def _everything_fits(self) -> bool:
        """True if no turn needs a line: all turns before the window fit verbatim, and the whole window is verbatim."""
        whole = self._lowest() == 0 and len(self.verbatim) == len(self.turns) - self.window_at
        merged = self.lines.all_of([], at_most=0) if self.m.limits.enabled else 0
        return whole and sum(self.costs[: self.window_at]) + merged <= self.left + self._lent()

    def _lowest(self) -> int:
        """The lowest index from which all turns up to the window may be verbatim."""
        most = self.m.limits.short_turn
        start = self.window_at
        while start and self.m.showable(start - 1) and self.costs[start - 1] <= most:
            start -= 1
        return start

    def _all_lines(self) -> int:
        """Tokens of a line for every turn not yet verbatim; if that exceeds what is left, some number above it."""
        at_most = self.left + self._lent()
        return self.lines.all_of(self._unshown(), at_most=at_most) if self.m.limits.enabled else 0

    def _lent(self) -> int:
        """Tokens of the excerpts' part that verbatim older turns may use: all but a tenth of the budget.

        None if every question is searched. Otherwise excerpts get more than that tenth only in a lean prompt, where
        the number is the same, but only determines where the next prompt's verbatim part begins.
        """
        limits = self.m.limits
        if limits.recall == "always":
            return 0
        return max(0, min(limits.prompt_budget, self.budget) - self.part - limits.some_room)

    def _unshown(self) -> list[int]:
        return [index for index in range(len(self.turns)) if index not in self.verbatim]

    def _anchor(self) -> int | None:
        """Index at which the previous plan began; None if there was none, or if it began after all these turns."""
        if not self.turns or not 0 < self.m.anchor_seq <= self.turns[-1].from_seq:
            return None
        found = next(i for i, turn in enumerate(self.turns) if turn.from_seq >= self.m.anchor_seq)
        return min(found, self.window_at)

    # Lines

    def _with_lines(self, plan: Plan) -> Plan:
        unshown, older = self._unshown(), self.m.older_turns
        lined = self._lined(unshown) if self.m.limits.enabled else []
        merged_turns = unshown[: len(unshown) - len(lined)]
        without = sum(not self.turns[index].line for index in lined)
        spans = tuple(TurnSpan(self.turns[i].from_seq, self.turns[i].through_seq) for i in lined)
        merged = self._merged(merged_turns, len(lined)) if self.m.limits.enabled else None
        self.left -= sum(self.lines.of(index) for index in lined)
        self.left -= (lines_head_cost() if lined or merged else 0) + (MERGED_TOKENS if merged else 0)
        return replace(plan, lines=spans, merged=merged, unrepresented=len(merged_turns) + older + without)

    def _lined(self, unshown: Sequence[int]) -> list[int]:
        """Which of `unshown` get a line: all of them, or the newest that fit next to the merged line."""
        older = any(index < self.window_at for index in self.verbatim)
        room = self.left + max(self._borrowed(), self._lent() if older else 0)
        if self.lines.all_of(unshown, at_most=room) <= room:
            return list(unshown)
        room -= lines_head_cost() + MERGED_TOKENS
        lined: list[int] = []
        for index in reversed(unshown):
            room -= self.lines.of(index)
            if room < 0:
                break
            lined.append(index)
        return lined[::-1]

    def _borrowed(self) -> int:
        """Tokens of the excerpts' part that lines may use.

        A lean prompt needs none: its lines replace turns that would have been verbatim.
        """
        return int((self.budget - self.part) * BORROWED)

    def _merged(self, merged: Sequence[int], lined: int) -> Merged | None:
        """The merged line, if there are turns to merge and room for the line."""
        count = len(merged) + self.m.older_turns
        has_room = lined or self.left >= lines_head_cost() + MERGED_TOKENS
        if not count or not has_room:
            return None
        return Merged(self._merged_from(merged), self._merged_through(merged), count)

    def _merged_from(self, merged: Sequence[int]) -> int:
        if self.m.older_turns and self.m.older_from_seq is not None:
            return self.m.older_from_seq
        return self.turns[merged[0]].from_seq if merged else 1

    def _merged_through(self, merged: Sequence[int]) -> int:
        if merged:
            return self.turns[merged[-1]].through_seq
        return self.turns[0].from_seq - 1 if self.turns else self._merged_from(merged)

    # Excerpts of earlier turns

    def _with_excerpts(self, plan: Plan) -> Plan:
        """Return `plan` with the best excerpts that fit into what is left of the whole budget."""
        free = max(0, self.budget - self.part + self.left) if self.m.limits.recalls else 0
        room = free if self.m.recall_tokens is None else min(free, self.m.recall_tokens)
        choice = ExcerptChoice(self.m.excerpts)
        choice.fill(room, [self.turns[index] for index in self.verbatim])
        return replace(plan, recalled=choice.quotes, free=free)


def _says_less_than_its_line(shown: Shown) -> bool:
    """Whether so little of the user's message is left that the turn's line says more."""
    return shown.user_clip is not None and shown.user_clip < MIN_NEWEST


def _show_within(turn: Turn, cost: int, room: int) -> Shown | None:
    return show_whole(turn) if cost <= room else show_clipped(turn, room)
