"""Long conversations under every policy: whether turn 5,000 costs what turn 500 did.

Two chats of one policy go through the services and the folds as `replay` plays them, one of them 4,500 turns ahead.
They are timed in turn, in blocks, so that a drift of the machine's speed hits both alike. The built-in model folds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from django.contrib.auth.models import User

from benchmarks.figures import Figure, Group
from benchmarks.speech import WORDS
from memory.lab.conversation import Conversation, Exchange
from memory.lab.replay import Player
from memory.policies import POLICIES

SHORT, LONG = 500, 5_000
"""The turns around which timing is centered."""
AROUND = 500
"""The number of turns timed in each chat, half of them before that turn and half after it."""
BLOCK = 25
RATIO_BAR = 0.9


def run(owner: User, *, short: int = SHORT, long: int = LONG, around: int = AROUND) -> Group:
    """Measure turns per second around both turns, and their ratio, for each policy."""
    del owner  # chats of the lab have an owner of their own
    talk = Conversation("generated", "", tuple(_exchange(number) for number in range(long + around)))
    rates = ((policy, *_rates(talk, policy, short, long, around)) for policy in POLICIES)
    return Group(f"Chats that grow to {long:,} turns", tuple(_figures(rates, short, long)))


def _figures(rates: Iterator[tuple[str, float, float]], short: int, long: int) -> Iterator[Figure]:
    for policy, near, far in rates:
        note = f"{near:.0f} turns a second at {short:,}, {far:.0f} at {long:,}"
        yield Figure(f"{policy}, speed kept", far / near, "", bar=RATIO_BAR, at_least=True, portable=True, note=note)


def _rates(talk: Conversation, policy: str, short: int, long: int, around: int) -> tuple[float, float]:
    """Return the turns per second of one chat around turn `short`, and of another around turn `long`."""
    near, far = Player(talk, policy), Player(talk, policy)
    _play(near, short - around // 2)
    _play(far, long - around // 2)
    spent_near = spent_far = 0.0
    for _ in range(around // BLOCK):
        spent_near += _play(near, BLOCK)
        spent_far += _play(far, BLOCK)
    turns = around // BLOCK * BLOCK
    return turns / spent_near, turns / spent_far


def _play(player: Player, turns: int) -> float:
    started = time.perf_counter()
    for _ in range(turns):
        player.turn()
    return time.perf_counter() - started


def _exchange(number: int) -> Exchange:
    """Return an exchange of about 25 and 50 tokens, with its own facts; the same in every run."""
    chance = random.Random(number)
    words = " ".join(chance.choice(WORDS) for _ in range(60))
    code, day = (
        f"{chance.choice('ABCDEF')}{number:05}",
        f"2026-0{chance.randint(1, 9)}-{chance.randint(10, 28)}",
    )
    return Exchange(f"Order {code} for {day}: {words[:80]}?", f"Order {code} is {words[80:]}. It comes on {day}.")
