"""What clients send and receive: chats, messages, streams and accounts."""
