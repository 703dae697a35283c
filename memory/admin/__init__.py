"""The admin of chats, messages and memory. Importing the package registers every page."""

from memory.admin import apps, briefs, chats, messages, prompts, start_page, versions

__all__ = ["apps", "briefs", "chats", "messages", "prompts", "start_page", "versions"]
