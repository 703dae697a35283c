"""The soak test: many users for a long time, who leave, cancel, return and ask again, while processes are stopped.

`python -m tests.faults.bench.soak --minutes 20 --users 50` runs it on a private PostgreSQL. Server `one` and the
worker get SIGKILL and SIGTERM at random; server `two` is never stopped, and its memory must stay at the level after
the warm-up. Every chat has its canary; users also browse, and try to read other users' objects.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    django.setup()

from memory.policies import POLICIES
from tests.faults.bench.bench import SERVERS, WORKER, Bench, Load
from tests.faults.bench.canaries import PATTERN, Canaries, Watching
from tests.faults.bench.journal import Journal
from tests.faults.bench.people import PLAIN, How, Person
from tests.faults.bench.postgres import private_postgres
from tests.processes.prompts import codes
from tests.support.fakes.upstream import FakeUpstream

STEADY = SERVERS[1]
LONG_CHAT = 40
LOOK_SECONDS = 0.5
WARM_UP_SECONDS = 180
WINDOW_SECONDS = 60
FLAT = 0.1
"""The share by which memory may differ from that of the first window after the warm-up."""
REPEATED = 200
"""Number of turns that are requested again at the end."""
SETTLE_SECONDS = 600
HABITS = (
    (25, How(variant="slow")),
    (25, PLAIN),
    (10, How(leave=True)),
    (10, How(variant="slow", leave=True)),
    (10, How(stream=False)),
    (10, How(variant="slow", cancel=True)),
)
BLOWS = [(SERVERS[0], "SIGKILL"), (SERVERS[0], "SIGTERM"), (WORKER, "SIGKILL"), (WORKER, "SIGTERM")]
OWN = ("", "/messages", "/brief", "/revisions", "/context?message=And+then")


class Soaker(Person):
    """One user. Each chat has a random policy, and its own canary in everything said there."""

    def __init__(
        self, name: str, token: str, urls: Sequence[str], journal: Journal, canaries: Canaries
    ) -> None:
        super().__init__(name, token, urls, journal, roams=True, transport=Watching(name, canaries))
        self._canaries = canaries
        self._canary = canaries.new(name)

    def new_chat(self) -> None:
        super().new_chat()
        self._canary = self._canaries.new(self.name)

    def _new(self) -> dict[str, Any]:
        return {"policy": self.random.choice([*POLICIES])}

    def _question(self) -> str:
        return f"{super()._question()}, {self._canary}"


class Soak:
    """Users on a bench, who pause for up to `thinking` seconds before each action."""

    def __init__(self, bench: Bench, users: int, *, thinking: float, name: str = "soaker") -> None:
        self.bench, self.journal, self.canaries = bench, Journal(), Canaries()
        bench.fake.clear()
        bench.fake.behave("normal", lane="complete", tokens=60, pattern=PATTERN)
        urls = [bench.base(server) for server in SERVERS]
        names = [f"{name}{number}" for number in range(1, users + 1)]
        self.people = [
            Soaker(each, bench.ask("token", each), urls, self.journal, self.canaries) for each in names
        ]
        self.blows: Counter[str] = Counter()
        self.memory: list[tuple[float, float]] = []
        """Memory of the server that is never stopped: seconds from the start, MiB."""
        self._prompts: list[tuple[str, str]] = []
        self._random = random.Random(name)
        self._thinking = thinking
        self._steady = bench.slots[STEADY].child.process.pid

    def run(self, seconds: float, *, blow_every: float) -> None:
        """Run the users, and stop a process every `blow_every` seconds on average."""
        begun = time.monotonic()
        blow_at = begun + blow_every
        with Load([*self.people], self._live):
            while (now := time.monotonic()) < begun + seconds:
                time.sleep(LOOK_SECONDS)
                self._look(now - begun)
                if now >= blow_at:
                    self._strike()
                    blow_at = now + self._random.uniform(0, 2 * blow_every)

    def problems(self) -> list[str]:
        """Wait until all work is done, then return everything that is wrong."""
        self.bench.wait_until_up(SERVERS)
        people = {person.name: person for person in self.people}
        broken = [turn for turn in self.journal.turns if turn.waited]
        for turn in self._random.sample(broken, min(len(broken), REPEATED)):
            people[turn.user].repeat(turn)
        for person in self.people:
            person.close()
        self.bench.settle(sorted(people), timeout=SETTLE_SECONDS)
        self._look_into_prompts()
        self.canaries.stored(self.bench.ask("canaries", sorted(people)))
        found = self.bench.problems(self.journal, prompts=self._prompts)
        return [*self.canaries.problems, *found, *self._weighed()]

    @property
    def notes(self) -> list[str]:
        """Return what was done, for the table."""
        blows = ", ".join(f"{count} {blow}" for blow, count in sorted(self.blows.items()))
        seen = self.canaries
        return [
            f"{len(self.people)} users, {len(self.journal.turns):,} turns; {blows}",
            f"canaries sought in {seen.prompts:,} prompts of replies, {seen.summaries:,} of summaries, and "
            f"{seen.bytes / 1e6:.1f} MB of answers",
            self._memory_note(),
        ]

    def _live(self, person: Person) -> None:
        """Do one action of a user."""
        time.sleep(person.random.uniform(0, self._thinking))
        if len(person.said) >= LONG_CHAT:
            person.new_chat()
        weights, habits = zip(*HABITS, strict=True)
        how = person.random.choices(habits, weights)[0]
        act = person.random.random()
        if not person.said or act < 0.75:
            person.say(how)
        elif act < 0.85:
            person.again(person.said[-1], How(variant=how.variant))
        elif act < 0.95:
            self._expect(person, person.chat_id, 200)
        else:
            other = person.random.choice([one for one in self.people if one is not person])
            self._expect(person, other.chat_id, 404)

    def _expect(self, person: Person, chat_id: str, status: int) -> None:
        """Request a chat and all its messages, and check the status."""
        for path in OWN if chat_id else ():
            answer = person.call("GET", f"chats/{chat_id}{path}")
            if answer.status_code != status:
                self.canaries.problems.append(f"{answer.status_code} for {path or 'a chat'}, not {status}")

    def _strike(self) -> None:
        name, how = self._random.choice(BLOWS)
        if how == "SIGKILL":
            self.bench.strike(name)
        else:
            self.bench.retire(name)
        self.blows[f"{how} of {'the worker' if name == WORKER else 'a server'}"] += 1

    def _look(self, at: float) -> None:
        self._look_into_prompts()
        status = Path(f"/proc/{self._steady}/status").read_text()
        self.memory.append((at, int(status.partition("VmRSS:")[2].split()[0]) / 1024))

    def _look_into_prompts(self) -> None:
        """Search new requests to the upstream for canaries, and keep what the checks need."""
        for request in self.bench.fake.take_requests():
            self.canaries.asked(request)
            if request.lane == "stream":
                self._prompts.append((request.said[-1][1], " ".join(sorted(codes(request.text)))))

    def _windows(self) -> list[float]:
        """Memory in MiB, minute by minute, since the warm-up."""
        last = int((self.memory[-1][0] - WARM_UP_SECONDS) // WINDOW_SECONDS) if self.memory else 0
        edges = [WARM_UP_SECONDS + number * WINDOW_SECONDS for number in range(last + 1)]
        return [
            median(mib for at, mib in self.memory if edge <= at < edge + WINDOW_SECONDS)
            for edge in edges[:last]
        ]

    def _weighed(self) -> list[str]:
        if self.bench.slots[STEADY].child.process.pid != self._steady:
            return ["the server that nobody stops was started anew"]
        windows = self._windows()
        grown = [mib for mib in windows if abs(mib / windows[0] - 1) > FLAT]
        return [f"memory went from {windows[0]:.0f} MiB to {grown[-1]:.0f}"] if grown else []

    def _memory_note(self) -> str:
        windows = self._windows() or [mib for _, mib in self.memory[:1] + self.memory[-1:]]
        span = f"{min(windows):.0f}–{max(windows):.0f} MiB"
        since = f", minute {WARM_UP_SECONDS // 60} to the end" if self._windows() else ""
        return f"memory of the server that ran throughout {span}{since}"


def main() -> int:
    """Run the soak test, and print what was wrong."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--thinking", type=float, default=4, metavar="SECONDS")
    parser.add_argument("--blow-every", type=float, default=20, metavar="SECONDS")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, private_postgres() as server, FakeUpstream() as fake:
        bench = Bench(Path(folder), server.url, fake)
        with bench:
            bench.manage("migrate")
            bench.begin()
            soak = Soak(bench, arguments.users, thinking=arguments.thinking)
            soak.run(60 * arguments.minutes, blow_every=arguments.blow_every)
            problems = soak.problems()
    print("\n".join([*soak.notes, *problems, f"{len(problems)} problems"]))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
