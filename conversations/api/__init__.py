"""The REST API for chats, messages, reply streams and accounts."""
