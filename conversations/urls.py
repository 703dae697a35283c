from django.urls import path, register_converter
from django.urls.converters import StringConverter

from conversations import account_views, doors, reply_views, views
from conversations.api_tokens import ID_PATTERN


class TokenId(StringConverter):
    regex = ID_PATTERN


register_converter(TokenId, "token")

chat = "chats/<uuid:chat_id>"
message = f"{chat}/messages/<uuid:message_id>"

urlpatterns = [
    path("auth/token", account_views.TokenView.as_view()),
    path("auth/tokens", account_views.TokensView.as_view()),
    path("auth/tokens/<token:token_id>", account_views.KnownTokenView.as_view()),
    path("message/first", doors.FirstMessageDoor.as_view()),
    path("message", doors.MessageDoor.as_view()),
    path("chats", views.ChatsView.as_view()),
    path(chat, views.ChatView.as_view()),
    path(f"{chat}/messages", doors.ChatMessagesDoor.as_view()),
    path(message, views.MessageView.as_view()),
    path(f"{message}/cancel", reply_views.CancelDoor.as_view()),
    path(f"{message}/regenerate", doors.RegenerateDoor.as_view()),
    path(f"{message}/stream", reply_views.StreamDoor.as_view()),
    path("ask", doors.AskDoor.as_view()),
    path("me", account_views.MeView.as_view()),
    path("models", views.ModelsView.as_view()),
]
