"""What an import leaves out of its conversations, by kind: one rule for all formats. Pure."""

from collections.abc import Mapping
from typing import Final

KINDS: Final[Mapping[str, str]] = {
    "images": "Images in them, which are left out. A mark `[image]` stays in each message.",
    "files": "Files in them, which are left out. A mark with the name stays in each message.",
    "recordings": "Recordings in them. What was said stays where the export has it as text.",
    "thoughts": "Thoughts of the model, which are left out.",
    "tool_messages": "Calls of tools and their outputs, which are left out.",
    "system_messages": "System messages, custom instructions and others that were not shown.",
    "branch_messages": "Messages of branches other than the one shown last.",
    "empty_messages": "Messages without content.",
    "others": "Other messages, and parts of messages, that have no meaning here.",
}
"""What is counted, each with its meaning."""
MARKS: Final = {"images": "[image]", "files": "[file]", "recordings": "[recording]"}
"""What stays in a message in place of something whose name is not known."""
_WORDS: Final = {
    "thoughts": "think thought reason",
    "tool_messages": "tool function call execution output tether brows webpage search code computer error",
    "images": "image",
    "recordings": "audio video voice speech",
    "system_messages": "system context instruction developer",
    "files": "file document",
}


def kind_of(name: object) -> str:
    """Return the kind of a type of messages or parts, by its name: `tool_result`, `audio_asset_pointer`."""
    name = str(name).lower()
    found = (kind for kind, words in _WORDS.items() if any(one in name for one in words.split()))
    return next(found, "others")


def in_words(left_out: Mapping[str, int]) -> str:
    """Return the counts as text, such as `1 images, 2 thoughts left out`."""
    found = [f"{count:,} {kind.replace('_', ' ')}" for kind in KINDS if (count := left_out.get(kind))]
    return f"{', '.join(found) or 'nothing'} left out"
