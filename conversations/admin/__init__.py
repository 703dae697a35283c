"""Staff pages of accounts, of replies being written, and the audit log. Importing the package registers them.

The pages of chats and messages are in `memory.admin`, as they show memory.
"""

from conversations.admin import allowances, audit_log, open_turns, tokens, users

__all__ = ["allowances", "audit_log", "open_turns", "tokens", "users"]
