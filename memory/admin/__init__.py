"""The admin of memory: pages for briefs, revisions and records, and actions to rebuild."""

from memory.admin import briefs, contexts, revisions
from memory.admin.chat import page

__all__ = ["briefs", "contexts", "page", "revisions"]
