"""Whether a reply's prompt was rebuilt byte for byte, and if not, why, in a sentence that anyone understands.

Only the hash decides. What has changed since is looked up only to say why.
"""

from conversations.models import ActiveReply, Message
from memory.context.plan import RENDERER, Snapshot
from memory.context.prompt import Context
from memory.models import Pin

CHANGED = "A message before it has been edited or deleted since."
RENDERED = "It was sent by an earlier version of chatmemory, which built prompts differently."
PINNED = "A pin that was in it has been removed or changed."
OTHER = "Something it was built from has changed."


def why_not_exact(reply: Message | ActiveReply, context: Context, sent: Snapshot) -> str | None:
    """Why `context`, rebuilt for `reply`, differs from what was sent; None if it is the same byte for byte."""
    if context.prompt_hash == sent.prompt_hash:
        return None
    if isinstance(reply, Message):
        before = Message.objects.filter(**reply.chat_key.columns, seq__lt=reply.seq)
        if before.filter(edited_at__gte=reply.created_at).exists():
            return CHANGED
    pins = {pin.id for pin in sent.plan.pins}
    if Pin.objects.filter(**reply.chat_key.columns, pk__in=pins).count() < len(pins):
        return PINNED
    return RENDERED if context.plan.renderer != RENDERER else OTHER
