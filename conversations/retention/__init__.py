"""How long chats are kept, the erasure of those that are over, and the log of all erasures."""
