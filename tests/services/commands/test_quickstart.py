"""`quickstart`: the first start on an empty machine, and later ones."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.urls import resolve
from knox.models import AuthToken

from conversations.models import Chat
from memory.folding.request import request_resummarize
from memory.management.commands import quickstart
from memory.management.commands.quickstart import BY_HAND, SAMPLE
from memory.models import ConversationBrief
from memory.revisions.diff import difference
from tests.support.commands import refusal
from tests.support.exhaustive import first_of
from tests.support.factories import add_turn, brief_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import revisions, run_fold
from tests.support.live_server import joined, parse_events
from tests.support.ports import free_port
from tests.support.waiting import wait_for

# What is prepared


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Path:
    monkeypatch.setattr(quickstart, "folder", lambda: tmp_path)
    return tmp_path


def test_quickstart_creates_users_and_a_sample_chat_with_summaries_by_hand(folder: Path) -> None:
    made = quickstart.prepare()
    admin = User.objects.get(username="admin")
    assert admin.is_superuser
    assert admin.check_password(made.admin_password)
    chat = Chat.objects.get(pk=made.chat_id)
    assert chat.owner.username == "demo"
    assert not brief_of(chat).due
    written = json.loads(SAMPLE.read_text(encoding="utf-8"))["summaries"]
    found = revisions(chat)
    assert [(one.model, one.through_seq) for one in found] == [(BY_HAND, one["through"]) for one in written]
    assert [one.global_summary.count("\n- ") + 1 for one in found] == [len(one["points"]) for one in written]
    assert not any(one.degraded or one.is_wanting for one in found)
    assert "13:30" in difference(found[1], found[0]).lost


def test_the_next_fold_of_the_sample_visibly_adds_to_it(folder: Path) -> None:
    chat = Chat.objects.get(pk=quickstart.prepare().chat_id)
    add_turn(chat, "When and where is our concert?", "On Friday, in the Knights' Hall.")
    request_resummarize(chat, "update")
    assert run_fold(chat).outcome == "done"
    *_, before, after = revisions(chat)
    assert (after.from_seq, after.through_seq, after.model) == (91, 92, "offline")
    added = [piece.text for piece in difference(after, before).pieces if piece.op == "insert"]
    assert "peg of the cello" in "".join(added)


def test_quickstart_again_reuses_its_private_file(folder: Path) -> None:
    assert quickstart.prepare() == quickstart.prepare()
    assert (User.objects.count(), Chat.objects.count(), AuthToken.objects.count()) == (2, 1, 1)
    file = folder / "quickstart.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in folder.iterdir()) == ["quickstart.json"]


def test_a_staff_user_that_is_not_its_own_stays_as_it_is(folder: Path) -> None:
    User.objects.create_superuser("admin", password="somebody's own")
    assert quickstart.prepare().admin_password == ""
    assert User.objects.get(username="admin").check_password("somebody's own")


@pytest.mark.parametrize(
    "content", first_of(["", "{", "[5]", '{"demo_token": 5}', '{"demo_token": "of another database"}'])
)
def test_a_file_that_is_of_no_use_is_replaced(content: str, folder: Path) -> None:
    (folder / "quickstart.json").write_text(content)
    made = quickstart.prepare()
    assert json.loads((folder / "quickstart.json").read_text())["demo_token"] == made.demo_token
    assert quickstart.prepare() == made


def test_with_an_upstream_the_sample_is_left_to_the_worker(folder: Path, settings: pytest.FixtureRequest) -> None:
    settings.OPENAI_BASE_URL = "http://127.0.0.1:9"  # type: ignore[attr-defined]  # pytest-django's settings
    made = quickstart.prepare()
    assert ConversationBrief.objects.get(chat_id=made.chat_id).due


def test_a_port_that_is_taken_or_does_not_exist_is_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert re.search(rf"Port {port} cannot be used .* --port", refusal("quickstart", port=port))
    assert "no port 70000" in refusal("quickstart", port=70000)


# The whole command, as real processes


class Run:
    """`manage.py quickstart` with a database of its own."""

    def __init__(self, home: Path, **env: str) -> None:
        self.home = home
        self.database = f"sqlite:///{home / 'first.sqlite3'}"
        self.port = free_port()
        outside = os.environ.items()
        kept = {name: value for name, value in outside if not name.startswith(("OPENAI_", "DATABASE_"))}
        manage = [sys.executable, str(settings.BASE_DIR / "manage.py")]
        self.process: subprocess.Popen[str] = subprocess.Popen(
            [*manage, "quickstart", "--port", str(self.port)],
            env={**kept, "DATABASE_URL": self.database, **env},
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.screen = self._until("Press Ctrl-C")

    def _until(self, last: str) -> str:
        assert self.process.stdout is not None
        shown = ""
        for line in self.process.stdout:
            shown = f"{shown}{line}"
            if last in line:
                return shown
        raise AssertionError(f"quickstart ended: {shown}")

    def pids(self) -> list[int]:
        """The ids of the processes with its database in their environment."""
        return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and self._is_ours(path)]

    def _is_ours(self, path: Path) -> bool:
        try:
            return self.database.encode() in (path / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return False

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal and wait for the end; return the exit code and the output from then on."""
        self.process.send_signal(number)
        said, _ = self.process.communicate(timeout=30)
        return self.process.returncode, said


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    if not Path("/proc/self/environ").exists():
        pytest.skip("tells its processes by /proc")
    started: list[Run] = []

    def start(**env: str) -> Run:
        started.append(Run(tmp_path, **env))
        return started[-1]

    yield start
    for one in started:
        for pid in one.pids():
            os.kill(pid, signal.SIGKILL)
        one.process.communicate()


TOKEN = re.compile(r"Bearer (\w+)")


def pasted(screen: str) -> str:
    """Run the printed curl command in a shell, unchanged, and return its output."""
    found = re.search(r"^curl .*?'$(?!\s*-)", screen, re.DOTALL | re.MULTILINE)
    assert found is not None
    done = subprocess.run(["sh", "-c", found[0]], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout


@pytest.mark.slow
@pytest.mark.processes
def test_the_printed_request_works_and_ctrl_c_ends_everything(run: Callable[..., Run], tmp_path: Path) -> None:
    first = run()
    events = list(parse_events(iter([*pasted(first.screen).splitlines(), ""])))
    assert (events[0].name, events[-1].name) == ("message.created", "message.completed")
    assert "Friday 10 July, 19:00" in joined(events)
    assert f"/playground/#token={TOKEN.findall(first.screen)[0]}&chat=" in first.screen
    sample = re.search(r"^  Sample chat +http://[^/]+(/\S+)$", first.screen, re.MULTILINE)
    assert sample is not None, first.screen
    assert resolve(sample[1]).url_name == "conversations_chat_change"
    assert httpx.get(f"http://127.0.0.1:{first.port}/playground/", trust_env=False).status_code == 200
    assert len(first.pids()) == 1, "server and worker"

    code, said = first.end(signal.SIGINT)
    assert code == 0
    assert said.strip() == "Ended."
    assert wait_for(lambda: not first.pids())
    assert (tmp_path / "log" / "server.log").exists()

    again = run()
    secrets = re.compile(r"password (\S+)|Bearer (\w+)|chat/([\w-]+)/change")
    assert secrets.findall(again.screen) == secrets.findall(first.screen)
    assert again.end(signal.SIGTERM)[0] == 0
    assert wait_for(lambda: not again.pids())


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("mode", ["staff", "off"])
def test_quickstart_playground_follows_environment(
    mode: str, run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAYGROUND", mode)
    one = run()
    assert "/playground/" not in one.screen
    answer = httpx.get(f"http://127.0.0.1:{one.port}/playground/", trust_env=False)
    assert answer.status_code == {"staff": 302, "off": 404}[mode]


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_while_a_fold_runs(run: Callable[..., Run], number: signal.Signals) -> None:
    with FakeUpstream() as fake:
        fake.hold("complete")
        one = run(OPENAI_BASE_URL=fake.base_url, OPENAI_API_KEY="sk-test", WORKER_STOP_SECONDS="0.5")
        fake.wait_until(lambda it: it.held("complete") > 0)
        code, said = one.end(number)
    assert (code, said.strip()) == (0, "Ended.")
    assert wait_for(lambda: not one.pids())


@pytest.mark.slow
@pytest.mark.processes
def test_a_second_signal_does_not_wait_for_the_fold(run: Callable[..., Run]) -> None:
    with FakeUpstream() as fake:
        fake.hold("complete")
        one = run(OPENAI_BASE_URL=fake.base_url, OPENAI_API_KEY="sk-test", WORKER_STOP_SECONDS="60")
        fake.wait_until(lambda it: it.held("complete") > 0)
        one.process.send_signal(signal.SIGINT)
        log = one.home / "log" / "server.log"
        wait_for(lambda: "Finished server process" in log.read_text())
        assert one.end(signal.SIGINT)[0] == 0


WITHOUT_WORKER = """
import django
django.setup()
from chatmemory.__main__ import main
from memory.worker.loop import TaskRunner
TaskRunner.run = lambda self, stopped: 1 / 0
main()
"""


@pytest.mark.slow
@pytest.mark.processes
def test_without_its_worker_it_ends(tmp_path: Path) -> None:
    database = {"DATABASE_URL": f"sqlite:///{tmp_path}/first.sqlite3"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_WORKER, "quickstart", "--port", str(free_port())],
        cwd=settings.BASE_DIR,
        env={**os.environ, **database, "DJANGO_SETTINGS_MODULE": "chatmemory.settings"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "The worker has ended." in done.stderr
    assert "ZeroDivisionError" in (tmp_path / "log" / "server.log").read_text()
