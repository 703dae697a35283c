"""A worker under a supervisor, for tests that kill it, and chats for it to fold."""

import threading
from uuid import UUID

from memory.models import Worker
from tests.processes.talking import question, settled
from tests.support.factories import add_turns, make_chat, make_user
from tests.support.processes import Child, Product
from tests.support.waiting import wait_for


class Supervised:
    """A worker that is started again whenever it ends, as systemd, a container's restart policy and `make run` do."""

    def __init__(self, product: Product, **env: str) -> None:
        self._product, self._env = product, env
        self._over = threading.Event()
        self.child: Child = product.worker(**env)
        self._thread = threading.Thread(target=self._supervise, daemon=True)
        self._thread.start()
        self.wait_until_alive()

    @property
    def pid(self) -> int:
        """Process id of the current worker."""
        return self.child.process.pid

    def wait_until_alive(self) -> None:
        """Wait until the current worker has shown life."""
        wait_for(lambda: Worker.objects.filter(pk__contains=f":{self.pid}:").exists(), "a worker", timeout=60)

    def kill(self) -> None:
        """Send SIGKILL to the worker."""
        self.child.kill_all()

    def stop(self) -> None:
        """End the supervisor and its worker."""
        self._over.set()
        self.child.process.terminate()
        self._thread.join(30)

    def _supervise(self) -> None:
        while not self._over.is_set():
            self.child.process.wait()
            if not self._over.is_set():
                self.child = self._product.worker(**self._env)


def due_chat(user: str = "alice", turns: int = 40) -> UUID:
    """Make a chat of a user with so many turns that its fold is in the queue."""
    chat = make_chat(make_user(user))
    add_turns(chat, [(question(number), "Noted.") for number in range(turns)])
    return chat.pk


def is_folded(chat_id: UUID) -> bool:
    """Whether a chat has been folded and is at rest."""
    brief = settled(chat_id)
    return brief is not None and brief.version > 0
