"""Staff pages of accounts, and the audit log. Importing the package registers them.

The pages of chats, messages and replies being written are in `memory.admin`, as they show memory.
"""

from conversations.admin import access, accounts

__all__ = ["access", "accounts"]
