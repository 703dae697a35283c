"""What is remembered, for staff: briefs, revisions and context records to read, memory to have made anew."""

from memory.admin import briefs, chats, records, revisions

__all__ = ["briefs", "chats", "records", "revisions"]
