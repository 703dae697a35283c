"""Words that people no longer see: each was replaced by what an engineer would write (docs and pages alike)."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLD = (
    "would read now",
    "every word of them",
    "A line a turn",
    "Fold now",
    "Nothing was there to fold",
    "speaks to the API as any client",
    "does not know this token any more",
    "What you give is kept in this tab",
    "What was said is kept",
    "left to recall",
    "Things cut",
    "The model's bill",
    "Of them from its cache",
    "Chats whose memory waits",
    "Last sign of life",
    "How these figures come about",
    "state of it",
    "Due to be folded",
    "is not known here",
    "Put version",
    "What is remembered",
    "no such revision",
    "is now revision",
    "Say who you are",
    "There is nothing here",
)
SEEN = (
    "chatmemory/static/chatmemory/playground",
    "templates",
    "memory/admin",
    "memory/api",
    "conversations/api",
    "chatmemory/api",
    "memory/explain",
    "conversations/admin",
    "docs",
)


def test_the_old_words_are_gone() -> None:
    files = [
        path
        for folder in SEEN
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".js", ".html", ".md"} and "vendor" not in path.parts
    ]
    assert len(files) > 60
    found = [
        (path.relative_to(ROOT).as_posix(), words)
        for path in [*files, ROOT / "README.md"]
        for words in OLD
        if words in path.read_text()
    ]
    assert found == []
