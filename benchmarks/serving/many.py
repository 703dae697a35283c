"""What one user or one app may do to a real server with limits, by many calls or by costly imports: its memory at the
peak above that before, and another user's calls meanwhile (P29, P30).

Limits are those of the settings' defaults; a call that is refused by one counts, too. Linux only.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from django.contrib.auth.models import User
from knox.models import AuthToken

from benchmarks.figures import Figure, Group
from benchmarks.serving import processes
from benchmarks.serving.big import CALM_SECONDS, MB, MEMORY_BAR, figures_of, measured, resident
from benchmarks.serving.callers import CHANGES, END_USERS, IMPORTS, MEMBERS, NEW_END_USERS, Calls
from conversations.accounts import api_tokens
from conversations.accounts.end_users import create_app
from conversations.accounts.models import Scope

DELTAS = "100"
"""How many deltas a reply has: five seconds of them."""
ONLY = "BENCH_ONLY"
"""The variable that names a case, or a part of its name, to be measured alone."""


def run(owner: User) -> Group:
    """Measure each case on its own."""
    app = create_app("benchmark-shop")
    issued = api_tokens.issue(app.user, None, "", [Scope.ACT_FOR_USERS])
    assert issued is not None
    other, *senders = (User.objects.create(username=f"benchmark-{name}") for name in ("beside", *"abcdefgh"))
    token, shop = str(AuthToken.objects.create(other)[1]), issued[1]
    tokens = iter([str(AuthToken.objects.create(user)[1]) for user in senders])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(processes.pacemaker("--deltas", DELTAS))
        server = stack.enter_context(processes.server(upstream, folder / "log", limits=True))
        of_app = Calls(server.port, shop)
        cases: dict[str, Callable[[], None]] = {
            f"{CHANGES} changes of {MEMBERS:,} members of metadata": Calls(server.port, next(tokens)).change,
            f"{NEW_END_USERS} new end users of an app": of_app.name_end_users,
            f"{END_USERS} end users of an app, a reply each": of_app.ask,
        }
        for name in IMPORTS:
            cases[name] = partial(Calls(server.port, next(tokens)).send_import, name)
        cases = {name: case for name, case in cases.items() if os.environ.get(ONLY, "") in name}
        Calls(server.port, str(AuthToken.objects.create(owner)[1])).warm_up()
        level = resident(server.pid, "VmRSS")
        calm = measured(server, level, token, lambda: time.sleep(CALM_SECONDS))
        note = f"at worst {calm.worst:.0f} ms"
        figures = [Figure("others' calls before, 95th percentile", calm.p95, "ms", note=note)]
        for name, case in cases.items():
            figures += figures_of(name, measured(server, level, token, partial(_apart, case)), calm)
            time.sleep(1)
        kept = (resident(server.pid, "VmRSS") - level) / MB
        figures.append(Figure("kept after all of them", kept, "MB", bar=MEMORY_BAR))
    return Group("Many calls, and costly imports", tuple(figures))


def _apart(call: Callable[[], None]) -> None:
    """Make calls in another process."""
    process = multiprocessing.get_context("spawn").Process(target=call)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"the calls ended with {process.exitcode}")
