"""Chats from files and into files, in our own format and in others'."""
