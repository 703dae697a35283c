"""Memory, for staff: briefs, revisions and records to read, memory to make anew, policies to compare."""

from memory.admin import briefs, contexts, revisions
from memory.admin.chat import page
from memory.admin.comparison import page as comparison

__all__ = ["briefs", "comparison", "contexts", "page", "revisions"]
