"""Every setting, declared once: its default, its meaning, and how its value is checked and brought into one form.

The environment is read into `Config` (`chatmemory.config.environment`), `chatmemory.settings` names each value, and
docs/settings.md is rendered from it (`benchmarks.settings_page`). Values that need no other are constants in
`chatmemory.settings`. Those of policies are checked by `memory.conf`, which knows them.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args
from urllib.parse import unquote, urlsplit

import environ
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Json, StrictInt
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

from chatmemory.llm.known_models import price_of
from chatmemory.llm.openai.reading import MAX_MODEL_CHARS, Style, Terminal
from chatmemory.llm.protocol import Price, Upstream, Variant

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
TurnsAs = Literal["messages", "text"]
BudgetFor = Literal["memory", "prompt"]
RecallMode = Literal["auto", "lean", "generous", "always", "off"]
AcrossMode = Literal["off", "pins", "all"]

MAX_VARIANT_CHARS = 64
"""The maximum length of a variant's name: that of the columns that store it. A test compares them."""
UNBOUNDED = 10**9
"""An upper bound that only catches typing errors: the page of settings does not show it."""
MIB = 1024 * 1024


# --- Kinds of values. A validator's message follows the name of the setting, and never shows a secret. ---


def _number(default: float, meaning: str, *, at_least: float = 0, at_most: float = UNBOUNDED, unit: str = "") -> Any:
    """Declare a number."""
    allowed = f"{at_least:,} or more" if at_most == UNBOUNDED else f"{at_least:,} to {at_most:,}{unit}"
    return Field(default, ge=at_least, le=at_most, description=meaning, json_schema_extra={"allowed": allowed})


def _seconds(default: float, meaning: str, *, at_least: float = 0.05) -> Any:
    return _number(default, meaning, at_least=at_least, at_most=86_400, unit=" s")


def _value(default: Any, meaning: str, *, allowed: str = "", shown: str = "", is_secret: bool = False) -> Any:
    """Declare another value. `shown` is its default as the page shows it; `allowed` is needed if no type says it.

    A secret may stand in a file.
    """
    extra: JsonDict = {"allowed": allowed, "shown": shown, "is_secret": is_secret}
    return Field(default, description=meaning, json_schema_extra=extra)


def allowed(field: FieldInfo) -> str:
    """The values that a setting may have, for the page of settings."""
    if isinstance(extra := field.json_schema_extra, dict) and extra["allowed"]:
        return str(extra["allowed"])
    if field.annotation is bool:
        return "`true` or `false`"
    return ", ".join(f"`{word}`" for word in get_args(field.annotation)) or "text"


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable() and " " not in value


def _hosts(names: str) -> str:
    """Return the names as Django reads them, who knows `*.example.com` as `.example.com`, and no blanks."""
    return ",".join(name.strip() for name in names.replace("*.", ".").split(","))


def _require_secret(value: str) -> str:
    if not _is_plain(value):
        raise ValueError("must be printable ASCII without spaces; it is not shown here.")
    return value


def django_database(url: str) -> dict[str, Any]:
    """Django's settings for the database at a URL. Raise `ValueError`, without the URL: it carries a password."""
    refusal = ValueError(
        "must be sqlite:///path or postgres://user:password@host:port/name, where the port is a number, and in the "
        "user and the password / ? # @ : are written as %2F %3F %23 %40 %3A."
    )
    if not url.startswith(("sqlite:", "postgres:", "postgresql:")):
        raise refusal
    try:
        found: dict[str, Any] = environ.Env.db_url_config(url)
    except ValueError:
        raise refusal from None
    if "sqlite" in found["ENGINE"]:
        return found
    found["HOST"] = unquote(found["HOST"])  # a socket's folder, as %2Frun%2Fpostgresql
    is_named = found["NAME"] or "service" in found.get("OPTIONS", {})
    if not is_named or "@" in found["NAME"]:  # which is a piece of a password
        raise refusal
    return found


def _require_database(value: str) -> str:
    django_database(value)
    return value


def _require_endpoint(value: str) -> str:
    """The base URL of an API. The message does not show it, because URLs carry passwords."""
    try:
        parts = urlsplit(value)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not _is_plain(value) or "@" in parts.netloc or "?" in value or "#" in value:
        raise ValueError(
            "must be a URL of printable ASCII such as http://127.0.0.1:8080/v1, without user, query and fragment: "
            "paths are appended to it, and the key has its own setting."
        )
    return value


def _require_variable(value: str) -> str:
    """The name of an environment variable. In capitals alone, so that a key in its place is refused, and not shown."""
    if not re.fullmatch(r"[A-Z][A-Z0-9_]{0,99}", value):
        raise ValueError(
            "must be the name of an environment variable that holds the key, in capitals, such as GROQ_API_KEY, not "
            "the key itself."
        )
    return value


def _end_user_headers(raw: str) -> tuple[str, ...]:
    """Names of headers, always with our own: with a wrong name alone, all end users would share one account."""
    names = ("x-chatmemory-user", *_names(raw))
    if wrong := [one for one in names if not re.fullmatch(r"[a-z][a-z0-9-]{0,99}", one)]:
        raise ValueError(f"must be names of letters, digits and hyphens, unlike {wrong[0][:200]!r}.")
    return names


def _origins(raw: str) -> tuple[str, ...]:
    origins = _names(raw)
    if wrong := [one for one in origins if not re.fullmatch(r"https?://[a-z0-9.:\[\]-]{1,250}", one)]:
        raise ValueError(f"must be origins such as https://app.example.com, without a path, unlike {wrong[0][:200]!r}.")
    return origins


def _named(length: int) -> Any:
    def require(value: str) -> str:
        if not (0 < len(value) <= length and value.isprintable() and value == value.strip()):
            raise ValueError(f"must be a name of 1 to {length} printable characters, not {value[:200]!r}.")
        return value

    return AfterValidator(require)


def _names(raw: str) -> tuple[str, ...]:
    return tuple(one.strip().lower() for one in raw.split(",") if one.strip())


def _aliases(raw: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in raw.split(",") if pair.strip()]
    if not all(left.strip() and right.strip() for left, _, right in pairs):
        raise ValueError(f"must be pairs of names such as gpt-4.1=arco,*=arco, not {raw!r}.")
    return {left.strip(): right.strip() for left, _, right in pairs}


ModelName = Annotated[str, _named(MAX_MODEL_CHARS)]
Dollars = Annotated[Decimal, Field(ge=0, le=1_000_000)]


class PriceSettings(BaseModel):
    """A price in USD per million tokens. Its upper bound only catches typing errors."""

    model_config = ConfigDict(extra="forbid")

    input: Dollars
    cached: Dollars
    output: Dollars


def _extra_names(value: object) -> object:
    names = value if isinstance(value, list) else []
    if not isinstance(value, bool) and not (names and all(isinstance(one, str) for one in names)):
        raise ValueError('must be true, false, or a list of names such as ["top_k", "min_p"].')
    return value


class VariantSettings(BaseModel):
    """A model that clients can choose, as `MODEL_VARIANTS` declares it."""

    model_config = ConfigDict(extra="forbid")

    model: ModelName
    reasoning_effort: Effort | None = None
    max_output_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    price: PriceSettings | None = None
    base_url: Annotated[str, AfterValidator(_require_endpoint)] | None = None
    key_env: Annotated[str, AfterValidator(_require_variable)] | None = None
    style: Style | None = None
    fallback: str | None = None
    system: bool = True
    extra: Annotated[bool | tuple[str, ...], BeforeValidator(_extra_names)] = False

    def variant(self, name: str, upstream: Upstream | None) -> Variant:
        """This model under its public name, with its list price if none is declared."""
        price = Price(**dict(self.price)) if self.price else price_of(self.model)
        return Variant(
            name,
            self.model,
            self.reasoning_effort,
            self.max_output_tokens,
            price,
            upstream,
            system=self.system,
            extra=self.extra,
        )


# --- The settings, a class for each table of the page ---


class Area(BaseModel):
    """Base of the page's tables, each with its title."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class ServerSettings(Area, title="Server"):
    """How the server identifies itself, what it serves, and what it logs."""

    CHATMEMORY_HOME: str = _value(
        "",
        "The folder of `.env` and of `var/`, which holds what is written: the key, SQLite's database, `quickstart`'s "
        "logs. Only read from the environment.",
        shown="the checkout; `~/.chatmemory` if the wheel is installed",
    )
    DJANGO_SECRET_KEY: str = _value(
        "",
        "Signs sessions and queued tasks. All machines need the same key.",
        shown="generated once, kept in `var/secret-key`",
        is_secret=True,
    )
    DJANGO_DEBUG: bool = _value(
        False,
        "Django's debug mode. Never turn it on in production: its error pages show messages and settings.",
    )
    DJANGO_ALLOWED_HOSTS: Annotated[str, AfterValidator(_hosts)] = _value(
        "localhost,127.0.0.1,[::1]",
        "Host names that the server answers, separated by commas; `.example.com` has its subdomains, too.",
    )
    DJANGO_SECURE_SSL_REDIRECT: bool = _value(
        False,
        "Serves HTTPS only: redirect, HSTS, secure cookies. The server then trusts `X-Forwarded-Proto`.",
    )
    PLAYGROUND: Literal["staff", "open", "off"] = _value(
        "staff",
        "Who gets the page `/playground/`: `staff` after they sign in to the admin, `open` everyone (the "
        "page then asks for a token), `off` no one. `quickstart` opens it.",
    )
    LOG_LEVEL: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = _value("INFO", "The lowest level that is logged.")
    LOG_FORMAT: Literal["auto", "json", "console"] = _value(
        "auto", "`auto` is `console` on a terminal and `json` elsewhere."
    )
    METRICS_TOKEN: Annotated[str, AfterValidator(_require_secret)] = _value(
        "",
        "The server answers `GET /metrics` if the request has this as a bearer token ([Monitoring](monitoring.md)). "
        "Unset: never.",
        allowed="printable ASCII",
        is_secret=True,
    )
    END_USER_HEADER: Annotated[tuple[str, ...], BeforeValidator(_end_user_headers)] = _value(
        ("x-chatmemory-user",),
        "Headers by which [an app names the end user](apps.md) of a request, such as `X-OpenWebUI-User-Id`. "
        "`X-Chatmemory-User` always is one.",
        allowed="names, separated by commas",
    )
    CORS_ALLOWED_ORIGINS: Annotated[tuple[str, ...], BeforeValidator(_origins)] = _value(
        (),
        "Websites whose scripts may call `/v1/` with a token: [tokens in browsers](security.md#tokens-in-browsers).",
        allowed="origins such as `https://app.example.com`, separated by commas",
        shown="none",
    )
    WEBHOOK_ALLOW_PRIVATE: bool = _value(
        False,
        "Lets apps have [webhooks](webhooks.md) in private networks, and by plain HTTP. A token of an app "
        "can then make the worker send requests to machines in its network.",
    )


def _require_issuer(value: str) -> str:
    """The issuer of an OpenID provider. Its tokens and keys must not be read on their way, nor forged."""
    try:
        parts = urlsplit(_require_endpoint(value))
        is_safe = parts.scheme == "https" or parts.hostname in ("127.0.0.1", "localhost", "::1")
    except ValueError:
        is_safe = False
    if not is_safe or len(value) > 200:
        raise ValueError(
            "must be an https URL of at most 200 characters such as https://id.example.com/realms/main, exactly as "
            "`issuer` of the provider's discovery document has it."
        )
    return value


class SignInSettings(Area, title="Sign-in"):
    """Who may sign in to the admin and the playground, and how: [sign-in](sign-in.md)."""

    OIDC_ISSUER: Annotated[str, AfterValidator(_require_issuer)] = _value(
        "",
        "The OpenID provider, as `issuer` of its discovery document has it. Set: staff and people of the playground "
        "can sign in by it.",
        allowed="https URL",
    )
    OIDC_CLIENT_ID: str = _value("", "The name of this server at the provider.")
    OIDC_CLIENT_SECRET: Annotated[str, AfterValidator(_require_secret)] = _value(
        "", "Its secret there.", allowed="printable ASCII", is_secret=True
    )
    OIDC_GROUPS_CLAIM: str = _value(
        "groups",
        "The claim of the ID token with the groups of who signs in. Those that are groups of the admin, too, are "
        "given at each sign-in, and all others taken.",
    )
    OIDC_REQUIRED_GROUP: str = _value("", "Users without this group in the claim are refused.")
    OIDC_STAFF_GROUP: str = _value("", "This group in the claim makes staff, and its lack unmakes it.")
    LOCAL_PASSWORDS: bool = _value(
        True, "`off`: no sign-in with a password, at the admin, the playground or `/v1/auth/token`."
    )
    MCP_OAUTH: bool = _value(
        False, "`on`: agents whose hosts take no token, such as claude.ai, send people here to be let in to `/mcp`."
    )


class DatabaseSettings(Area, title="Database and queue"):
    """Where chats are stored, and how work for the worker is queued."""

    DATABASE_URL: Annotated[str, AfterValidator(_require_database)] = _value(
        "",
        "The database: `sqlite:///…` or `postgres://…`.",
        allowed="URL",
        shown="SQLite under `var/`",
        is_secret=True,
    )
    DATABASE_POOL_SIZE: int = _number(10, "PostgreSQL connections that one process may hold.", at_least=2, at_most=1000)


class LimitSettings(Area, title="Limits"):
    """How large a request may be, and how much one user may use. `0` switches a single `LIMIT_…` off."""

    REQUEST_MAX_BYTES: int = _number(2 * MIB, "The largest request body. A larger one gets 413.", at_least=1024)
    OPENAI_REQUEST_MAX_BYTES: int = _number(
        32 * MIB,
        "The largest body of `/v1/chat/completions` and `/v1/responses`, whose clients send whole histories, and of "
        "`/v1/chats/import`.",
        at_least=1024,
    )
    ATTACHMENTS_MAX_BYTES_PER_USER: int = _number(
        200 * MIB,
        "The images and files that are kept of one user, each stored once. Those sent longest ago go first; a mark "
        "that says what they were stays.",
    )
    ATTACHMENTS_KEEP_DAYS: int = _number(
        30, "How long images and files are kept after they were last sent. `0`: for ever."
    )
    RETENTION_DAYS: int = _number(
        0,
        "Days after its last message at which a chat [is erased](retention.md), unless it or its app says otherwise. "
        "`0`: never.",
        at_most=36_500,
    )
    TEMPORARY_CHAT_HOURS: int = _number(
        24,
        "Hours after its last message at which a temporary chat is erased.",
        at_least=1,
        at_most=8760,
    )
    ATTACHMENTS_SENT_AGAIN: int = _number(
        4,
        "Images and files of recent messages that the model is sent again with the next one, so that it can be asked "
        "about them; the newest first, 8 MiB together at most, besides the budget. `0`: none.",
        at_most=100,
    )
    MESSAGE_MAX_CHARS: int = _number(200_000, "The longest message, in code points.", at_least=1)
    RATE_LIMITS: bool = _value(True, "`off` disables every limit of use, and the server counts nothing for them.")
    LIMIT_REQUESTS_PER_MINUTE: int = _number(
        300,
        "Calls per user that ask a model, with those whose body is refused. A minute begins with its first call. Over "
        "it: 429 `rate_limited`.",
    )
    LIMIT_TOKENS_PER_DAY: int = _number(
        5_000_000,
        "Tokens per user in prompts and answers, per UTC day of the database's clock. Over it: 429 `quota_exceeded`. "
        "Tokens of the summarizer do not count.",
    )
    LIMIT_STREAMS: int = _number(50, "Replies that are generated for one user at the same time.")
    LIMIT_READERS: int = _number(
        100,
        "Additional readers of one user's replies, and of images and files, in one server process, beside the calls "
        "that started the replies. Over it: 429 `rate_limited`.",
    )
    LIMIT_RESUMMARIZE_PER_HOUR: int = _number(
        20,
        "Rebuilds of memory that a user requests or causes: resummarize, another policy, a wider window, restore, "
        "editing a folded message. An hour begins with its first rebuild. Over it: 429 `rate_limited`. Edits and "
        "deletions always work; their rebuild waits.",
    )
    LIMIT_WRITES_PER_MINUTE: int = _number(
        600,
        "Calls per user by other methods than `GET` that ask no model: changes and searches. A minute begins with its "
        "first call. Over it: 429 `rate_limited`.",
    )
    LIMIT_APP_STREAMS: int = _number(
        100,
        "Replies that one server process generates for an [app](apps.md) and all its end users at the same time; with "
        "100, others hardly notice when all begin at once. Raise it for the only app of a server. Over it: 429 "
        "`rate_limited`.",
    )
    LIMIT_APP_TOKENS_PER_DAY: int = _number(
        500_000_000,
        "Tokens of an app and all its end users in prompts and answers. A day begins with its first reply; a reply "
        "counts once it is written. Over it: 429 `quota_exceeded`.",
        at_most=2_000_000_000,
    )


class UpstreamSettings(Area, title="Model and upstream"):
    """Which model answers, and how long a reply may take.

    Without a key and a base URL, the built-in offline model answers.
    """

    OPENAI_API_KEY: Annotated[str, AfterValidator(_require_secret)] = _value(
        "", "The key for the model's server.", allowed="printable ASCII", is_secret=True
    )
    OPENAI_BASE_URL: Annotated[str, AfterValidator(_require_endpoint)] = _value(
        "",
        "Any server with OpenAI's API, such as vLLM, Ollama or LiteLLM.",
        allowed="URL",
        shown="OpenAI",
    )
    OPENAI_API_STYLE: Style = _value(
        "responses",
        "The API of the model's server: `responses` (Responses) or `chat` (Chat Completions).",
    )
    OPENAI_TERMINAL: Terminal = _value(
        "strict",
        "What completes a Chat Completions reply: `strict` only its `finish_reason`, `done` also "
        "`[DONE]`, for servers that leave `finish_reason` null.",
    )
    UPSTREAM_CONTROL_TOKENS: Literal["auto", "disarm", "send"] = _value(
        "auto",
        "Control tokens of chat templates (`<|im_start|>`, `[INST]`, `</s>`) in messages, sources and "
        "summaries. `disarm` puts a space into them, so that a self-hosted server reads them as text; `send` leaves "
        "them; `auto` disarms unless the upstream is OpenAI.",
    )
    MODEL_VARIANTS: Json[
        Annotated[dict[Annotated[str, _named(MAX_VARIANT_CHARS)], VariantSettings], Field(min_length=1)]
    ] = _value(
        {
            "arco": VariantSettings(model="gpt-5-mini"),
            "arco-pro": VariantSettings(model="gpt-5"),
            "deep-dive": VariantSettings(model="gpt-5.1"),
        },
        'Public name → `{"model", "reasoning_effort"?, "max_output_tokens"?, "price"?: {"input", "cached", "output"}, '
        '"base_url"?, "key_env"?, "style"?, "fallback"?, "system"?, "extra"?}`. Prices are USD per million tokens. A '
        "public name has at most 64 characters, a model's name 128. `base_url` to `fallback` are for [several "
        "providers](recipes.md#several-providers-and-a-fallback); `system` is `false` for models without a system "
        "role, such as Gemma 2: their instructions begin the first user message; `extra` is `true`, or a list of "
        "names, for [parameters](openai.md#parameters) beyond OpenAI's, such as `top_k`.",
        allowed="a JSON object",
        shown="`arco` gpt-5-mini, `arco-pro` gpt-5, `deep-dive` gpt-5.1",
    )
    OPENAI_MODEL_ALIASES: Annotated[dict[str, str], BeforeValidator(_aliases)] = _value(
        {},
        "Other names of variants for clients of OpenAI's API that have a model's name built in, such as "
        "`gpt-4.1=arco,*=arco`; `*` is any name that is not known.",
        allowed="`name=variant`, separated by commas",
    )
    OPENAI_CONVERSATION_HEADERS: Annotated[tuple[str, ...], BeforeValidator(_names)] = _value(
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
        "Headers by which clients of OpenAI's API name their conversation; the first that is sent counts.",
        allowed="names, separated by commas",
    )
    DEFAULT_MODEL_VARIANT: str = _value("arco", "The variant that answers where a request names none.")
    REPLY_FIRST_BYTE_SECONDS: float = _seconds(
        30,
        "Time until the model's first byte. Raise it for reasoning models that send nothing while they think.",
    )
    REPLY_IDLE_SECONDS: float = _seconds(30, "The longest pause within a reply.")
    REPLY_TOTAL_SECONDS: float = _seconds(300, "The longest time for one reply.")
    REPLY_DRAIN_SECONDS: float = _seconds(
        8, "Time for running replies to end when the server is told to stop.", at_least=0
    )


class MemorySettings(Area, title="Memory"):
    """What a prompt may contain, and when turns are folded.

    To *fold* turns is to summarize them into memory, in the background. The *window* is the newest turns of a chat,
    which the prompt contains verbatim. A *line* is the short form of a turn that does not fit verbatim.
    """

    MEMORY_ENABLED: bool = _value(True, "`false`: prompts hold the newest turns only, and nothing is summarized.")
    MEMORY_POLICY: str = _value("chunked", "The [policy](policies.md) of new chats.")
    MEMORY_POLICY_OPTIONS: Json[dict[str, dict[str, Any]]] = _value(
        {},
        "[Options of the policies](#options-of-policies) for every chat that does not choose them itself, such as "
        '`{"interval": {"every_turns": 8}}`.',
        allowed="a JSON object",
    )
    MEMORY_PROMPT_TOKEN_BUDGET: int = _number(
        3000,
        "Tokens of memory in a prompt, as rendered. Instructions, sources and the question come on top.",
        at_least=200,
    )
    MEMORY_BUDGET_FOR: BudgetFor = _value(
        "memory",
        "What that budget limits: `memory` alone, or the whole `prompt`. With `prompt`, instructions and "
        "question are never cut; sources and memory share what they leave.",
    )
    MEMORY_WINDOW_SHARE: float = _number(
        0.4,
        "Share of the budget for the newest turns. Longer replies are cut in their middle. `1`: they stay whole as far "
        "as the budget allows.",
        at_most=1,
    )
    MEMORY_TURNS_AS: TurnsAs = _value(
        "messages",
        "Verbatim turns as `messages` of their roles, or as lines of one block of `text`.",
    )
    SOURCES_TOKEN_BUDGET: int = _number(
        4000,
        "Tokens for the sources of a turn. Over it, the last ones are cut or left out, and the record of the prompt "
        "says so.",
    )
    MEMORY_K_RAW_TURNS: int = _number(
        3,
        "Newest turns that stay verbatim and are never folded. Policies with a window of their own do not use it.",
        at_least=1,
        at_most=50,
    )
    MEMORY_SUMMARY_TOKEN_CAP: int = _number(
        500,
        "The longest summary of the policy `chunked`, in tokens. Must be smaller than `MEMORY_PROMPT_TOKEN_BUDGET`.",
        at_least=50,
        at_most=100_000,
    )
    MEMORY_CHUNK_SUMMARIZE_THRESHOLD: int = _number(
        6000,
        "With the policy `chunked`, summary and unfolded turns above this many tokens start a fold.",
        at_least=200,
    )
    MEMORY_FOLD_BITE_TOKENS: int = _number(6000, "Turns in one request to the summarizer, in tokens.", at_least=500)
    MEMORY_REBUILD_EVERY_FOLDS: int = _number(
        0,
        "Rebuilds memory from the original messages after this many folds. `0`: never.",
        at_most=100_000,
    )


class RecallSettings(Area, title="Recall and embeddings"):
    """How earlier turns that match a question are found. They appear in the prompt verbatim, with any policy."""

    MEMORY_RECALL: RecallMode = _value(
        "auto",
        "When earlier turns are searched: `auto` where the message calls for it, `lean` less often, `generous` also "
        "for reports and orders, `always`, or `off`. [Recall](recall.md#lean-auto-or-generous) has the prices.",
    )
    MEMORY_ACROSS_CHATS: AcrossMode = _value(
        "off",
        "What the chats of one person share, unless they or their app decide: nothing, `pins`, or `all`, also what was "
        "said. [Memory across chats](person.md) says what that means.",
    )
    MEMORY_RECALL_SHARE: float = _number(
        0.2,
        "Share of the budget reserved for recalled text; more where there is room. `0`: recalls nothing.",
        at_most=0.9,
    )
    MEMORY_EMBEDDINGS_MODEL: ModelName = _value(
        "",
        "An embeddings model of the upstream, such as `text-embedding-3-small`. Recall then finds turns by meaning as "
        "well as by words, and clients can call `/v1/embeddings`.",
        allowed="at most 128 characters",
    )
    MEMORY_EMBEDDINGS_DIMENSIONS: int = _number(
        256, "Numbers in one vector. A model with a fixed size keeps its own.", at_least=1, at_most=4096
    )


class SummarizerSettings(Area, title="Summarizer"):
    """The model that writes summaries, and its instructions."""

    MEMORY_SUMMARIZER_MODEL: ModelName = _value(
        "gpt-5-nano", "The model that writes summaries.", allowed="at most 128 characters"
    )
    MEMORY_SUMMARIZER_EFFORT: Effort | None = _value(
        None,
        "How much it reasons, as far as the model knows the word. Unset: nothing is sent, so the upstream's default "
        "holds.",
        allowed="`none`, `minimal`, `low`, `medium`, `high`, `xhigh`",
        shown="the upstream's",
    )
    MEMORY_SUMMARIZER_OUTPUT_TOKENS: int = _number(
        0,
        "Output limit of one call, reasoning included; never less than four times the requested summary. `0`: that, "
        "plus room to reason by the effort (1,000 tokens for `minimal`, 4,000, 8,000, 16,000, 32,000 for `xhigh`). "
        "Without an effort: 8,000 for GPT-5 and the o-series, none for other models.",
        at_most=1_000_000,
    )
    SUMMARIZER_TOTAL_SECONDS: float = _seconds(
        40, "The longest call, retries included. Raise it for a high effort; a fold has 70 s at most."
    )
    MEMORY_SUMMARIZER_INSTRUCTIONS: str = _value(
        "",
        "What the summarizer is told to keep, in place of the [policy's own words](policies.md#instructions). What it "
        "reads and how it must answer is added to it. A relative path starts at `CHATMEMORY_HOME`.",
        allowed="text, or `@` and the path of a file",
        shown="the policy's",
    )


class WorkerSettings(Area, title="Worker"):
    """How the worker runs."""

    WORKER_THREADS: int = _number(
        16,
        "Tasks that one worker runs at once; each mostly waits for the summarizer.",
        at_least=1,
        at_most=1000,
    )
    WORKER_STOP_SECONDS: float = _seconds(
        8,
        "Time for running tasks to end when the worker is told to stop. Unfinished ones start again later.",
        at_least=0,
    )
    METRICS_PORT: int = _number(
        0,
        "The port on which the worker answers `GET /metrics`, without a token. `0`: on none.",
        at_most=65_535,
    )


class Config(
    ServerSettings,
    SignInSettings,
    DatabaseSettings,
    LimitSettings,
    UpstreamSettings,
    MemorySettings,
    RecallSettings,
    SummarizerSettings,
    WorkerSettings,
):
    """The value of every setting."""

    def variants(self, environment: Mapping[str, str]) -> dict[str, Variant]:
        """The variants by their names, with the keys that `environment` holds. A fallback has no fallback itself."""
        found = {
            name: one.variant(name, self._own_upstream(one, environment)) for name, one in self.MODEL_VARIANTS.items()
        }
        fallbacks = {name: found.get(one.fallback or "") for name, one in self.MODEL_VARIANTS.items()}
        return {name: replace(one, fallback=fallbacks[name]) for name, one in found.items()}

    def _own_upstream(self, one: VariantSettings, environment: Mapping[str, str]) -> Upstream | None:
        """The upstream of a variant that names one. The server's key is not sent to another address."""
        if not (one.base_url or one.key_env or one.style):
            return None
        key = "" if one.base_url else self.OPENAI_API_KEY
        if one.key_env:
            key = environment[one.key_env].strip()
        url = one.base_url or self.OPENAI_BASE_URL
        return Upstream(url, key, one.style or self.OPENAI_API_STYLE) if url or key else None

    def contradictions(self, environment: Mapping[str, str]) -> list[str]:
        """Sentences about values that are valid by themselves, but not together."""
        found = []
        variants = ", ".join(self.MODEL_VARIANTS)
        if self.DEFAULT_MODEL_VARIANT not in self.MODEL_VARIANTS:
            found.append(f"DEFAULT_MODEL_VARIANT is {self.DEFAULT_MODEL_VARIANT!r}, but must be one of {variants}.")
        for name, one in self.MODEL_VARIANTS.items():
            where, others = f"MODEL_VARIANTS[{name!r}]", [*self.MODEL_VARIANTS.keys() - {name}]
            if one.fallback is not None and one.fallback not in others:
                named = ", ".join(sorted(others)) or "there is none"
                found.append(f"{where}['fallback'] is {one.fallback!r}, but must be another variant: {named}.")
            key = environment.get(one.key_env, "") if one.key_env else "none"
            if not key or not _is_plain(key):
                found.append(
                    f"{where}['key_env'] is {one.key_env!r}: set that environment variable to the key, which is "
                    "printable ASCII without spaces."
                )
        if unknown := sorted({*self.OPENAI_MODEL_ALIASES.values()} - {*self.MODEL_VARIANTS}):
            found.append(f"OPENAI_MODEL_ALIASES has {', '.join(unknown)}, but must name variants: {variants}.")
        if self.MEMORY_SUMMARY_TOKEN_CAP >= self.MEMORY_PROMPT_TOKEN_BUDGET:
            found.append(
                f"MEMORY_SUMMARY_TOKEN_CAP is {self.MEMORY_SUMMARY_TOKEN_CAP}, but must be smaller than "
                "MEMORY_PROMPT_TOKEN_BUDGET, which it is part of."
            )
        if bool(self.OIDC_ISSUER) != bool(self.OIDC_CLIENT_ID):
            found.append("OIDC_ISSUER and OIDC_CLIENT_ID need each other: set both, or neither.")
        return found


SECRETS = frozenset(
    name
    for name, field in Config.model_fields.items()
    if isinstance(extra := field.json_schema_extra, dict) and extra.get("is_secret")
)
"""Settings that may stand in files, and that nothing shows."""
