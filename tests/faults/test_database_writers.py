"""SQLite with many writers: they wait for each other, and no client sees "database is locked"."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings

from conversations.models import Message
from tests.faults.bench.two import Two
from tests.support.exhaustive import effort
from tests.support.factories import make_chat, make_user
from tests.support.processes import ROOT, Product

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PROCESSES = 16
CLIENTS = 2


@pytest.mark.promise("P17")
def test_sixteen_writers_and_two_servers_never_meet_a_lock(two: Two) -> None:
    if not settings.IS_SQLITE:
        pytest.skip("PostgreSQL has row locks, and no one writer")
    chat, transactions = make_chat(make_user("writers")), effort(15, 50)
    clients = [client for _ in range(CLIENTS // 2) for client in two.clients()]
    with _writers(two.product, str(chat.pk), transactions) as writing, ThreadPoolExecutor(CLIENTS) as pool:

        def talk(number: int) -> int:
            """Send messages until the writers are done. Each must be answered well."""
            asked, mine = 0, None
            while writing.poll() is None:
                mine = clients[number].ask("And now?", mine)["chat_id"]
                asked += 1
            return asked

        asked = sum(pool.map(talk, range(CLIENTS)))
        said, complained = writing.communicate(timeout=60)
    assert (writing.returncode, said, complained) == (0, "", "")
    assert Message.objects.filter(chat=chat).count() == 2 * PROCESSES * transactions
    assert asked


def _writers(product: Product, chat: str, transactions: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.bench.writers", chat, str(PROCESSES), str(transactions)],
        cwd=ROOT,
        env=product.environment({"LOG_LEVEL": "ERROR"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
