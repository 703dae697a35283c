"""The URLs of a server where agents may sign in."""

from chatmemory.urls import urlpatterns as ours
from conversations.sign_in import agents

urlpatterns = [*ours, *agents.urlpatterns]
