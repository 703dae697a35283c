"""States as databases hold them."""

from typing import Any

from memory.policies.protocol import State

STORED: dict[str, tuple[str, dict[str, Any]]] = {
    "card": (
        '{"g":"A hall","c":[],"d":["12 May","60 people"],"oq":[],"t":["phone"],"lc":"the price"}',
        {
            "goal": "A hall",
            "constraints": [],
            "decisions": ["12 May", "60 people"],
            "open_q": [],
            "techniques": ["phone"],
            "lesson_context": "the price",
            "is_ahead": True,
        },
    ),
    "hierarchical": (
        "They looked for a hall.\nThey took one.",
        {
            "facts": [
                {"key": "hall (earlier)", "value": "HAT061", "category": "ENTITY"},
                {"key": "hall", "value": "HAT062: the big one", "category": "ENTITY"},
                {"key": "people", "value": "60", "category": "NUMERIC"},
            ],
            "pieces": [
                {"from_seq": 1, "through_seq": 4, "text": "They looked for a hall."},
                {"from_seq": 5, "through_seq": 8, "text": "They took one."},
            ],
        },
    ),
    "progressive": (
        "The hall is booked.",
        {
            "important_data": {
                "custom_fields": {},
                "document_structure": {},
                "entities": ["Mia Berg"],
                "important_facts": [],
                "key_decisions": ["12 May"],
                "source_urls": ["https://example.org/a?b=1"],
                "user_preferences": {"Days": ["Mon", "Tue: late"], "Tone": "warm"},
            },
            "key_order": {"user_preferences": ["Tone", "Days"]},
            "summary_version": 2,
        },
    ),
}
"""What 0.9 stored for each policy of several parts."""


KNOWN: dict[str, State] = {
    "chunked": State("The hall is booked.\nFor 12 May."),
    "interval": State("The hall is booked for 12 May."),
    **{policy: State.from_json(summary, {"version": 1, "data": data}) for policy, (summary, data) in STORED.items()},
}
