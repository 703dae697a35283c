"""The metrics of a server with two processes and of a worker, against what their clients counted."""

import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from conversations.models import ActiveReply
from tests.processes.talking import say
from tests.support.fakes.upstream import FakeUpstream
from tests.support.metrics import TOKEN, Scrape
from tests.support.ports import free_port
from tests.support.processes import Product
from tests.support.supervised import due_chat, is_folded
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.exhaustive]

CLIENTS, TURNS, ENDS_WITHIN = 8, 5, 60.0


@pytest.fixture
def two(product: Product, fake: FakeUpstream, tmp_path: Path) -> Product:
    """The product with a server of two processes, which keep their values below `tmp_path`."""
    (tmp_path / f"chatmemory-metrics-{10**20}-x").mkdir()  # made by another program
    product.env |= {"METRICS_TOKEN": TOKEN, "TMPDIR": str(tmp_path), "REPLY_LEASE_SECONDS": "2"}
    product.server("--workers", "2")
    return product


def processes_of(folder: Path) -> list[int]:
    """The processes that have counted open streams."""
    return sorted(int(one.stem.split("_")[-1]) for one in folder.glob("*/gauge_livesum_*.db"))


def test_metrics_of_two_processes_sum_to_client_counts(two: Product, tmp_path: Path) -> None:
    def talk(number: int) -> tuple[int, int]:
        client = two.client(f"user{number}")
        finals = [say(client, f"Hello {turn}")[-1].data["message"] for turn in range(TURNS)]
        assert client.get("chats/00000000-0000-0000-0000-000000000000").status_code == 404
        return len(finals), sum(final["usage"]["output_tokens"] for final in finals)

    with ThreadPoolExecutor(CLIENTS) as pool:
        told = list(pool.map(talk, range(CLIENTS)))
    replies, tokens = sum(one for one, _ in told), sum(one for _, one in told)
    assert len(processes_of(tmp_path)) == 2, "both were busy"
    wait_for(lambda: Scrape.of(two.url)("chatmemory_open_streams") == 0, "the end of all streams")
    for _ in range(6):  # whichever process answers
        found = Scrape.of(two.url)
        assert found("chatmemory_replies_total", status="complete") == replies == CLIENTS * TURNS
        assert found("chatmemory_tokens_total", type="output") == tokens
        assert found("chatmemory_prompts_total", missing="nothing") == replies
        for name in ("overhead", "time_to_first_token"):
            assert found(f"chatmemory_{name}_seconds_count") == replies, name
            assert found(f"chatmemory_{name}_seconds_bucket", le="+Inf") == replies, name
        said = {"method": "POST", "route": "v1/message/first", "status": "2xx"}
        assert found("chatmemory_request_seconds_count", **said) == replies
        assert found("chatmemory_request_seconds_count", route="v1/chats/<uuid:chat_id>") == CLIENTS
        assert found("chatmemory_upstream_errors_total") == 0
    (folder,) = tmp_path.glob("chatmemory-metrics-*")
    shutil.rmtree(folder)  # as a cleaner of temporary files may
    assert talk(CLIENTS)[0] == TURNS


@pytest.mark.nightly
def test_a_killed_process_leaves_its_counts_and_not_its_streams(
    two: Product, fake: FakeUpstream, tmp_path: Path
) -> None:
    fake.behave("normal", hold_after=1)
    fake.hold()
    reading = []  # a generator that is gone closes its connection
    with ExitStack() as streams:
        for number in range(CLIENTS):
            client = two.client(f"user{number}")
            said = client.stream("POST", "message/first", json={"message": "Hello"})
            reading.append(streams.enter_context(said))
            assert next(event for event in reading[-1] if event.name == "content.delta")
        wait_for(lambda: Scrape.of(two.url)("chatmemory_open_streams") == CLIENTS, "open streams")
        first, second = processes_of(tmp_path)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: Scrape.of(two.url)("chatmemory_open_streams") < CLIENTS, "a scrape without it")
        found = Scrape.of(two.url)
        assert 0 < found("chatmemory_open_streams") < CLIENTS
        assert found("chatmemory_time_to_first_token_seconds_count") == CLIENTS
        assert second in processes_of(tmp_path)
    fake.release()
    wait_for(lambda: not ActiveReply.objects.exists(), "the end of all replies", timeout=ENDS_WITHIN)
    found = Scrape.of(two.url)
    assert found("chatmemory_replies_total") == CLIENTS
    assert found("chatmemory_open_streams") == 0
    (folder,) = tmp_path.glob("chatmemory-metrics-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    two.stop()
    two.server("--workers", "2")
    (again,) = tmp_path.glob("chatmemory-metrics-*")
    assert again != folder, "the folder of a supervisor that is gone is removed"
    assert Scrape.of(two.url)("chatmemory_replies_total") == 0


def test_worker_serves_its_metrics(product: Product) -> None:
    port = str(free_port())
    worker = product.worker(METRICS_PORT=port)
    chat_id = due_chat()
    wait_for(lambda: is_folded(chat_id), "a fold", timeout=ENDS_WITHIN)
    found = Scrape.of(f"http://127.0.0.1:{port}")
    assert found("chatmemory_folds_total") >= found("chatmemory_retained_share_count") >= 1
    assert found("chatmemory_fold_seconds_count") == found("chatmemory_folds_total")
    assert 'chatmemory_webhooks_total{result="given_up"} 0.0' in found.text
    assert httpx.get(f"http://127.0.0.1:{port}/").status_code == 200
    other = product.worker(METRICS_PORT=port)
    wait_for(lambda: other.exit_code is not None, "the end of the second one")
    assert f"METRICS_PORT {port} cannot be used (Address already in use)." in other.log.read_text()
    assert worker.exit_code is None
