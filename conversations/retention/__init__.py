"""How long chats are kept, the erasure of expired chats, and the log of all erasures."""
