"""The admin of memory: pages for briefs, revisions and records, actions to rebuild, and comparisons of policies."""

from memory.admin import briefs, contexts, revisions
from memory.admin.chat import page
from memory.admin.comparison import page as comparison

__all__ = ["briefs", "comparison", "contexts", "page", "revisions"]
