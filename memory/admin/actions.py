"""Staff actions on the memory of chats, as actions of lists whose key is a chat's id, and as buttons of pages.

The work is done by `memory.folding.request` and `memory.revisions`. An action with a confirmation names the chats; for
a single chat, it also estimates what the work will take.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.admin import helpers
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from chatmemory.errors import ChatMemoryError
from conversations.admin.access import ContentAdmin, may_see, record_list, signed_in
from conversations.admin.html import admin_url, heading
from conversations.models import Chat
from memory.folding.request import Mode, estimate_for, request_resummarize
from memory.revisions.by_hand import clear, pause_updates, resume_updates

MAY_CHANGE = "memory.change_conversationbrief"
CHATS_NAMED = 20
"""The most chats named in a confirmation; the others are only counted."""


@dataclass(frozen=True, slots=True)
class MemoryAct:
    """One action. Without an explanation it is done at once, as it is undone as easily."""

    verb: str
    does: Callable[[Chat, User], object]
    done: str
    explained: str = ""
    mode: Mode | None = None
    """The kind of summarizing that is estimated beforehand."""


ACTS = {
    "update_memory": MemoryAct(
        "Update memory",
        lambda chat, user: request_resummarize(chat, "update", user),
        "Update requested",
        "Merges all but the recent messages into the summary, in the background. Paused updates resume.",
        "update",
    ),
    "rebuild_memory": MemoryAct(
        "Rebuild memory",
        lambda chat, user: request_resummarize(chat, "rebuild", user),
        "Rebuild requested",
        "Writes the summary again in the background, starting from the first message. The current one is used until "
        "it's done. Manual edits are overwritten, and paused updates resume.",
        "rebuild",
    ),
    "pause_updates": MemoryAct("Pause updates", pause_updates, "Updates paused"),
    "resume_updates": MemoryAct("Resume updates", resume_updates, "Updates resumed"),
    "clear_summary": MemoryAct(
        "Clear summary",
        clear,
        "Summary cleared",
        "The summary starts over with the messages that are not summarized yet. Nothing is removed from the chat: "
        "older messages can still be recalled. This is free. Restoring the last version undoes it.",
    ),
}
"""Actions by their names in requests."""


class MemoryActions(ContentAdmin):
    """Adds the actions to a list, for users who may change memory."""

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        found: dict[str, Any] = super().get_actions(request)
        if request.user.has_perm(MAY_CHANGE):
            for name, act in ACTS.items():
                found[name] = (MemoryActions._run, name, f"{act.verb}…" if act.explained else act.verb)
        return found

    def _run(self, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        """Confirm, or do it. A single chat's page is shown afterwards, if the viewer may see it."""
        act = ACTS[request.POST["action"]]
        if act.explained and "confirmed" not in request.POST:
            return self._confirmation(request, rows, act)
        done = []
        for chat_id in rows.values_list("pk", flat=True).iterator(chunk_size=500):
            chat = Chat.objects.filter(pk=chat_id).first()
            if chat is None:  # deleted in the meantime
                continue
            try:
                act.does(chat, signed_in(request))
            except ChatMemoryError as error:
                self.message_user(request, error.message, messages.ERROR)
                continue
            self.log_change(request, chat, f"{act.done}.")
            done.append(chat_id)
        if done:
            chats = "" if len(done) == 1 else f" for {len(done)} chats"
            self.message_user(request, f"{act.done}{chats}.", messages.SUCCESS)
        if len(done) != 1 or not may_see(request):
            return None
        return redirect(admin_url(self.own_name, "change", *done))

    def _confirmation(self, request: HttpRequest, rows: QuerySet[Any], act: MemoryAct) -> HttpResponse:
        may = may_see(request)
        selected = request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)
        across = request.POST.get("select_across") == "1"
        chats = list(Chat.objects.in_bulk(list(rows.values_list("pk", flat=True)[:CHATS_NAMED])).values())
        if may:
            record_list(request, self.own_name, chats)
        count = rows.count()
        context = {
            "title": f"{act.verb}?",
            "action": request.POST["action"],
            "act": act,
            "count": count,
            "unnamed": count - len(chats),
            "named": [(chat, heading(chat, may)) for chat in chats],
            "estimate": estimate_for(chats[0], act.mode) if len(chats) == 1 and act.mode else None,
            "across": across,
            "selected": selected[:1] if across else selected,  # at least one, or the list refuses the action
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
        }
        return self.render(request, "admin/memory/confirm.html", context)
