"""The settings of memory that belong to no policy: budget, window, recall and embeddings, and the summarizer."""

from __future__ import annotations

from chatmemory.config.kinds import (
    AnyText,
    Boolean,
    Choice,
    EmbeddingsFolder,
    Fraction,
    Integer,
    ModelName,
    Seconds,
)
from chatmemory.config.setting import Setting
from chatmemory.config.variants import EFFORTS
from memory.limits import RECALL_MODES, BudgetFor, RecallMode, TurnsAs
from memory.policies import POLICIES


class MemorySettings:
    """What a prompt may contain, and when turns are folded.

    To *fold* turns is to summarize them into memory, in the background. The *window* is the newest turns of a chat,
    which the prompt contains verbatim. A *line* is the short form of a turn that does not fit verbatim.
    """

    MEMORY_ENABLED = Setting(
        True, Boolean(), "`false`: prompts hold the newest turns only, and nothing is summarized."
    )
    MEMORY_POLICY = Setting("chunked", Choice(tuple(POLICIES)), "The policy of new chats.")
    MEMORY_PROMPT_TOKEN_BUDGET = Setting(
        3000,
        Integer(at_least=200),
        "Tokens of memory in a prompt, as rendered. Instructions, sources and the question come on top.",
    )
    MEMORY_BUDGET_FOR: Setting[BudgetFor] = Setting(
        "memory",
        Choice(("memory", "prompt")),
        "What that budget limits: `memory` alone, or the whole `prompt`. With `prompt`, instructions and question are "
        "never cut; sources and memory share what they leave.",
    )
    MEMORY_WINDOW_SHARE = Setting(
        0.4,
        Fraction(),
        "Share of the budget for the newest turns. Longer replies are cut in their middle. `1`: they stay whole as far "
        "as the budget allows.",
    )
    MEMORY_LINE_TOKENS = Setting(
        40,
        Integer(at_least=8, at_most=1000),
        "The longest line, in tokens. A turn that does not fit verbatim appears as one line.",
    )
    MEMORY_TURNS_AS: Setting[TurnsAs] = Setting(
        "messages",
        Choice(("messages", "text")),
        "Verbatim turns as `messages` of their roles, or as lines of one block of `text`.",
    )
    SOURCES_TOKEN_BUDGET = Setting(
        4000,
        Integer(),
        "Tokens for the sources of a turn. Over it, the last ones are cut or left out, and the record of the prompt "
        "says so.",
    )
    MEMORY_MIN_FOLD_TOKENS = Setting(
        1000,
        Integer(),
        "A chat whose lines run out of room is folded once this many tokens lie outside the window.",
    )
    MEMORY_FOLD_BITE_TOKENS = Setting(
        6000, Integer(at_least=500), "Turns in one request to the summarizer, in tokens."
    )
    MEMORY_FOLD_SECONDS = Setting(
        45, Seconds(at_most=70), "Time of one fold task. A longer fold continues in a new task."
    )
    MEMORY_FOLD_LEASE_SECONDS = Setting(
        120, Seconds(), "After this time, another worker takes over the fold of a worker that died."
    )
    MEMORY_FOLD_ATTEMPTS = Setting(
        5, Integer(at_least=1), "Failures after which the built-in summarizer does the fold."
    )
    MEMORY_FOLD_BACKOFF_SECONDS = Setting(
        10, Seconds(), "Wait after a failed fold. It doubles with each failure, up to 600 s."
    )
    MEMORY_REBUILD_EVERY_FOLDS = Setting(
        0,
        Integer(at_most=100_000),
        "Rebuilds memory from the original messages after this many folds, and reports how far it had drifted. `0`: "
        "never.",
    )


class ChunkedSettings:
    """One rolling summary, the default policy."""

    MEMORY_K_RAW_TURNS = Setting(
        3,
        Integer(at_least=1, at_most=50),
        "Newest turns that stay verbatim and are never folded. Policies without a window of their own use it, too.",
    )
    MEMORY_SUMMARY_TOKEN_CAP = Setting(
        500,
        Integer(at_least=50, at_most=100_000),
        "The longest summary, in tokens. Must be smaller than `MEMORY_PROMPT_TOKEN_BUDGET`.",
    )
    MEMORY_CHUNK_SUMMARIZE_THRESHOLD = Setting(
        6000, Integer(at_least=200), "Summary and unfolded turns above this many tokens start a fold."
    )


class RecallSettings:
    """How earlier turns that match a question are found. They appear in the prompt verbatim, with any policy."""

    MEMORY_RECALL: Setting[RecallMode] = Setting(
        "auto",
        Choice(RECALL_MODES),
        "When earlier turns are searched: `auto` where the question calls for it, `always`, or `off`.",
    )
    MEMORY_RECALL_SHARE = Setting(
        0.2,
        Fraction(at_most=0.9),
        "Share of the budget reserved for recalled text; more where there is room. `0`: recalls nothing.",
    )
    MEMORY_EMBEDDINGS_MODEL = Setting(
        "",
        ModelName(),
        "An embeddings model of the upstream, such as `text-embedding-3-small`. Recall then finds turns by meaning as "
        "well as by words.",
    )
    MEMORY_EMBEDDINGS_DIMENSIONS = Setting(
        256,
        Integer(at_least=1, at_most=4096),
        "Numbers in one vector. A model with a fixed size keeps its own.",
    )
    MEMORY_EMBEDDINGS_FOLDER = Setting(
        "",
        EmbeddingsFolder(),
        "A folder with an embeddings model that runs here on the CPU, without upstream or key. Needs "
        "`pip install '.[local-embeddings]'`; [recall.md](recall.md#without-an-upstream) says what the folder holds. "
        "Leave the two settings above unset then.",
    )
    MEMORY_EMBEDDINGS_SECONDS = Setting(
        0.3,
        Seconds(at_most=10),
        "The longest wait for the vector of a question. After it, the search uses words only.",
    )


class SummarizerSettings:
    """Which model writes summaries, and what happens to a poor one."""

    MEMORY_SUMMARIZER_MODEL = Setting("gpt-5-nano", ModelName(), "The model that writes summaries.")
    MEMORY_SUMMARIZER_EFFORT = Setting[str | None](
        None,
        Choice(EFFORTS),
        "How much it reasons, as far as the model knows the word. Unset: nothing is sent, so the upstream's default "
        "holds.",
        "the upstream's",
    )
    MEMORY_SUMMARIZER_OUTPUT_TOKENS = Setting(
        0,
        Integer(at_most=1_000_000),
        "Output limit of one call, reasoning included; never less than four times the requested summary. `0`: that, "
        "plus room to reason by the effort (1,000 tokens for `minimal`, 4,000, 8,000, 16,000, 32,000 for `xhigh`). "
        "Without an effort: 8,000 for GPT-5 and the o-series, none for other models.",
    )
    SUMMARIZER_TOTAL_SECONDS = Setting(
        40,
        Seconds(),
        "The longest call, retries included. For a high effort, raise it together with `MEMORY_FOLD_SECONDS`.",
    )
    MEMORY_MIN_RETAINED = Setting(
        0.5,
        Fraction(),
        "Share of the known numbers, ids and names that a new summary must keep. Below it, the summarizer is asked "
        "once more, and the better answer is marked for staff. `0`: accepts any.",
    )
    MEMORY_SUMMARIZER_INSTRUCTIONS = Setting(
        "",
        AnyText("text, or `@` and the path of a file"),
        "What the summarizer is told to keep, in place of the [policy's own words](policies.md#instructions). What it "
        "reads and how it must answer is added to it. A relative path starts at `CHATMEMORY_HOME`.",
        "the policy's",
    )
