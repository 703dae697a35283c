"""The settings of the service around memory: server, database, queue, limits, worker, and the model that replies."""

from __future__ import annotations

from chatmemory.config.kinds import (
    Aliases,
    AnyText,
    Boolean,
    Choice,
    Endpoint,
    Integer,
    Names,
    Seconds,
    Secret,
    Url,
)
from chatmemory.config.setting import Setting
from chatmemory.config.variants import DEFAULT_VARIANTS, VariantTable
from chatmemory.llm.openai.stream_parser import Style, Terminal


class ServerSettings:
    """How the server identifies itself, what it serves, and what it logs."""

    CHATMEMORY_HOME = Setting(
        "",
        AnyText(),
        "The folder of `.env` and of `var/`, which holds what is written: the key, SQLite's database, `quickstart`'s "
        "logs. Only read from the environment.",
        "the checkout; `~/.chatmemory` if the wheel is installed",
    )
    DJANGO_SECRET_KEY = Setting(
        "",
        AnyText(),
        "Signs sessions and queued tasks. All machines need the same key.",
        "generated once, kept in `var/secret-key`",
    )
    DJANGO_DEBUG = Setting(
        False,
        Boolean(),
        "Django's debug mode. Never turn it on in production: its error pages show messages and settings.",
    )
    DJANGO_ALLOWED_HOSTS = Setting(
        "localhost,127.0.0.1,[::1]", AnyText(), "Host names that the server answers, separated by commas."
    )
    DJANGO_SECURE_SSL_REDIRECT = Setting(
        False,
        Boolean(),
        "Serves HTTPS only: redirect, HSTS, secure cookies. The server then trusts `X-Forwarded-Proto`.",
    )
    PLAYGROUND = Setting(
        "staff",
        Choice(("staff", "open", "off")),
        "Who gets the page `/playground/`: `staff` after they sign in to the admin, `open` anybody (the page then asks "
        "for a token), `off` nobody. `quickstart` opens it.",
    )
    LOG_LEVEL = Setting(
        "INFO", Choice(("DEBUG", "INFO", "WARNING", "ERROR")), "The lowest level that is logged."
    )
    LOG_FORMAT = Setting(
        "auto", Choice(("auto", "json", "console")), "`auto` is `console` on a terminal and `json` elsewhere."
    )


class DatabaseSettings:
    """Where chats are stored, and how work for the worker is queued."""

    DATABASE_URL = Setting(
        "",
        Url(("sqlite", "postgres", "postgresql")),
        "The database: `sqlite:///…` or `postgres://…`.",
        "SQLite under `var/`",
    )
    DATABASE_POOL_SIZE = Setting(
        10, Integer(at_least=2, at_most=1000), "PostgreSQL connections that one process may hold."
    )


class LimitSettings:
    """How large a request may be, and how much one user may use. `0` switches a single `LIMIT_…` off."""

    REQUEST_MAX_BYTES = Setting(
        2 * 1024 * 1024, Integer(at_least=1024), "The largest request body. A larger one gets 413."
    )
    OPENAI_REQUEST_MAX_BYTES = Setting(
        32 * 1024 * 1024,
        Integer(at_least=1024),
        "The largest body of `/v1/chat/completions`, whose clients send the whole history each time.",
    )
    ATTACHMENT_MAX_BYTES = Setting(
        20 * 1024 * 1024, Integer(at_least=1024), "The largest image or file that a message may have."
    )
    ATTACHMENTS_MAX_BYTES_PER_USER = Setting(
        200 * 1024 * 1024,
        Integer(),
        "The images and files that are kept of one user, each stored once. Those sent longest ago go first; a mark "
        "that says what they were stays.",
    )
    ATTACHMENTS_KEEP_DAYS = Setting(
        30, Integer(), "How long images and files are kept after they were last sent. `0`: for ever."
    )
    ATTACHMENTS_SENT_AGAIN = Setting(
        4,
        Integer(at_most=100),
        "Images and files of recent messages that the model is sent again with the next one, so that it can be asked "
        "about them; the newest first, 8 MiB together at most, besides the budget. `0`: none.",
    )
    REQUEST_HEAD_MAX_BYTES = Setting(
        64 * 1024,
        Integer(at_least=4096, at_most=1024 * 1024),
        "URL and headers together. Larger ones get 431; a URL of more than half of it gets 414.",
    )
    REQUEST_RECEIVE_SECONDS = Setting(
        20,
        Seconds(at_least=0.5),
        "Time for the headers of a request to arrive, and the longest pause within its body. Then it gets 408.",
    )
    MESSAGE_MAX_CHARS = Setting(200_000, Integer(at_least=1), "The longest message, in code points.")
    INSTRUCTIONS_MAX_CHARS = Setting(20_000, Integer(), "The longest instructions of a chat or a turn.")
    METADATA_MAX_BYTES = Setting(
        16 * 1024,
        Integer(at_least=2),
        "The largest `metadata` of a chat or a message, and the largest `options`, as JSON in UTF-8.",
    )
    IMPORT_METADATA_MAX_BYTES = Setting(
        1024 * 1024,
        Integer(at_least=2),
        "The same where `import_chat` stores a message: recorded tool calls and their outputs are kept there.",
    )
    RATE_LIMITS = Setting(
        True, Boolean(), "`off` disables every `LIMIT_…`, and the server counts nothing for them."
    )
    LIMIT_REQUESTS_PER_MINUTE = Setting(
        300,
        Integer(),
        "Calls per user that ask a model, with those whose body is refused. A minute begins with its first call. Over "
        "it: 429 `rate_limited`.",
    )
    LIMIT_TOKENS_PER_DAY = Setting(
        5_000_000,
        Integer(),
        "Tokens per user in prompts and answers, per UTC day of the database's clock. Over it: 429 `quota_exceeded`. "
        "Tokens of the summarizer do not count.",
    )
    LIMIT_STREAMS = Setting(50, Integer(), "Replies that are generated for one user at the same time.")
    LIMIT_READERS = Setting(
        100,
        Integer(),
        "Additional readers of one user's replies, and of images and files, in one server process, beside the calls "
        "that started the replies. Over it: 429 `rate_limited`.",
    )
    LIMIT_RESUMMARIZE_PER_HOUR = Setting(
        20,
        Integer(),
        "Rebuilds of memory that a user requests or causes: resummarize, another policy, a wider window, restore, "
        "editing a folded message. An hour begins with its first rebuild. Over it: 429 `rate_limited`. Edits and "
        "deletions always work; their rebuild waits.",
    )
    LIMIT_OUTPUT_TOKENS_RESERVED = Setting(
        2000,
        Integer(),
        "Tokens reserved for a reply until its real length is known, where its variant has no `max_output_tokens`.",
    )
    LIMIT_EXPORT_SECONDS = Setting(
        60,
        Integer(at_most=86_400),
        "Time between two exports of all data of a user. Earlier ones get 429 `rate_limited`.",
    )
    LIMIT_SIGN_INS = Setting(
        10,
        Integer(),
        "Wrong passwords per minute for one name from one address. One address, or one name from all addresses, may "
        "fail ten times as often. An IPv6 /64 network counts as one address.",
    )


class UpstreamSettings:
    """Which model answers, and how long a reply may take.

    Without a key and a base URL, the built-in offline model answers.
    """

    OPENAI_API_KEY = Setting("", Secret(), "The key for the model's server.")
    OPENAI_BASE_URL = Setting(
        "", Endpoint(), "Any server with OpenAI's API, such as vLLM, Ollama or LiteLLM.", "OpenAI"
    )
    OPENAI_API_STYLE: Setting[Style] = Setting(
        "responses",
        Choice(("responses", "chat")),
        "The API of the model's server: `responses` (Responses) or `chat` (Chat Completions).",
    )
    OPENAI_TERMINAL: Setting[Terminal] = Setting(
        "strict",
        Choice(("strict", "done")),
        "What completes a Chat Completions reply: `strict` only its `finish_reason`, `done` also `[DONE]`, for servers "
        "that leave `finish_reason` null.",
    )
    UPSTREAM_CONTROL_TOKENS = Setting(
        "auto",
        Choice(("auto", "disarm", "send")),
        "Control tokens of chat templates (`<|im_start|>`, `[INST]`, `</s>`) in messages, sources and summaries. "
        "`disarm` puts a space into them, so that a self-hosted server reads them as text; `send` leaves them; `auto` "
        "disarms unless the upstream is OpenAI.",
    )
    MODEL_VARIANTS = Setting(
        DEFAULT_VARIANTS,
        VariantTable(),
        'Public name → `{"model", "reasoning_effort"?, "max_output_tokens"?, "price"?: {"input", "cached", "output"}}`.'
        " Prices are USD per million tokens. A public name has at most 64 characters, a model's name 128.",
        "`arco` gpt-5-mini, `arco-pro` gpt-5, `deep-dive` gpt-5.1",
    )
    OPENAI_MODEL_ALIASES: Setting[dict[str, str]] = Setting(
        {},
        Aliases(),
        "Other names of variants for clients of OpenAI's API that have a model's name built in, such as "
        "`gpt-4.1=arco,*=arco`; `*` is any name that is not known.",
        "none",
    )
    OPENAI_CONVERSATION_HEADERS = Setting(
        (
            "x-chatmemory-conversation-id",
            "x-openwebui-chat-id",
            "x-conversation-id",
            "x-chat-id",
            "x-session-id",
            "session-id",
            "x-litellm-session-id",
            "x-sm-conversation-id",
        ),
        Names(),
        "Headers by which clients of OpenAI's API name their conversation; the first that is sent counts.",
        "`x-chatmemory-conversation-id`, `x-openwebui-chat-id`, `x-conversation-id`, `x-chat-id`, `x-session-id`, "
        "`session-id`, `x-litellm-session-id`, `x-sm-conversation-id`",
    )
    DEFAULT_MODEL_VARIANT = Setting("arco", AnyText(), "The variant that answers where a request names none.")
    REPLY_FIRST_BYTE_SECONDS = Setting(
        30,
        Seconds(),
        "Time until the model's first byte. Raise it for reasoning models that send nothing while they think.",
    )
    REPLY_IDLE_SECONDS = Setting(30, Seconds(), "The longest pause within a reply.")
    REPLY_TOTAL_SECONDS = Setting(300, Seconds(), "The longest time for one reply.")
    REPLY_MAX_BYTES = Setting(2 * 1024 * 1024, Integer(at_least=1), "The largest reply.")
    REPLY_CHECKPOINT_SECONDS = Setting(0.5, Seconds(), "How often a partial reply is stored.")
    REPLY_LEASE_SECONDS = Setting(
        15,
        Seconds(at_least=1),
        "A reply counts as interrupted when its process has given no sign for this long. At least four times "
        "`REPLY_CHECKPOINT_SECONDS`.",
    )
    REPLY_DRAIN_SECONDS = Setting(
        8, Seconds(at_least=0), "Time for running replies to end when the server is told to stop."
    )


class WorkerSettings:
    """How the worker runs, how the server notices when it does not, and how often it repairs what a crash left."""

    WORKER_THREADS = Setting(
        16,
        Integer(at_least=1, at_most=1000),
        "Tasks that one worker runs at once; each mostly waits for the summarizer.",
    )
    WORKER_STOP_SECONDS = Setting(
        8,
        Seconds(at_least=0),
        "Time for running tasks to end when the worker is told to stop. Unfinished ones start again later.",
    )
    SWEEP_SECONDS = Setting(
        60, Seconds(), "How often the worker looks for what a crash left behind, rounded up to whole minutes."
    )
