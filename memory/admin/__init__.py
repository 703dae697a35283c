"""What is remembered, for staff: briefs, revisions and records to read, memory to make anew, policies to compare."""

from memory.admin import briefs, chats, comparisons, contexts, revisions

__all__ = ["briefs", "chats", "comparisons", "contexts", "revisions"]
