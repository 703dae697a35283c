"""Memory across chats: what the chats of one person may share, and what a prompt quotes of other chats."""
