"""`SAMPLES=<folder> python -m tests.processes.samples [--chat N] [--postgres URL]`: a long chat, shown as a report.

One recorded chat is imported into a scratch database up to its last five questions; these are sent over HTTP with a
server and a worker running, on the built-in model. Then its brief, its revisions and the context of the next reply are
read over HTTP and printed. Everything is removed afterwards.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
from rich.console import Console
from rich.table import Table

from tests.processes import recorded

if TYPE_CHECKING:
    from tests.support.live_server import Client
    from tests.support.processes import Product

WIDTH = 118
USER = "reader"


def main() -> None:
    """Run one chat and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--chat", type=int, default=0, help="which of the long chats: 0 to 3")
    parser.add_argument("--postgres", default="", help="URL of a PostgreSQL server; default: an SQLite file")
    options = parser.parse_args()
    folder = recorded.folder()
    if folder is None:
        sys.exit("SAMPLES names no folder of recorded conversations.")
    chat = recorded.read(folder / recorded.LONG)[options.chat]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    django.setup()
    _run(chat, options.postgres)


def _run(chat: recorded.Recorded, postgres_url: str) -> None:
    from tests.support.processes import Product, scratch  # needs Django's apps

    with (
        tempfile.TemporaryDirectory() as place,
        scratch(Path(place), postgres_url) as url,
        Product(Path(place), url) as product,
    ):
        product.manage("migrate")
        product.manage("createsuperuser", "--noinput", "--username", USER, "--email", "reader@example.org")
        product.worker()
        product.server()
        _report(product, chat, _imported(product, Path(place), chat))


def _imported(product: Product, folder: Path, chat: recorded.Recorded) -> str:
    path = folder / "recorded.json"
    path.write_text(chat.document)
    return product.manage("import_chat", str(path), "--user", USER).strip()


def _report(product: Product, chat: recorded.Recorded, chat_id: str) -> None:
    from tests.support.live_server import Client
    from tests.support.processes import wait_for

    client = Client(product.url, product.manage("create_token", USER).strip())
    product.clients.append(client)

    def at_rest() -> Any:
        brief = client.get(f"chats/{chat_id}/brief").json()
        return brief if brief["version"] and not brief["due"] else None

    wait_for(at_rest, "the folds of the import", timeout=120)
    for question in chat.questions:
        client.ask(question, chat_id)
    brief = wait_for(at_rest, "the folds of the last turns", timeout=120)
    print_report(client, chat, chat_id, brief)


def print_report(client: Client, chat: recorded.Recorded, chat_id: str, brief: dict[str, Any]) -> None:
    """Return the chat, its brief, its revisions, and the prompt for the next reply."""
    out = Console(width=WIDTH, highlight=False)
    messages = client.get(f"chats/{chat_id}").json()["message_count"]
    asked = len(chat.questions)
    out.rule(f"{chat.name}: {messages} messages, the last {asked} questions asked over HTTP")
    out.print(f"version {brief['version']}, {brief['token_count']} tokens, degraded: {brief['degraded']}")
    out.print(f"unfolded: {brief['unfolded']['turns']} turns, {brief['unfolded']['tokens']} tokens")
    out.rule("the brief")
    out.print(brief["brief"]["global_summary"], markup=False)
    revisions = client.get(f"chats/{chat_id}/revisions?limit=100").json()["results"]
    out.print(_revisions(revisions))
    context = client.post(f"chats/{chat_id}/context", json={"message": chat.questions[0]}).json()
    out.print(_sections(context))
    out.print(f"unrepresented: {context['unrepresented']}, clipped: {context['clipped']}")
    for section in context["sections"]:
        out.rule(f"{section['kind']}, {section['tokens']} tokens")
        out.print(section["text"], markup=False)


def _revisions(revisions: list[dict[str, Any]]) -> Table:
    table = Table(title="revisions, newest first")
    for heading in ("version", "kind", "messages", "turns", "tokens", "kept", "model", "ms"):
        table.add_column(heading, justify="left" if heading in ("kind", "model") else "right")
    for one in revisions:
        retained = one["retained"]
        table.add_row(
            str(one["version"]),
            one["kind"],
            f"{one['from_seq']}–{one['through_seq']}",
            str(one["turns"]),
            f"{one['tokens_before']} → {one['tokens_after']}",
            f"{retained['share']:.0%}",
            one["model"],
            str(one["duration_ms"]),
        )
    return table


def _sections(context: dict[str, Any]) -> Table:
    title = f"context of the next reply: {context['tokens']} of {context['budget']} tokens"
    table = Table(title=title, min_width=60)
    for heading in ("section", "tokens", "messages", "clipped"):
        table.add_column(heading, justify="left" if heading == "section" else "right")
    for one in context["sections"]:
        clipped = "yes" if one["clipped"] else ""
        table.add_row(one["kind"], str(one["tokens"]), str(len(one["message_ids"])), clipped)
    return table


if __name__ == "__main__":
    main()
