"""Choose what of memory a prompt shows, from stored counts only: takes a budget, returns a `Plan`. Pure.

What stays the same from one question to the next comes first and has its own part of the budget: the state, turns
verbatim, a line for each older turn. The window takes precedence over older turns, the newest turn over everything.
Excerpts of earlier turns come last, in the room that is left, so their size moves nothing before them. Turns are
chosen newest first and shown oldest first. Turns with neither text nor line are counted. Texts are not read here, so
only those that a plan shows need to be loaded. `docs/prompt.md` has a diagram.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter

from chatmemory.text.markers import LINES_HEADING, RECALL_HEADING
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_repeated, heading_cost
from memory.context.plan import Clips, Merged, Plan, Shown, TurnSpan
from memory.history.turns import (
    AROUND_LINE,
    CUT_OFF_TOKENS,
    MERGED_TOKENS,
    Turn,
    line_cost,
    line_text,
    turn_cost,
    verbatim_head_cost,
)
from memory.limits import MemoryLimits
from memory.policies.protocol import StateSection
from memory.recall.ranking import DAY, MARK, Excerpt, Quote, Recall


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
    """The `anchor_seq` of the previous plan; 0: there was none."""
    excerpts: tuple[Excerpt, ...] = ()
    """Excerpts of earlier turns, best first."""
    recall_tokens: int | None = None
    """Maximum tokens that excerpts may have; None: all that are left."""
    lean: bool = False
    """Whether turns before the window become lines, and shorter ones, and the window has a third of its part, to make
    room for excerpts."""
    may_show: frozenset[int] | None = None
    """`from_seq` of the turns that may be verbatim because their text is loaded. None: any turn."""


def sections_cost(state: Sequence[StateSection]) -> tuple[int, ...]:
    """Tokens of each section, including message overhead."""
    return tuple(count_repeated(section.shown) + MESSAGE_OVERHEAD for section in state)


MIN_NEWEST = 60
"""Tokens that the newest turn gets before the state gets any."""
MIN_SECTION = 32
"""Tokens below which a clipped section of state would be little more than its heading."""
MIN_SIDE = 16
"""Tokens below which a clipped side of a turn would be little more than the mark of the cut."""
LEAN_LINE = 0.35
"""Length of lines in a lean prompt, relative to the usual, if other prompts show some of these turns verbatim.

When it was chosen, 86.5 % of the evidence of LoCoMo was in the prompt (`make evidence`) and 68.8 % of that of service
chats; with 0.5 85.9 and 68.8 %, with 0.4 86.2 and 69.0 %, with 0.3 86.5 and 68.3 %. No other set differed.
"""
LEAN_WINDOW = 3
"""A lean prompt's window has one part in so many of the usual: only long replies are cut further by that.

`make evidence`: 84.9 % of BEAM-500K's evidence is in the prompt; with 1 it is 82.3 %, with 2 83.8 %, with 4 84.9 %.
"""
BORROWED = 0.5
"""Share of the excerpts' part of the budget that lines may use while a fold is late."""
KEPT_SHARE = 0.4
"""Share of the verbatim part's room that stays filled, window included, when its start moves.

When it was chosen, on the long chats of docs/lab.md, `chunked` had 85.2 % of its tokens cacheable with 0.4, 84.6 % with
0.5 and 83.7 % with two thirds, and 82.4, 82.2 and 82.0 % of the facts after 20 turns. On the shorter ones, where more
turns have only a line, it was 80.4, 80.4 and 81.8 % of the facts.
"""


def is_lean(recall: Recall) -> bool:
    """Whether turns before the window become lines in this prompt, to make room for excerpts.

    An answer from far back is worth one miss in the provider's cache; context is not.
    """
    return recall.sought == "all" and recall.reason != "chosen"


def choose(material: Material, allowance: int | None = None) -> Plan:
    """Plan a prompt of at most `allowance` tokens, or within the budget of its limits. Zero or less shows nothing."""
    return _PlanChoice(material, material.limits.prompt_budget if allowance is None else allowance).plan()


class _PlanChoice:
    """One distribution of the budget. `left` is what has not been spent of the stable part."""

    def __init__(self, material: Material, allowance: int) -> None:
        self.m, self.turns, self.limits = material, material.turns, material.limits
        self.budget = max(0, allowance)
        self.costs = [turn_cost(turn) for turn in self.turns]
        self.lines_head = heading_cost(LINES_HEADING)
        self.head = verbatim_head_cost(self.limits.turns_as)
        self.state = sum(material.state_tokens) if self.limits.enabled else 0
        self.last = len(self.turns) - 1
        self.window_at = max(0, len(self.turns) - (max(1, material.window_turns) if self.limits.enabled else 1))
        self.lowest = self._lowest()
        self.verbatim: dict[int, Shown] = {}
        self._known_lines: dict[int, int] = {}
        self._max_line: int | None = None
        has_only_turns = not (material.older_turns or self.state)
        self.part = self.budget
        if self.limits.enabled and not (has_only_turns and self._all_turns_fit()):
            self.part = min(self.budget, self.limits.stable_part(self.state))
        # The window may have all that there is while the prompt has nothing else of memory.
        is_alone = not self.limits.enabled or (has_only_turns and self.window_at == 0)
        self.window_part = self.budget if is_alone else self.limits.window_part

    def plan(self) -> Plan:
        """Run all steps, in order."""
        state = self._window()
        start = self._start()
        line_tokens = 0
        if self.m.lean:
            self.window_part = min(self.window_part, self.limits.window_part // LEAN_WINDOW)
            state = self._window()
        else:
            self._show(range(start, self.window_at))
        if self.m.lean and start < self.window_at:
            # Otherwise other prompts have the same lines, and a provider may have them and the window in its cache.
            line_tokens = int(self.limits.line_tokens * LEAN_LINE)
            self._max_line = line_tokens + AROUND_LINE
        unshown = self._unshown()
        lined = self._lined(unshown) if self.limits.enabled else []
        merged = self._merged(unshown[: len(unshown) - len(lined)], has_lines=bool(lined))
        self.left -= sum(map(self._line, lined))
        self.left -= (self.lines_head if lined or merged else 0) + (MERGED_TOKENS if merged else 0)
        free = max(0, self.budget - self.part + self.left) if self.limits.recalls else 0
        room = free if self.m.recall_tokens is None else min(free, self.m.recall_tokens)
        verbatim = sorted(self.verbatim)
        return Plan(
            budget=self.limits.prompt_budget,
            turns_as=self.limits.turns_as,
            state=state,
            merged=merged,
            lines=tuple(TurnSpan(self.turns[at].from_seq, self.turns[at].through_seq) for at in lined),
            line_tokens=line_tokens,
            verbatim=tuple(self.verbatim[at] for at in verbatim),
            recalled=ExcerptChoice(self.m.excerpts, room, [self.turns[at] for at in verbatim]).quotes,
            unrepresented=len(unshown) + self.m.older_turns - sum(bool(self.turns[at].line) for at in lined),
            dropped=sum(at not in self.verbatim for at in range(self.window_at, len(self.turns))),
            anchor_seq=self.turns[start].from_seq if self.turns else 0,
            free=free,
        )

    def _lowest(self) -> int:
        """The lowest index from which all turns up to the window may be verbatim."""
        start = self.window_at
        while start and self._may_show(start - 1) and self.costs[start - 1] <= self.limits.short_turn:
            start -= 1
        return start

    def _may_show(self, index: int) -> bool:
        return self.m.may_show is None or self.turns[index].from_seq in self.m.may_show

    def _all_turns_fit(self) -> bool:
        """Whether all turns fit verbatim. If there is nothing else, there is nothing to recall, and no part to keep."""
        return self.lowest == 0 and self.head + sum(self.costs) <= self.budget

    # The window, and the state

    def _window(self) -> Clips:
        """Show the window and the state, and nothing else; return the clips of the state."""
        self.verbatim, self.left = {}, self.part
        clips = self._newest_and_state()
        self._rest_of_window()
        return clips

    def _newest_and_state(self) -> Clips:
        """Show the newest turn and, beside it, the state; return the clips of the state.

        The turn is clipped if both do not fit, the state then getting at most half, or if the turn exceeds its share
        of the window.
        """
        newest = None
        if self.last >= 0 and self._may_show(self.last):
            cost = self.head + self.costs[self.last]
            room = self.part - self.state
            if cost > room:
                usable = self.part - self._reserve(self.last)
                room = usable - min(self.state, usable // 2, max(0, usable - MIN_NEWEST))
            room = min(room, self.head + self._newest_share())
            newest = show(self.turns[self.last], room - self.head)
            if newest is not None:
                self.verbatim[self.last] = newest
                self.left -= min(cost, room)
        room = min(self.state, self.left)
        if newest is not None and newest.clipped:
            room = min(room, self.left - self._reserve(self.last))
        return self._clipped_state(room)

    def _newest_share(self) -> int:
        """Maximum tokens of the newest turn: what the window's other turns leave of its part, at least half."""
        others = sum(self.costs[self.window_at : self.last])
        return max(MIN_NEWEST, self.window_part // 2, self.window_part - others)

    def _clipped_state(self, room: int) -> Clips:
        """Spend `room` tokens on the sections of the state, in their order.

        A section that does not fit is clipped to what is left, or left out if that is less than `MIN_SECTION`. Later
        ones get the rest.
        """
        clips: list[int | None] = []
        room = left = max(0, room)
        for tokens in self.m.state_tokens:
            if tokens <= left:
                clips.append(None)
                left -= tokens
            elif left >= MIN_SECTION:
                clips.append(left - MESSAGE_OVERHEAD)
                left = 0
            else:
                clips.append(0)
        self.left -= room - left
        return tuple(clips)

    def _rest_of_window(self) -> None:
        """Show the other turns of the window: whole if they fit, otherwise each within an equal share of the room.

        A turn of which next to nothing would be left becomes a line.
        """
        rest = [index for index in range(self.window_at, self.last) if self._may_show(index)]
        costs = [self.costs[index] for index in rest]
        newest = min(self.costs[self.last], self._newest_share()) if self.last in self.verbatim else 0
        of_window = self.window_part - newest
        if sum(costs) <= min(self.left - self._reserve(self.window_at), of_window):
            self._show(rest)
            return
        room = min(self.left - self._reserve(self.last), of_window)
        for index, share in zip(rest, equal_shares(costs, room), strict=True):
            shown = show(self.turns[index], share)
            # If less is left of the user's message, the turn's line says more.
            if shown is not None and (shown.user_clip is None or shown.user_clip >= MIN_NEWEST):
                self.verbatim[index] = shown
                self.left -= min(share, self.costs[index])

    def _show(self, indexes: Iterable[int]) -> None:
        for index in indexes:
            self.verbatim[index] = Shown(self.turns[index].from_seq, self.turns[index].through_seq)
            self.left -= self.costs[index]

    # More turns verbatim, each in place of its line
    #
    # Providers cache a prompt by its prefix. If every new turn displaced the oldest verbatim one, no prefix would ever
    # be repeated. So the start stays as long as everything from it fits; then most of the room is freed at once.

    def _start(self) -> int:
        """Index from which turns before the window are verbatim, too: that of the window if none is."""
        room = self.left + self._lent()
        if self._everything_fits(room):
            return 0
        lines = self._lines(self._unshown(), limit=room)
        if lines > room:
            return self.window_at
        saved = [self.costs[index] - self._line(index) for index in range(self.lowest, self.window_at)]
        # What lines and verbatim turns cost together, by where the verbatim part begins.
        spent = list(accumulate(reversed(saved), initial=lines))[::-1]
        fitting = {start for start, tokens in enumerate(spent, self.lowest) if tokens <= room}
        anchor = bisect_left(self.turns, self.m.anchor_seq, key=attrgetter("from_seq"))
        if not self.m.anchor_seq or anchor == len(self.turns):  # there was no start, or it was after all these turns
            start = self.window_at
            while start - 1 in fitting:
                start -= 1
            return start
        if min(anchor, self.window_at) in fitting:
            return min(anchor, self.window_at)
        window = sum(self.costs[index] for index in self.verbatim)
        kept = int((window + room - lines) * KEPT_SHARE) - window
        starts = (start for start in fitting if sum(self.costs[start : self.window_at]) <= kept)
        return min(starts, default=self.window_at)

    def _everything_fits(self, room: int) -> bool:
        """True if no turn needs a line: all turns before the window fit verbatim, and the whole window is verbatim."""
        if self.lowest or len(self.verbatim) < len(self.turns) - self.window_at:
            return False
        return sum(self.costs[: self.window_at]) + self._lines([], limit=0) <= room

    def _lent(self) -> int:
        """Tokens of the excerpts' part that verbatim older turns may use: all but a tenth of the budget.

        None if every question is searched. Otherwise excerpts get more than that tenth only in a lean prompt, where
        the number is the same, but only determines where the next prompt's verbatim part begins.
        """
        if self.limits.recall == "always":
            return 0
        return max(0, min(self.limits.prompt_budget, self.budget) - self.part - self.limits.some_room)

    def _unshown(self) -> list[int]:
        return [index for index in range(len(self.turns)) if index not in self.verbatim]

    # Lines

    def _line(self, index: int) -> int:
        """Tokens of the line of turn `index`, counted only when needed: most plans need few of them."""
        if not self.limits.enabled:
            return 0
        if index not in self._known_lines:
            self._known_lines[index] = line_cost(line_text(self.turns[index]))
        known = self._known_lines[index]
        return known if self._max_line is None else min(known, self._max_line)

    def _lines(self, indexes: Sequence[int], *, limit: int) -> int:
        """Tokens of the whole message if each of `indexes` has a line.

        Counting stops once the total exceeds `limit`; the result is then some number above it.
        """
        if not self.limits.enabled or not (indexes or self.m.older_turns):
            return 0
        total = self.lines_head + (MERGED_TOKENS if self.m.older_turns else 0)
        for index in reversed(indexes):
            if total > limit:
                break
            total += self._line(index)
        return total

    def _reserve(self, before: int) -> int:
        """Tokens reserved for the lines of the turns before index `before`: what they need, at most a tenth of all."""
        tenth = self.budget // 10
        full = self._lines(range(before), limit=tenth)
        if full <= tenth:
            return full
        return tenth if tenth >= self.lines_head + MERGED_TOKENS else 0

    def _lined(self, unshown: Sequence[int]) -> list[int]:
        """Which of `unshown` get a line: all of them, or the newest that fit next to the merged line."""
        has_older_verbatim = any(index < self.window_at for index in self.verbatim)
        # A lean prompt borrows nothing: its lines replace turns that would have been verbatim.
        borrowed = int((self.budget - self.part) * BORROWED)
        room = self.left + max(borrowed, self._lent() if has_older_verbatim else 0)
        if self._lines(unshown, limit=room) <= room:
            return list(unshown)
        room -= self.lines_head + MERGED_TOKENS
        lined: list[int] = []
        for index in reversed(unshown):
            room -= self._line(index)
            if room < 0:
                break
            lined.append(index)
        return lined[::-1]

    def _merged(self, rest: Sequence[int], *, has_lines: bool) -> Merged | None:
        """The line in place of the turns `rest` and of those before all turns, if there are any, and room for it."""
        count = len(rest) + self.m.older_turns
        has_room = has_lines or self.left >= self.lines_head + MERGED_TOKENS
        if not (self.limits.enabled and count and has_room):
            return None
        first = self.m.older_from_seq if self.m.older_turns else self.turns[rest[0]].from_seq
        if rest:
            return Merged(first, self.turns[rest[-1]].through_seq, count)
        return Merged(first, self.turns[0].from_seq - 1 if self.turns else first, count)


# Which excerpts are shown: the best that fit, none from a turn shown verbatim


class ExcerptChoice:
    """The best of `excerpts` (best first, each of one message) within `room` tokens, none of a turn in `verbatim`."""

    def __init__(self, excerpts: Sequence[Excerpt], room: int, verbatim: Sequence[Turn] = ()) -> None:
        self.taken: list[Excerpt] = []
        self.cost = 0
        """Tokens of the message that contains them; 0 if there are none."""
        self._days: dict[int, str] = {}
        self._seqs: list[int] = []
        """Seqs of the quoted messages, sorted."""
        for excerpt in excerpts:
            cost = self.cost + self._more(excerpt)
            if cost <= room and not any(turn.from_seq <= excerpt.quote.seq <= turn.through_seq for turn in verbatim):
                self.cost = cost
                self.taken.append(excerpt)
                if excerpt.quote.seq not in self._days:
                    insort(self._seqs, excerpt.quote.seq)
                    self._days[excerpt.quote.seq] = excerpt.on

    def _more(self, excerpt: Excerpt) -> int:
        """Tokens that `excerpt` adds.

        A further excerpt of a quoted message needs no date or mark, and one with a neighbour of the same day no date.
        One between two excerpts of another day adds a second date, because it separates them.
        """
        if excerpt.quote.seq in self._days:
            return excerpt.tokens - DAY - MARK
        head = 0 if self._seqs else heading_cost(RECALL_HEADING)
        at = bisect_left(self._seqs, excerpt.quote.seq)
        around = [self._days[seq] for seq in self._seqs[max(0, at - 1) : at + 1]]
        if excerpt.on in around:
            return head + excerpt.tokens - DAY
        parted = DAY if len(around) == 2 and around[0] == around[1] else 0
        return head + excerpt.tokens + parted

    @property
    def quotes(self) -> tuple[tuple[Quote, ...], ...]:
        """The quotes in order of position: one tuple for each run of quotes of the same day."""
        runs: list[list[Quote]] = []
        taken = (excerpt.quote for excerpt in self.taken)
        for quote in sorted(taken, key=lambda quote: (quote.seq, quote.start)):
            last = runs[-1][-1] if runs else None
            if last is None or self._days[last.seq] != self._days[quote.seq]:
                runs.append([quote])
            elif quote.seq == last.seq and quote.start == last.end:
                runs[-1][-1] = last._replace(end=quote.end)
            else:
                runs[-1].append(quote)
        return tuple(map(tuple, runs))


# How turns that are too long are clipped


def show(turn: Turn, room: int) -> Shown | None:
    """Show `turn` in `room` tokens, overhead included: whole or clipped; None if that leaves nothing worth reading.

    The user's message takes precedence, with up to three quarters of the room: a reply can be generated again.
    """
    user, assistant = turn.user_tokens, turn.assistant_tokens + (CUT_OFF_TOKENS if turn.cut_off else 0)
    room -= turn_cost(turn) - user - assistant
    clips: tuple[int | None, int | None]
    max_user = max(room // 2, min(room * 3 // 4, room - 2 * MIN_SIDE))
    if user + assistant <= room:
        clips = (None, None)
    elif user <= max_user:
        clips = (None, room - user)
    elif assistant <= room - max_user:
        clips = (room - assistant, None)
    else:
        clips = (max_user, room - max_user)
    if any(clip is not None and clip < MIN_SIDE for clip in clips):
        return None
    return Shown(turn.from_seq, turn.through_seq, *clips)


def equal_shares(costs: Sequence[int], room: int) -> list[int]:
    """Divide `room` tokens into equal shares; what one does not need of its share goes to the others."""
    shares = [0] * len(costs)
    left = max(0, room)
    by_cost = sorted(range(len(costs)), key=costs.__getitem__)
    for done, index in enumerate(by_cost):
        shares[index] = min(costs[index], left // (len(costs) - done))
        left -= shares[index]
    return shares
