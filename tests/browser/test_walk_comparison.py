"""A comparison in which one policy fails: the other's result is kept, and *Continue* runs only what is missing."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.browser.support.first_look import Person
from tests.support.process_tree import descendants_of

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SECONDS = 120_000


def kill_player_of(policy: str, keeper: Person) -> None:
    """Kill the process that replays the chat under `policy`, as soon as there is one."""
    deadline = time.monotonic() + SECONDS / 1000
    while time.monotonic() < deadline:
        for pid in descendants_of(keeper.look.process.pid):
            with suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"memory.lab.child" in command and policy.encode() in command:
                    os.kill(pid, signal.SIGKILL)
                    return
        time.sleep(0.02)
    raise AssertionError(f"nobody played {policy}")


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="finds the process in /proc")
def test_what_is_done_is_kept_and_the_rest_is_continued(keeper: Person) -> None:
    page = keeper.page
    keeper.go(f"/admin/conversations/chat/{keeper.look.chat_id}/change/")
    page.locator(".cm-menu > summary").click()
    page.get_by_role("link", name="Compare policies").click()
    assert page.locator("input[name=policies]:checked").count() == 2
    assert keeper.axe() == []
    with page.expect_navigation():
        page.get_by_role("button", name="Compare").click()
    kill_player_of("hierarchical", keeper)

    told = page.get_by_role("alert")
    told.wait_for(timeout=SECONDS)
    assert "hierarchical could not be run" in told.inner_text()
    assert "Results of the other policies are kept." in told.inner_text()
    glance = page.locator("table", has=page.locator("caption", has_text="At a glance"))
    before = glance.get_by_role("row", name="chunked").inner_text()
    assert glance.get_by_role("row", name="hierarchical").count() == 0
    assert keeper.axe() == []

    with page.expect_navigation():
        page.get_by_role("button", name="Continue").click()
    glance.get_by_role("row", name="hierarchical").wait_for(timeout=SECONDS)
    assert told.count() == 0
    assert page.get_by_role("button", name="Continue").count() == 0
    assert glance.get_by_role("row", name="chunked").inner_text() == before, "it is not played again"
    assert page.locator(".cm-verdict").inner_text()
    assert keeper.axe() == []
    assert keeper.troubles() == []
