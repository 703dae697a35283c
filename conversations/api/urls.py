"""The paths of the REST API of chats, replies and accounts."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from conversations.accounts.end_users import RESERVED_ENDINGS
from conversations.api import account, chats, imports, replies, webhook


class Sha256(StringConverter):
    regex = "[0-9a-f]{64}"


class EndUserId(StringConverter):
    """Any text, slashes included, except for the paths of what else there is of an end user."""

    regex = rf"(?!.*(?:{'|'.join(RESERVED_ENDINGS)})\Z).+"


register_converter(Sha256, "sha256")
register_converter(EndUserId, "end_user")

chat = "chats/<uuid:chat_id>"
message = f"{chat}/messages/<uuid:message_id>"

urlpatterns = [
    path("auth/token", account.TokenView.as_view()),
    path("auth/tokens", account.TokenViews.as_view({"get": "page", "delete": "remove_all"})),
    path("auth/tokens/<slug:token_id>", account.TokenViews.as_view({"delete": "remove"})),
    path("message/first", replies.FirstMessageView.as_view()),
    path("message", replies.SendMessageView.as_view()),
    path("chats", chats.ChatViews.as_view({"get": "page", "post": "create", "delete": "remove_many"})),
    path("chats/import", imports.ImportView.as_view()),
    path(chat, chats.ChatViews.as_view({"get": "read", "patch": "change", "delete": "remove"})),
    path(f"{chat}/deletion", chats.ChatViews.as_view({"get": "count"})),
    path(f"{chat}/messages", replies.ChatMessagesView.as_view()),
    path(message, chats.MessageViews.as_view({"get": "read", "patch": "change", "delete": "remove"})),
    path(f"{message}/deletion", chats.MessageViews.as_view({"get": "count"})),
    path(f"{message}/cancel", replies.CancelView.as_view()),
    path(f"{message}/regenerate", replies.RegenerateView.as_view()),
    path(f"{message}/stream", replies.StreamView.as_view()),
    path(f"{chat}/attachments/<sha256:sha256>", chats.AttachmentView.as_view()),
    path("ask", replies.AskView.as_view()),
    path("me", account.MeViews.as_view({"get": "read", "delete": "remove"})),
    path("me/deletion", account.MeViews.as_view({"get": "count"})),
    path("users/<end_user:end_user>", account.EndUserViews.as_view({"delete": "remove"})),
    path("users/<path:end_user>/deletion", account.EndUserViews.as_view({"get": "count"})),
    path("webhook", webhook.WebhookView.as_view()),
]
