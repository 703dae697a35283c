"""`replay`, as an operator calls it: what it prints and writes, what it refuses, and that it leaves nothing behind."""

import json
import signal
import subprocess
import sys
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

import conversations
from chatmemory.database.ids import new_id
from conversations.interchange.rows import export_chat
from conversations.models import Chat
from memory.lab import runner
from memory.lab.conversation import Conversation, Exchange
from memory.lab.runner import LabError
from memory.policies import POLICIES
from tests.support import commands
from tests.support.factories import add_turn, make_chat
from tests.support.fakes.upstream import FakeUpstream
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = Path(conversations.__file__).parent / "samples" / "trip.json"
replay, refusal = partial(commands.run, "replay"), partial(commands.refusal, "replay")
HELLO = {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]}


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, so that a test can check what is left there."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


# --- what it does


def test_a_focus_and_the_operators_instructions_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeUpstream() as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
        monkeypatch.setenv("MEMORY_SUMMARIZER_INSTRUCTIONS", "Keep the prices.")
        replay(SAMPLE, "--policy", "chunked", "--option", "focus=Opening hours", "--option", "threshold=500")
        told = {request.instructions for request in fake.calls("complete")}
    assert told
    assert all(one.startswith("Keep the prices.") and "\nOpening hours\n" in one for one in told)


@pytest.mark.processes
def test_replay_runs_every_policy_as_text_and_json(tmp_path: Path, scratch: Path) -> None:
    told = replay(SAMPLE, "--json", tmp_path / "out.json", "--plot", tmp_path / "out.svg")
    assert all(f" {policy} " in told for policy in POLICIES)
    found = json.loads((tmp_path / "out.json").read_text())
    assert [one["policy"] for one in found["policies"]] == list(POLICIES)
    for one in found["policies"]:
        assert one["turns"] == found["talks"][0]["turns"] > 40
        assert (one["over_budget"], one["coverage"]) == (0, 1)
        assert one["memory_max"] > 500
    assert (tmp_path / "out.svg").stat().st_size > 10_000
    assert list(scratch.iterdir()) == []


@pytest.mark.processes
@pytest.mark.django_db
def test_a_stored_chat_is_played_as_its_export_is_and_no_limit_counts(
    tmp_path: Path, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turns have no owner; a user's limits apply only to requests over the API."""
    for name in ("LIMIT_REQUESTS_PER_MINUTE", "LIMIT_TOKENS_PER_DAY", "LIMIT_STREAMS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("RATE_LIMITS", "on")
    chat = make_chat(title="Opening hours", instructions="Be brief.")
    for number in range(4):
        add_turn(chat, f"When do you open on day {number}?", f"At {number} o'clock.")
    add_turn(chat, "And on Sunday?", None)
    exported = "".join(export_chat(chat))
    for name, chosen in ("chat", ["--chat", chat.pk]), ("file", [write(exported.encode())]):
        replay(*chosen, "--policy", "chunked", "--json", tmp_path / name)
    assert (tmp_path / "chat").read_text() == (tmp_path / "file").read_text()
    assert json.loads((tmp_path / "chat").read_text())["talks"][0]["turns"] == 4
    assert Chat.objects.count() == 1


@pytest.mark.processes
def test_options_of_the_chats_go_to_the_policies_that_have_them(tmp_path: Path) -> None:
    options = ["--option", "every_turns=9", "--option", "budget=700", "--option", "turns_as=text"]
    policies = ["--policy", "interval", "card"]
    replay(SAMPLE, *policies, *options, "--json", tmp_path / "out.json")
    interval, card = json.loads((tmp_path / "out.json").read_text())["policies"]
    budgets = {turn["budget"] for one in (interval, card) for run in one["runs"] for turn in run["turns"]}
    assert budgets == {700}
    replay(SAMPLE, "--policy", "interval", "--option", "budget=700", "--json", tmp_path / "usual.json")
    (usual,) = json.loads((tmp_path / "usual.json").read_text())["policies"]
    assert 0 < interval["calls"] < usual["calls"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["every_turns"], "must be of the form NAME=VALUE"),
        (["every_turns=0"], "every_turns must be a whole number from 1 to 100."),
        (["turns_as=verse"], "turns_as must be one of messages, text."),
        (["k_raw_turns=2"], "The policy interval has no option 'k_raw_turns'; it has: "),
    ],
)
def test_an_option_that_does_not_fit(write: Any, options: list[str], told: str) -> None:
    given = [part for one in options for part in ("--option", one)]
    assert told in refusal(write(HELLO), "--policy", "interval", "card", *given)


@pytest.mark.processes
def test_without_the_plot_library_the_table_still_prints(
    tmp_path: Path, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    out = StringIO()
    arguments = [str(write(HELLO)), "--policy", "chunked", "--plot", str(tmp_path / "a.png")]
    with pytest.raises(CommandError, match="matplotlib is not installed"):
        call_command("replay", *arguments, stdout=out)
    assert "everything" in out.getvalue()


@pytest.mark.processes
def test_a_policy_that_cannot_be_run_says_why(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_K_RAW_TURNS", "many")
    with pytest.raises(LabError, match=r"'chunked' could not be run: .*MEMORY_K_RAW_TURNS is 'many'"):
        runner.run([Conversation("", "", (Exchange("u", "a"),))], ["chunked"])
    assert list(scratch.iterdir()) == []


@pytest.mark.processes
def test_ctrl_c_leaves_nothing(write: Any, scratch: Path) -> None:
    path = write({"messages": HELLO["messages"] * 3000})
    command = [sys.executable, "manage.py", "replay", str(path), "--policy", "chunked"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: list(scratch.glob("*/chunked.sqlite3")))
        running = children_of(process.pid)
        assert running
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, out, err.decode().strip()) == (130, b"", "Stopped.")
    assert list(scratch.iterdir()) == []
    gone_or_zombies = [Path(f"/proc/{pid}/cmdline") for pid in running]
    assert not any(one.exists() and one.read_bytes() for one in gone_or_zombies)


def children_of(pid: int) -> list[int]:
    command = ["ps", "-o", "pid=", "--ppid", str(pid)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(line) for line in told.stdout.split()]


# --- what it refuses


@pytest.mark.django_db
def test_files_and_chats_with_nothing_to_replay(write: Any) -> None:
    missing = new_id()
    assert "the file is empty" in refusal(write(b""))
    assert "nothing to replay" in refusal(write({"messages": [{"role": "user", "content": "Anyone?"}]}))
    assert refusal("--chat", missing) == f"There is no chat {missing}."
    assert "nothing to replay" in refusal("--chat", make_chat().pk)
    assert "nothing to replay" in refusal()


def test_unknown_policies() -> None:
    assert "invalid choice: 'magic'" in refusal(SAMPLE, "--policy", "chunked", "magic")


def test_outputs_that_cannot_be_written(tmp_path: Path) -> None:
    assert "ends in .png or .svg" in refusal(SAMPLE, "--plot", tmp_path / "a")
    assert "ends in .png or .svg" in refusal(SAMPLE, "--plot", tmp_path / "a.pdf")
    assert "there is no folder" in refusal(SAMPLE, "--plot", tmp_path / "nowhere" / "a.png")
    assert "there is no folder" in refusal(SAMPLE, "--json", tmp_path / "nowhere" / "a.json")
