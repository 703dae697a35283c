"""Sentences that hold until they are taken back, and sentences that only look like that."""

HELD = {
    "instruction": [
        "Always answer in metric units.",
        "Never use emojis in your answers.",
        "From now on use British spelling.",
        "Whenever I ask for a recipe, give the amounts for two people.",
        "Include the sources whenever I ask about history.",
        "You should always show your work.",
        "I want you to always explain the trade-offs.",
        "Please make sure to always list the ingredients first.",
        "Keep your answers short.",
        "Don't use emojis in your replies.",
        "I want you to explain each step when you solve equations.",
        "Use the metric system at all times.",
        "Reply only in French.",
        "One more thing: always round to two decimals.",
        "I am writing a thesis, so please always use APA style.",
    ],
    "preference": [
        "I prefer tea over coffee.",
        "I'd rather have tables than prose.",
        "I'm choosing a library, and I prefer simple, minimal dependencies, can you help me?",
        "My preference is for short meetings.",
        "I like trains better than planes.",
        "My favourite colour is green.",
    ],
    "identity": [
        "My name is Noor.",
        "Please call me Sam.",
        "I'm allergic to peanuts.",
        "My pronouns are they/them.",
    ],
    "remember": [
        "Remember that I have two children.",
        "Keep in mind that we only ship on Mondays.",
        "For future reference, the code word is heron.",
    ],
}
"""Sentences of each kind."""
TAKEN_BACK = [
    ("Never mind the metric units.", "the metric units"),
    ("Forget what I said about metric units, please.", "metric units"),
    ("Stop using metric units.", "Stop using metric units"),
    ("I no longer want metric units.", "metric units"),
]
NOTHING = [
    # Questions.
    "Should I always use HTTPS?",
    "Do I prefer tea or coffee?",
    "What is my name?",
    "Do you remember that I have two children?",
    # What other people say, prefer or are called.
    "My boss said I prefer tea.",
    "She always answers in French.",
    "My dog's name is Rex.",
    # Stories, sayings, small talk.
    "I always take the bus to work.",
    "Always happy to help!",
    "Never been there.",
    "Never give up!",
    "Always follow your heart.",
    "Never mind.",
    "Whenever I go to the beach, I feel calm.",
    "From now on it gets dark early.",
    "Remember when we met.",
    "Call me when you arrive.",
    "My name is on the list.",
    "Going forward, we plan to open two shops.",
    "I prefer not to say.",
    "I am allergic to nothing but paperwork.",
    # Quotations, code, logs, transcripts, documents.
    'The sign says "Always keep the door closed."',
    "The sign says «From now on, always keep the door closed.»",
    "> Always answer in metric units.",
    "```\nAlways answer in metric units.\n```",
    "```\nAlways answer in metric units.",
    "    Always answer in metric units.",
    "# always use tabs",
    "user.prefer('always use metric units');",
    "2026-01-01T10:00:00 INFO Always use metric units.",
    "Agent: Always answer in metric units.",
    "- Always validate the input.\n- Never trust the client.",
    "",
]
