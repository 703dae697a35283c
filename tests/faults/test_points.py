"""Every named fault point fails once, by kill, by exception and by stall; then the n-th point reached, of any name.

One user does one of everything. Wherever it is interrupted, the work is finished, what was acknowledged is stored,
nothing is there twice, and the invariants hold. A server and the worker fail in the same case.
"""

from functools import partial
from itertools import count
from pathlib import Path

import pytest

from tests.faults.bench.bench import SERVERS, WORKER, Bench
from tests.faults.bench.journal import Journal
from tests.faults.bench.people import How, Person
from tests.support.exhaustive import effort
from tests.support.fault_points import POINTS
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

WAYS = ("kill", "raise", "stall=4")
"""The stall is longer than the leases of the bench."""
AT_SERVER = [name for name in POINTS if name.startswith(("begin", "generate", "check", "finish", "cancel", "queue"))]
AT_WORKER = [name for name in POINTS if name not in AT_SERVER and not name.startswith("delete")]
"""Deletion has a test of its own: `test_retention`."""
CASES = [(at, server, AT_WORKER[at % len(AT_WORKER)]) for at, server in enumerate(AT_SERVER)]
BRIEF = How(variant="brief")
PASSES = 4
"""Tries of a case. A reply may be over before its first checkpoint is due."""

_names = count(1)


def everything(bench: Bench, person: Person) -> list[str]:
    """Do one of everything. Return the chats that were imported."""
    old = [[f"An old turn that notes {person.code(n)}, {'and goes on ' * 8}", "Noted."] for n in range(900, 920)]
    imported = [bench.ask("import", person.name, old)]
    person.say(BRIEF)
    bench.ask("enqueue_sweep")
    person.say(How(leave=True, variant="brief"))
    rebuilt = person.call("POST", f"chats/{imported[0]}/resummarize", json={"mode": "rebuild"})
    assert rebuilt.status_code == 202
    person.say(How(stream=False, variant="brief"))
    cancelled = person.say(How(cancel=True, variant="endless"))
    person.again(cancelled, BRIEF)
    for _ in range(5):
        person.say(BRIEF)
    return imported


def suffer(
    bench: Bench, at_server: tuple[str, int], at_worker: tuple[str, int], what: str, passes: int = 1
) -> list[Path]:
    """Run one case: do everything while both fail, and check the result. Return the files that faults left.

    Everything is repeated up to `passes` times, until both have failed, after a reply that outlasts its checkpoints.
    """
    bench.fake.clear()
    bench.wait_until_up(SERVERS)
    journal = Journal()
    person = bench.person(f"p{next(_names)}", journal)
    struck = [bench.order(SERVERS[0], *at_server, what), bench.order(WORKER, *at_worker, what)]
    imported = everything(bench, person)
    while passes > 1 and not _all_there(struck):
        person.say(How(variant="slow"))
        imported += everything(bench, person)
        passes -= 1
    bench.check(journal, imported=imported)
    person.close()
    return struck


@pytest.mark.promise("P1", "P2", "P6", "P10", "P11")
@pytest.mark.parametrize(("at", "server", "worker"), CASES)
def test_every_point(bench: Bench, at: int, server: str, worker: str) -> None:
    for more in range(effort(1, len(WAYS))):
        struck = suffer(bench, (server, 1), (worker, 1), WAYS[(at + more) % len(WAYS)], PASSES)
        wait_for(partial(_all_there, struck), "both faults")


@pytest.mark.promise("P1", "P2", "P6", "P10", "P11")
@pytest.mark.parametrize("what", WAYS[:2])
def test_the_nth_point(bench: Bench, what: str) -> None:
    for n in count(1, effort(23, 1)):
        struck = suffer(bench, ("any", n), ("any", n), what)
        if not any(path.exists() for path in struck):
            break


def _all_there(paths: list[Path]) -> bool:
    return all(path.exists() for path in paths)
