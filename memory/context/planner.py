"""Choose what of memory a prompt shows, from stored counts only: takes a budget, returns a `Plan`. Pure.

What stays the same from one question to the next comes first and has its own part of the budget: the state, turns
verbatim, a line for each older turn. The window takes precedence over older turns, the newest turn over everything.
Excerpts of earlier turns come last, in the room that is left, so their size moves nothing before them. Turns are
chosen newest first and shown oldest first. Turns with neither text nor line are counted. Texts are not read here, so
only those that a plan shows need to be loaded. `docs/prompt.md` has a diagram.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_repeated
from memory.context.plan import Clips, Merged, Plan, Shown, TurnSpan, clip_state
from memory.history.turns import (
    AROUND_LINE,
    CUT_OFF_TOKENS,
    MERGED_TOKENS,
    Turn,
    line_cost,
    line_text,
    lines_head_cost,
    turn_cost,
    verbatim_head_cost,
)
from memory.limits import MemoryLimits
from memory.policies.protocol import StateSection
from memory.recall.excerpts import DAY, MARK, Excerpt, Quote, excerpts_head_cost


@dataclass(frozen=True, slots=True)
class Material:
    """The input of a plan: counts of the newest unfolded turns, the limits, and what was found for the question."""

    state_tokens: tuple[int, ...]
    """Tokens of each section of the state, including message overhead."""
    turns: tuple[Turn, ...]
    """The newest unfolded finished turns that have text, oldest first. Only counts and lines are read."""
    limits: MemoryLimits
    window_turns: int
    older_turns: int = 0
    """Unfolded turns that are not among `turns`, from message `older_from_seq` on."""
    older_from_seq: int = 1
    anchor_seq: int = 0
    """That of the previous plan; 0: there was none."""
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


def sections_cost(state: Sequence[StateSection]) -> tuple[int, ...]:
    """Tokens of each section, including message overhead."""
    return tuple(count_repeated(section.text) + MESSAGE_OVERHEAD for section in state)


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
        window_turns = max(1, material.window_turns) if material.limits.enabled else 1
        self.window_at = max(0, len(self.turns) - window_turns)
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
        if self.m.older_turns:
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


# Where the verbatim part begins
#
# Providers cache a prompt by its prefix. If every new turn displaced the oldest verbatim one, no prefix would ever be
# repeated. So the start stays as long as everything from it fits; then most of the room is freed at once.


KEPT_SHARE = 0.4
"""Share of the verbatim part's room that stays filled, window included, when the start moves.

On the long chats of docs/lab.md, `chunked` has 85.2 % of its tokens cacheable with 0.4, 84.6 % with 0.5 and 83.7 %
with two thirds, and 82.4, 82.2 and 82.0 % of the facts after 20 turns. On the shorter ones, where more turns have only
a line, it is 80.4, 80.4 and 81.8 % of the facts.
"""


@dataclass(frozen=True, slots=True)
class Room:
    """Tokens that can be spent: `left` for lines and turns together; `window` are already spent on the window."""

    left: int
    window: int
    lines: int
    """Tokens of all lines if none of the turns in question is verbatim."""


def first_verbatim(costs: Sequence[int], line_costs: Sequence[int], room: Room, anchor: int | None) -> int:
    """Index of the oldest verbatim turn among those before the window; `len(costs)` if none is verbatim.

    A verbatim turn costs `costs` and saves its line. `anchor` is the index of the previous start (one out of range is
    a start that cannot be kept). None: there was none, so as many turns as fit are verbatim.
    """
    end = len(costs)
    saved = [cost - line for cost, line in zip(costs, line_costs, strict=True)]
    spent = list(accumulate(reversed(saved), initial=room.lines))[::-1]
    fits = [index for index in range(end + 1) if spent[index] <= room.left]
    if anchor is None:
        return _contiguous(fits, end)
    return anchor if anchor in fits else _after_block(fits, costs, room)


def _contiguous(fits: Sequence[int], end: int) -> int:
    """The oldest start that is reached from the window without a step that does not fit."""
    start = end
    while start - 1 in fits:
        start -= 1
    return start


def _after_block(fits: Sequence[int], costs: Sequence[int], room: Room) -> int:
    """The oldest start with which the verbatim part, window included, fills at most `KEPT_SHARE` of its room."""
    most = int((room.window + room.left - room.lines) * KEPT_SHARE) - room.window
    return min((index for index in fits if sum(costs[index:]) <= most), default=len(costs))


# Which excerpts are shown: the best that fit, none from a turn shown verbatim


class ExcerptChoice:
    """The excerpts chosen so far from those found, which are ordered best first. Each is of one message."""

    def __init__(self, found: Sequence[Excerpt]) -> None:
        self._found = found
        self.taken: list[Excerpt] = []
        self._seqs: list[int] = []
        """Seqs of the quoted messages, sorted."""
        self._days: dict[int, str] = {}
        self.cost = 0
        """Tokens of the message that contains them; 0 if there are none."""

    @property
    def quotes(self) -> tuple[tuple[Quote, ...], ...]:
        """The quotes in order of position: one tuple for each run of quotes of the same day."""
        runs: list[list[Quote]] = []
        found = chain.from_iterable(excerpt.quotes for excerpt in self.taken)
        for quote in sorted(found, key=lambda quote: (quote.seq, quote.start)):
            last = runs[-1][-1] if runs else None
            if last is None or self._days[last.seq] != self._days[quote.seq]:
                runs.append([quote])
            elif quote.seq == last.seq and quote.start == last.end:
                runs[-1][-1] = last._replace(end=quote.end)
            else:
                runs[-1].append(quote)
        return tuple(map(tuple, runs))

    def fill(self, room: int, verbatim: Sequence[Turn]) -> None:
        """Take the best excerpts that are not of `verbatim`, as long as all together cost at most `room`."""
        for excerpt in self._found:
            if self.cost + self._more(excerpt) <= room and not _is_in(excerpt, verbatim):
                self._take(excerpt)

    def _take(self, excerpt: Excerpt) -> None:
        self.cost += self._more(excerpt)
        self.taken.append(excerpt)
        if excerpt.seq not in self._days:
            insort(self._seqs, excerpt.seq)
            self._days[excerpt.seq] = excerpt.on

    def _more(self, excerpt: Excerpt) -> int:
        """Tokens that `excerpt` adds.

        A further excerpt of a quoted message needs no date or mark, and one with a neighbour of the same day no date.
        One between two excerpts of another day adds a second date, because it separates them.
        """
        if excerpt.seq in self._days:
            return excerpt.tokens - DAY - MARK
        head = 0 if self._seqs else excerpts_head_cost()
        at = bisect_left(self._seqs, excerpt.seq)
        around = [self._days[seq] for seq in self._seqs[max(0, at - 1) : at + 1]]
        if excerpt.on in around:
            return head + excerpt.tokens - DAY
        parted = DAY if len(around) == 2 and around[0] == around[1] else 0
        return head + excerpt.tokens + parted


def _is_in(excerpt: Excerpt, turns: Sequence[Turn]) -> bool:
    """Whether `excerpt` is of one of `turns`."""
    return any(turn.from_seq <= excerpt.seq <= turn.through_seq for turn in turns)


# What lines cost, and how turns that are too long are clipped


class LineCosts:
    """Token costs of the lines of some turns, counted only when needed: most plans need few of them."""

    def __init__(self, turns: Sequence[Turn], *, older: bool) -> None:
        self._turns = turns
        self._older = older
        self._known: dict[int, int] = {}

    def of(self, index: int) -> int:
        """Cost of the line of turn `index`."""
        if index not in self._known:
            self._known[index] = line_cost(line_text(self._turns[index]))
        return self._known[index]

    def cut(self, at_most: int) -> None:
        """Limit every line to `at_most` tokens from now on."""
        self._known = {index: min(self.of(index), at_most + AROUND_LINE) for index in range(len(self._turns))}

    def all_of(self, indexes: Sequence[int], *, at_most: int) -> int:
        """Tokens of the whole message if each of `indexes` has a line.

        Counting stops once the total exceeds `at_most`; the result is then some number above it.
        """
        if not indexes and not self._older:
            return 0
        total = lines_head_cost() + (MERGED_TOKENS if self._older else 0)
        for index in reversed(indexes):
            if total > at_most:
                break
            total += self.of(index)
        return total

    def reserve(self, indexes: Sequence[int], budget: int) -> int:
        """Tokens of `budget` to reserve for lines before the window gets its share.

        That is what the lines need, but at most a tenth of `budget`.
        """
        tenth = budget // 10
        full = self.all_of(indexes, at_most=tenth)
        if full <= tenth:
            return full
        return tenth if tenth >= lines_head_cost() + MERGED_TOKENS else 0


MIN_SIDE = 16
"""Tokens below which a clipped side would be little more than the mark of the cut."""


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
