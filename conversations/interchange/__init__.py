"""Import and export of chats as files, in our own format and in others."""
