"""Staff pages for chats, messages and accounts. Importing the package registers every page."""

from conversations.admin import active_replies, allowances, audit_log, chats, messages, tokens, users

__all__ = ["active_replies", "allowances", "audit_log", "chats", "messages", "tokens", "users"]
