"""What was said: chats, messages, replies being written, accounts, and the APIs."""
