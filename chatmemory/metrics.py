"""Every metric of a process, declared once; modules import theirs from here. `/metrics` shows them.

Labels have few values, known beforehand: never a chat, a user or a text. The processes of `uvicorn --workers` keep
their values in files of one folder, so that each of them answers for all (prometheus_client's multiprocess mode). Only
their supervisor's children know the folder's name. A process of its own keeps them in memory.
"""

import multiprocessing
import os
import shutil
import tempfile
from functools import partial
from hashlib import sha256
from pathlib import Path

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that prometheus_client reads when it is imported."""
_NAME = "chatmemory-metrics-"


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # another user's
    return True


def _share_values() -> None:
    """Choose the folder that a supervisor's processes share, and remove the folders of supervisors that are gone."""
    supervisor = multiprocessing.parent_process()
    if supervisor is None or supervisor.pid is None or FOLDER in os.environ:
        return
    secret = sha256(multiprocessing.current_process().authkey).hexdigest()[:16]
    folder = Path(tempfile.gettempdir(), f"{_NAME}{supervisor.pid}-{secret}")
    folder.mkdir(mode=0o700, exist_ok=True)
    os.environ[FOLDER] = str(folder)
    for other in folder.parent.glob(f"{_NAME}*"):
        pid = other.name.removeprefix(_NAME).partition("-")[0]
        is_over = pid == str(supervisor.pid) or (pid.isdecimal() and not _lives(int(pid)))
        if is_over and other != folder:  # of our own number: that of a container which began anew
            shutil.rmtree(other, ignore_errors=True)


_share_values()

from prometheus_client import (  # noqa: E402  # it reads `FOLDER` as it is imported
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Summary,
    disable_created_metrics,
    generate_latest,
    start_http_server,
)
from prometheus_client.multiprocess import MultiProcessCollector  # noqa: E402

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
serve = start_http_server
"""Answer on a port, in threads. Raises `OSError`."""
disable_created_metrics()
_live = partial(Gauge, multiprocess_mode="livesum")

REQUESTS = Summary("chatmemory_request_seconds", "Requests, until the answer began.", ["method", "route", "status"])
OPEN_STREAMS = _live("chatmemory_open_streams", "Streams of replies that clients are reading.")
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
REPLIES = Counter("chatmemory_replies_total", "Replies that ended.", ["status", "variant"])
TOKENS = Counter(
    "chatmemory_tokens_total",
    "Their tokens. `counted_by`: upstream, or us where it said nothing possible.",
    ["type", "counted_by"],
)
UPSTREAM_ERRORS = Counter(
    "chatmemory_upstream_errors_total",
    "Calls of a model without a whole answer. `call`: reply, summary or embeddings.",
    ["kind", "call"],
)
UPSTREAM_RETRIES = Counter("chatmemory_upstream_retries_total", "Calls for summaries made again.", ["kind"])
PROMPTS = Counter(
    "chatmemory_prompts_total",
    "Prompts of stored chats. `missing`: nothing, some text (cut), or whole turns or pins (left_out).",
    ["missing"],
)
PROMPT_TOKENS = Counter("chatmemory_prompt_tokens_total", "Their tokens as we count them.", ["section"])
RECALL = Histogram(
    "chatmemory_recall_seconds",
    "Searches for earlier turns. `result`: found or nothing.",
    ["result"],
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1),
)
FOLDS = Counter(
    "chatmemory_folds_total",
    "Steps of folding. `result`: published, finished, kept (of a rebuild), lost (the chat changed) or failed.",
    ["policy", "result"],
)
FOLDS_RUNNING = _live("chatmemory_running_folds", "Folds that are being made.")
FOLD = Histogram(
    "chatmemory_fold_seconds", "Seconds of a step of folding.", buckets=(0.1, 0.5, 1, 2, 5, 10, 20, 40, 80)
)
RETAINED = Summary(
    "chatmemory_retained_share",
    "Share of the numbers, ids and names of the folded turns that the summary has.",
)
ERASED = Counter("chatmemory_retention_erased_total", "Chats that retention erased.")
WEBHOOKS = Counter("chatmemory_webhooks_total", "Attempts to deliver an event.", ["result"])
WEBHOOKS.labels("given_up")  # from the start: Prometheus sees no increase in a series that begins with 1
POOL_SIZE = _live("chatmemory_database_pool_size", "Database connections that may be used.")
POOL_IN_USE = _live("chatmemory_database_pool_in_use", "Database connections in use.")
POOL_WAITING = _live("chatmemory_database_pool_waiting", "Threads that wait for a database connection.")


def exposition() -> bytes:
    """All metrics in Prometheus' text format: of this process, and of its live and ended sisters."""
    if FOLDER not in os.environ:
        return generate_latest()
    for file in Path(os.environ[FOLDER]).glob("gauge_live*.db"):
        if not _lives(int(file.stem.rpartition("_")[2])):  # killed, with its streams
            file.unlink(missing_ok=True)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry)
