"""Staff pages of accounts, of replies being written, and the audit log. Importing the package registers them.

The pages of chats and messages are in `memory.admin`, as they show memory.
"""

from conversations.admin import access, accounts, open_replies

__all__ = ["access", "accounts", "open_replies"]
