"""What an import leaves out of its conversations, by kind: one rule for all formats. Pure."""

from collections.abc import Mapping
from typing import Final

KINDS: Final = {
    "thoughts": ("Thoughts of the model.", "think thought reason"),
    "tool_messages": (
        "Calls of tools and their outputs.",
        "tool function call execution output tether brows webpage search code computer error",
    ),
    "images": ("Images; a mark `[image]` stays for each.", "image"),
    "recordings": ("Recordings; words that the export has as text stay.", "audio video voice speech"),
    "system_messages": (
        "System messages, custom instructions and others that were not shown.",
        "system context instruction developer",
    ),
    "files": ("Files; a mark with the name stays for each.", "file document"),
    "branch_messages": ("Messages of branches other than the one shown last.", ""),
    "empty_messages": ("Messages without content.", ""),
    "others": ("Other messages, and parts of messages, that have no meaning here.", ""),
}
"""What is counted: its meaning, and words in the names of types that are of this kind, if they are of none before."""
MARKS: Final = {"images": "[image]", "files": "[file]", "recordings": "[recording]"}
"""What stays in a message in place of something whose name is not known."""


def kind_of(name: object) -> str:
    """Return the kind of a type of messages or parts, by its name: `tool_result`, `audio_asset_pointer`."""
    name = str(name).lower()
    found = (kind for kind, (_, words) in KINDS.items() if any(one in name for one in words.split()))
    return next(found, "others")


def in_words(left_out: Mapping[str, int]) -> str:
    """Return the counts as text, such as `2 thoughts, 1 images left out`."""
    found = [f"{left_out[kind]:,} {kind.replace('_', ' ')}" for kind in KINDS if left_out.get(kind)]
    return f"{', '.join(found) or 'nothing'} left out"
