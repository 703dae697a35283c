"""Database contents for a first look: a staff user, a demo user with a token, and a sample chat with its memory.

A second run finds what the first one made. The database only has hashes of password and token, so the file
`quickstart.json` next to it keeps them, readable only by its owner.
"""

import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from knox.crypto import hash_token
from knox.models import AuthToken

from chatmemory.llm import registry
from chatmemory.llm.protocol import ChatModel, Completion, Deadlines, Delta, Prompt, Reply, Usage, Variant
from conversations.interchange.read import read_chats
from conversations.interchange.rows import import_chat
from conversations.models import Chat

PRINTED_LINK = "_QUICKSTART_TOKEN_SHA256"
"""The environment variable by which the command tells its server the hash of the token in the link that it prints.

The playground signs in with that token at once. A link with any other token may come from somebody who wants to read
what others write into their account: for those the page asks first, naming the account.
"""
ADMIN = "admin"
DEMO = "demo"
SAMPLE = Path(__file__).parent / "samples" / "trip.json"
QUESTION = "When and where is our concert?"
BY_HAND = "written by hand for the sample"
"""The model named in the revisions of the sample."""


@dataclass(frozen=True, slots=True)
class QuickstartData:
    """What was made or found. The password is empty if the staff user has another one, which is not changed."""

    admin_password: str
    demo_token: str
    chat_id: str


def folder() -> Path:
    """Return the folder of quickstart's file and logs: next to the SQLite database, else `var/`."""
    if settings.IS_SQLITE:
        return Path(settings.DATABASES["default"]["NAME"]).absolute().parent
    return Path(settings.VAR_DIR)


def prepare() -> QuickstartData:
    """Create what is missing. The tables must exist. The sample is folded here only if that calls no upstream."""
    path = folder() / "quickstart.json"
    kept: dict[str, str] = {}
    with suppress(FileNotFoundError, ValueError, TypeError):
        kept = dict(json.loads(path.read_text(encoding="utf-8")))

    password = str(kept.get("admin_password", ""))
    if (admin := User.objects.filter(username=ADMIN).first()) is None:
        password = password or secrets.token_urlsafe(12)
        User.objects.create_superuser(ADMIN, password=password)
    elif not (password and admin.check_password(password)):
        password = ""

    demo, _ = User.objects.get_or_create(username=DEMO, defaults={"password": "!"})  # it has only the token
    token = str(kept.get("demo_token", ""))
    if not (token and AuthToken.objects.filter(user=demo, expiry=None, digest=hash_token(token)).exists()):
        token = str(AuthToken.objects.create(demo, expiry=None)[1])

    data = QuickstartData(password, token, _sample(demo))
    written = path.with_suffix(".new")  # replaces the file whole, so that a crash loses no password
    written.touch(mode=0o600)
    written.chmod(0o600)
    written.write_text(json.dumps({"admin_password": password, "demo_token": token}, indent=2))
    written.replace(path)
    return data


def _sample(demo: User) -> str:
    text = SAMPLE.read_text(encoding="utf-8")
    (sample,) = read_chats(text)
    found = Chat.objects.filter(owner=demo, title=sample.title).order_by("pk").first()
    if found is not None:
        return str(found.pk)
    chat_id = str(import_chat(demo, sample).pk)
    if registry.is_offline():
        texts = [message.content for message in sample.messages]
        summaries = {
            texts[one["through"] - 2]: "\n".join(f"- {point}" for point in one["points"])
            for one in json.loads(text)["summaries"]
        }
        with registry.wrap_models(lambda model: SampleSummarizer(model, summaries)):
            call_command("resummarize", chat_id, sync=True, stdout=StringIO())
    return chat_id


@dataclass(frozen=True, slots=True)
class SampleSummarizer:
    """A `ChatModel` that answers with the sample's own summaries, and passes everything else on to `model`.

    The built-in model cannot write prose. So the sample brings summaries written by hand in the style of a model, and
    each revision says so. They go through the same fold as any other answer.
    """

    model: ChatModel
    summaries: Mapping[str, str]
    """Summaries by the question of the last turn that each covers."""

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        """Return the summary that covers the turns of the input; else the other model's answer."""
        last_turn = prompt.messages[-1].content.rpartition("\nUser: ")[2]
        written = self.summaries.get(last_turn.partition("\nAssistant: ")[0])
        if written is None or prompt.schema is not None:
            return self.model.complete(prompt, variant, timeout=timeout)
        return Completion(written, model=BY_HAND, usage=Usage(0, 0, 0))

    def stream(self, prompt: Prompt, variant: Variant, deadlines: Deadlines) -> AsyncIterator[Delta | Reply]:
        """Stream the other model's answer."""
        return self.model.stream(prompt, variant, deadlines)
