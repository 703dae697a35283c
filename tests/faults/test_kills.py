"""`kill -9` of servers and workers, and crashes of PostgreSQL, at any moment while many users talk.

Faults strike after a random number of acknowledged turns, so that no two runs hit the same lines of code. The users
keep a journal of everything they were told, and retry broken requests under the same key. Between rounds all work is
finished, and the database is compared with the journals.
"""

import random
import time
from itertools import count

import pytest
from django.conf import settings

from tests.faults.bench.bench import SERVERS, WORKER, Bench, Load
from tests.faults.bench.journal import Journal, Turn
from tests.faults.bench.people import PLAIN, How, Person
from tests.faults.bench.postgres import PrivatePostgres
from tests.support.exhaustive import effort
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

USERS = 8
ROUND = 25
"""Kills between two checks."""
LOST_SECONDS = 1.0
"""Maximum loss of text in seconds (P6)."""
RESUMED_SECONDS = 30.0
"""Seconds in which a worker folds again after PostgreSQL is back (P15)."""
OUTAGE_FELT = 10.0
"""Seconds after PostgreSQL is back in which servers may still be without a connection."""
LONG_CHAT = 40
HABITS = {
    How(variant="slow"): 30,
    PLAIN: 30,
    How(leave=True): 10,
    How(variant="slow", leave=True): 10,
    How(stream=False): 10,
    How(variant="slow", cancel=True): 10,
}
TARGETS = {SERVERS[0]: 42, SERVERS[1]: 42, WORKER: 12}

_rounds = count(1)


def chatter(person: Person) -> None:
    """Send one message in a random way; now and then in a new chat, or regenerate the last answer."""
    if len(person.said) >= LONG_CHAT:
        person.new_chat()
    how = person.random.choices([*HABITS], [*HABITS.values()])[0]
    if person.said and person.random.random() < 0.1:
        person.again(person.said[-1], How(variant=how.variant))
    else:
        person.say(how)


class Round:
    """A period of load on the bench with its own journal, which is checked at the end."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.journal = bench, Journal()
        number = next(_rounds)
        self.random = random.Random(number)
        self.people = [bench.person(f"r{number}u{at}", self.journal, roams=True) for at in range(USERS)]
        self.load = Load(self.people, chatter)
        self._outages: list[tuple[float, float]] = []
        bench.fake.clear()

    def more_is_said(self, turns: int) -> None:
        """Wait until that many more turns have been acknowledged."""
        enough = self.journal.acknowledged + turns
        wait_for(lambda: self.journal.acknowledged >= enough, "more turns", timeout=60)

    def crash(self, database: PrivatePostgres) -> float:
        """Crash PostgreSQL and restart it. Return the time at which it was back."""
        down = time.monotonic()
        database.restart("immediate")
        self._outages.append((down, time.monotonic()))
        return self._outages[-1][1]

    def check(self) -> None:
        """Compare with the journal once all work is done, also for turns sent again under the same key."""
        self.bench.wait_until_up(SERVERS)
        people = {person.name: person for person in self.people}
        for turn in self.journal.turns:
            if turn.waited:
                people[turn.user].repeat(turn)
        for person in self.people:
            person.close()
        self.bench.check(self.journal)
        lost = [turn.lost_seconds() for turn in self.journal.turns if not self._was_away(turn)]
        assert max(lost) <= LOST_SECONDS
        waited = max(turn.waited for turn in self.journal.turns)
        print(f"{len(self.journal.turns)} turns, {max(lost):.2f} s lost at most, {waited:.1f} s waited")

    def _was_away(self, turn: Turn) -> bool:
        """Whether the database was down when the last text of a turn arrived."""
        at = turn.last_grown_at
        return any(down <= at <= back + OUTAGE_FELT for down, back in self._outages)


@pytest.mark.promise("P1", "P2", "P6", "P10", "P11", "P24")
def test_kills_at_random(bench: Bench, request: pytest.FixtureRequest) -> None:
    targets = TARGETS if settings.IS_SQLITE else {**TARGETS, "postgres": 4}
    left = effort(6, 500)
    while left:
        this = Round(bench)
        with this.load:
            for _ in range(min(left, ROUND)):
                this.more_is_said(this.random.randint(1, USERS))
                target = this.random.choices([*targets], [*targets.values()])[0]
                if target == "postgres":
                    this.crash(request.getfixturevalue("private_server"))
                else:
                    bench.wait_until_up(SERVERS)
                    bench.strike(target, gently=this.random.random() < 0.2)
                left -= 1
        this.check()


@pytest.mark.skipif(settings.IS_SQLITE, reason="SQLite has no server")
@pytest.mark.promise("P15")
def test_postgres_restarts_under_load(bench: Bench, private_server: PrivatePostgres) -> None:
    this = Round(bench)
    failed = 0
    with this.load:
        for _ in range(effort(2, 20)):
            this.more_is_said(3 * USERS)
            back = this.crash(private_server)
            folds = bench.ask("revisions")
            wait_for(lambda: bench.ask("revisions") > folds, "a fold", timeout=RESUMED_SECONDS)  # noqa: B023
            failed = max(failed, sum(sent > back for sent, _, _ in this.journal.refused))
    this.check()
    assert failed <= len(SERVERS) * settings.DATABASE_POOL_SIZE
