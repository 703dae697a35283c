"""Every metric of a process, declared once; whoever causes one imports it from here. `/metrics` shows them. Pure.

Labels have few values, known beforehand: never a chat, a user or a text. The processes of `uvicorn --workers` keep
their values in files of one folder, so that each of them answers for all (prometheus_client's multiprocess mode). Only
their supervisor's children know the folder's name. A process of its own keeps them in memory.
"""

import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""What prometheus_client looks for when it is imported."""
_NAME = "chatmemory-metrics-"


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


def _share_values() -> None:
    """Choose the folder that a supervisor's processes share, and remove those of supervisors that are gone."""
    supervisor = multiprocessing.parent_process()
    if supervisor is None or supervisor.pid is None or FOLDER in os.environ:
        return
    secret = sha256(multiprocessing.current_process().authkey).hexdigest()[:16]
    folder = Path(tempfile.gettempdir(), f"{_NAME}{supervisor.pid}-{secret}")
    folder.mkdir(mode=0o700, exist_ok=True)
    os.environ[FOLDER] = str(folder)
    for other in folder.parent.glob(f"{_NAME}*"):
        pid = other.name.removeprefix(_NAME).partition("-")[0]
        if pid.isdecimal() and not _lives(int(pid)):
            shutil.rmtree(other, ignore_errors=True)


_share_values()

from prometheus_client import (  # noqa: E402  # it reads `FOLDER` as it is imported
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    Summary,
    disable_created_metrics,
    generate_latest,
    start_http_server,
)
from prometheus_client.core import GaugeMetricFamily  # noqa: E402
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead  # noqa: E402
from prometheus_client.registry import Collector  # noqa: E402

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
serve = start_http_server
"""Answer on a port, in threads. Raises `OSError`."""
disable_created_metrics()

REQUESTS = Summary(
    "chatmemory_request_seconds",
    "Requests, and the seconds until the answer began, by method, route and class of status.",
    ["method", "route", "status"],
)
OPEN_STREAMS = Gauge(
    "chatmemory_open_streams", "Streams of replies that clients are reading.", multiprocess_mode="livesum"
)
ACTIVE_REPLIES = Gauge(
    "chatmemory_active_replies", "Replies that are being written here.", multiprocess_mode="livesum"
)
OVERHEAD = Histogram(
    "chatmemory_overhead_seconds",
    "From a request's arrival until the model is asked: our own share of the time to the first token.",
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)
FIRST_TOKEN = Histogram(
    "chatmemory_time_to_first_token_seconds",
    "From a request's arrival until the first text of its reply, by the variant that answers.",
    ["variant"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32),
)
REPLY = Histogram(
    "chatmemory_reply_seconds",
    "From a request's arrival until its reply is stored, by the variant that answers.",
    ["variant"],
    buckets=(0.5, 1, 2, 5, 10, 20, 40, 80, 160, 320),
)
REPLIES = Counter(
    "chatmemory_replies_total", "Replies that ended, by status and variant.", ["status", "variant"]
)
TOKENS = Counter(
    "chatmemory_tokens_total", "Tokens of replies as the upstream counted them, by type.", ["type"]
)
UPSTREAM_ERRORS = Counter(
    "chatmemory_upstream_errors_total",
    "Calls of a model without a whole answer, by kind and by what was asked for: reply, summary or embeddings.",
    ["kind", "call"],
)
PROMPTS = Counter(
    "chatmemory_prompts_total",
    "Prompts of stored chats, by what had no room: nothing, some text (cut), or whole turns or pins (left out).",
    ["missing"],
)
PROMPT_TOKENS = Counter(
    "chatmemory_prompt_tokens_total", "Tokens of these prompts by section, as we count them.", ["section"]
)
RECALL = Histogram(
    "chatmemory_recall_seconds",
    "Searches for earlier turns, and their seconds, by result: found or nothing.",
    ["result"],
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1),
)
FOLDS = Counter(
    "chatmemory_folds_total",
    "Steps of folding by policy and result: published, finished (nothing is left to do), kept (a part of a rebuild), "
    "lost (the chat changed meanwhile) or failed.",
    ["policy", "result"],
)
FOLDS_RUNNING = Gauge(
    "chatmemory_running_folds", "Folds that are being made here.", multiprocess_mode="livesum"
)
FOLD = Histogram(
    "chatmemory_fold_seconds", "Seconds of a step of folding.", buckets=(0.1, 0.5, 1, 2, 5, 10, 20, 40, 80)
)
RETAINED = Histogram(
    "chatmemory_retained_share",
    "Share of the numbers, ids and names of the folded turns that the new summary has.",
    buckets=(0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1),
)
ERASED = Counter("chatmemory_retention_erased_total", "Chats that retention erased.")
WEBHOOKS = Counter(
    "chatmemory_webhooks_total",
    "Attempts to deliver a webhook event by result: delivered, failed, given up.",
    ["result"],
)
POOL_SIZE = Gauge(
    "chatmemory_database_pool_size", "Database connections that may be used.", multiprocess_mode="livesum"
)
POOL_IN_USE = Gauge(
    "chatmemory_database_pool_in_use", "Database connections in use.", multiprocess_mode="livesum"
)
POOL_WAITING = Gauge(
    "chatmemory_database_pool_waiting",
    "Threads that wait for a database connection.",
    multiprocess_mode="livesum",
)


class Read(Collector):
    """Gauges whose values were just read: by name, what they tell and the value."""

    def __init__(self, values: Mapping[str, tuple[str, float]]) -> None:
        self.values = values

    def collect(self) -> Iterator[Metric]:
        for name, (tells, value) in self.values.items():
            yield GaugeMetricFamily(name, tells, value)


def exposition(read: Read) -> bytes:
    """All metrics in Prometheus' text format: of this process and its live and ended sisters, and what was `read`."""
    if FOLDER not in os.environ:
        return generate_latest() + generate_latest(read)
    for file in Path(os.environ[FOLDER]).glob("gauge_live*.db"):
        pid = int(file.stem.rpartition("_")[2])
        if not _lives(pid):  # killed, with its streams
            mark_process_dead(pid)
    registry = CollectorRegistry()
    registry.register(read)
    MultiProcessCollector(registry)
    return generate_latest(registry)
