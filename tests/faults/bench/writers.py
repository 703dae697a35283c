"""Many processes that write into one chat at once: each transaction reads a number, then writes it plus one.

`python -m tests.faults.bench.writers CHAT PROCESSES TRANSACTIONS` prints the error of each transaction that failed,
one per line. Processes are forked once Django is set up, and start together.
"""

import multiprocessing
import os
import sys
from multiprocessing.synchronize import Barrier


def main() -> None:
    """Write until all transactions are done."""
    chat, processes, transactions = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    import django

    django.setup()
    fork = multiprocessing.get_context("fork")
    together = fork.Barrier(processes)
    writers = [fork.Process(target=_write, args=(chat, transactions, together)) for _ in range(processes)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    sys.exit(sum(abs(writer.exitcode or 0) for writer in writers))


def _write(chat_id: str, transactions: int, together: Barrier) -> None:
    from django.db import DatabaseError

    from conversations.models import Chat
    from tests.support.factories import add_turn

    chat = Chat.objects.get(pk=chat_id)
    together.wait()
    for number in range(transactions):
        try:
            add_turn(chat, f"I am {os.getpid()}, and this is {number}.", "Noted.")
        except DatabaseError as exc:
            print(type(exc).__name__, exc, flush=True)


if __name__ == "__main__":
    main()
