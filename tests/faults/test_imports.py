"""Imports that are killed in the middle go on: no chat is there twice, none in part. Large ones need little memory."""

import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from django.contrib.auth.models import User

from conversations.models import Chat, Message
from tests.support.exports import chatgpt, large, node
from tests.support.processes import ROOT, Product
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

CHATS, TURNS = 100, 30
KILLS = 3


@pytest.fixture
def export(tmp_path: Path) -> Path:
    nodes = [node("n0", "root", "user", "Q")]
    nodes += [node(f"n{at}", f"n{at - 1}", "user", f"The heron waits. {'word ' * 200}") for at in range(1, TURNS)]
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([chatgpt(f"c{at}", *nodes) for at in range(CHATS)]))
    return file


def count_chats() -> int:
    return Chat.objects.count()


def check_whole_and_once() -> None:
    assert Counter(chat.metadata["source_id"] for chat in Chat.objects.all()).most_common(1)[0][1] == 1
    assert {chat.last_seq for chat in Chat.objects.all()} == {TURNS}
    assert Message.objects.count() == count_chats() * TURNS


@pytest.mark.promise("P33")
def test_a_command_that_is_killed_goes_on(offline_product: Product, export: Path) -> None:
    User.objects.create_user("alice")
    for _ in range(KILLS):
        before = count_chats()
        child = offline_product.command("import_chat", str(export), "--user", "alice")
        wait_for(lambda: count_chats() > before + 5, "chats")  # noqa: B023
        offline_product.kill(child)
        check_whole_and_once()
    told = offline_product.manage("import_chat", str(export), "--user", "alice")
    assert f"{count_chats()} chats" not in told, "some were there"
    assert count_chats() == CHATS
    check_whole_and_once()


@pytest.mark.promise("P33")
def test_a_request_whose_server_is_killed_goes_on(offline_product: Product, export: Path) -> None:
    body = export.read_bytes()
    for _ in range(KILLS):
        before = count_chats()
        server = offline_product.server()
        client = offline_product.client()
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(client.post, "chats/import", content=body)
            wait_for(lambda: count_chats() > before + 5, "chats")  # noqa: B023
            offline_product.kill(server)
            assert isinstance(sent.exception(), httpx.TransportError)
        check_whole_and_once()
    offline_product.server()
    client = offline_product.client()
    while not (told := client.post("chats/import", content=body).json())["done"]:
        assert told["chats"]
    assert count_chats() == CHATS
    check_whole_and_once()


PEAK = """
import pathlib, re, sys
from django.core.management import call_command
import django
django.setup()
call_command("import_chat", sys.argv[1], user="alice", dry_run=True)
print(int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) // 1024)
"""
LARGE_MB = 100


def test_memory_does_not_grow_with_the_file(offline_product: Product, tmp_path: Path) -> None:
    User.objects.create_user("alice")
    peaks = []
    for size in (1, LARGE_MB):
        file = tmp_path / f"{size}.json"
        with file.open("w") as out:
            out.writelines(large(size * 1_000_000))
        env = {"DJANGO_SETTINGS_MODULE": "chatmemory.settings", **offline_product.environment({})}
        done = subprocess.run(
            [sys.executable, "-c", PEAK, str(file)], cwd=ROOT, env=env, capture_output=True, text=True
        )
        peaks.append(int(done.stdout.split()[-1]))
    print(f"{peaks} MB")
    assert peaks[1] < peaks[0] + 20
