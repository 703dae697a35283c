"""All settings of chatmemory, read from the environment once. The README's table says what each one means."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import cast

import environ
from django.core.exceptions import ImproperlyConfigured

from chatmemory import env
from chatmemory.llm.openai.stream_parser import Style, Terminal
from chatmemory.llm.prices import price_of
from chatmemory.llm.protocol import Deadlines, Variant
from chatmemory.runtime.logging_config import logging_config
from conversations.accounts.limits import Limits
from memory.limits import RECALL_MODES, MemoryLimits, RecallMode
from memory.policies import PER_POLICY, POLICIES

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = BASE_DIR / "var"
environ.Env.read_env(BASE_DIR / ".env")


def _secret_key() -> str:
    """The configured key, or one of this checkout's own, made at first use and shared by its processes."""
    if configured := env.text("DJANGO_SECRET_KEY"):
        return configured
    path = VAR_DIR / "secret-key"
    VAR_DIR.mkdir(exist_ok=True)
    if not path.exists():
        # Linked when it is whole: processes that start together all read the first one's key, and never half of it.
        own = VAR_DIR / f"secret-key.{secrets.token_hex(8)}"
        with os.fdopen(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(50))
        with suppress(FileExistsError):
            os.link(own, path)
        own.unlink()
    return path.read_text()


# --- Django ----------------------------------------------------------------------------------------------------------

DEBUG = env.boolean("DJANGO_DEBUG", False)
SECRET_KEY = _secret_key()
ALLOWED_HOSTS = env.text("DJANGO_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",")
SECURE_SSL_REDIRECT = env.boolean("DJANGO_SECURE_SSL_REDIRECT", False)
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]  # probes come from inside, and carry nothing
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_HSTS_SECONDS = 31_536_000 if SECURE_SSL_REDIRECT else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_SSL_REDIRECT
SECURE_HSTS_PRELOAD = (
    False  # it binds a whole domain for years, also what is not ours: its owner's to ask for
)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SECURE_SSL_REDIRECT else None
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# Pages load what is ours alone, and nothing inline: what people said could do nothing even if it were rendered.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],  # /v1/docs draws its arrows from data
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}
# They look for Django's middleware by name; ours are subclasses. `chatmemory.checks` asks the same of these.
SILENCED_SYSTEM_CHECKS = ["security.W001", "security.W002", "security.W003"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "rest_framework",
    "knox",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_q",
    "conversations",
    "memory",
    "chatmemory",
]
MIDDLEWARE = [
    "chatmemory.api.middleware.RequestMiddleware",
    "chatmemory.api.middleware.SecurityMiddleware",
    "chatmemory.api.middleware.ContentSecurityPolicyMiddleware",
    "chatmemory.api.middleware.XFrameOptionsMiddleware",
    "chatmemory.api.middleware.StaticFilesMiddleware",
    "chatmemory.api.middleware.SessionMiddleware",
    "chatmemory.api.middleware.CommonMiddleware",
    "chatmemory.api.middleware.CsrfViewMiddleware",
    "chatmemory.api.middleware.AuthenticationMiddleware",
    "chatmemory.api.middleware.MessageMiddleware",
]
ROOT_URLCONF = "chatmemory.urls"
ASGI_APPLICATION = "chatmemory.asgi.application"
APPEND_SLASH = True  # the admin's URLs end in a slash; those of the API do not, and never redirect
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOGGING_CONFIG = "logging.config.dictConfig"
LOGGING = logging_config(
    style=env.choice("LOG_FORMAT", "auto", ("auto", "json", "console")),
    level=env.choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR")),
)

# --- Database, queue ------------------------------------------------------------------------------------------

DATABASE_URL = (
    env.url("DATABASE_URL", ("sqlite", "postgres", "postgresql"))
    or f"sqlite:///{VAR_DIR / 'chatmemory.sqlite3'}"
)
DATABASE_POOL_SIZE = env.integer("DATABASE_POOL_SIZE", 10, at_least=2, at_most=1000)
_database = env.database("DATABASE_URL", DATABASE_URL)
IS_SQLITE = _database["ENGINE"] == "django.db.backends.sqlite3"
if IS_SQLITE:
    env.make_folder("DATABASE_URL", Path(_database["NAME"]).parent)
    # WAL: readers never wait. IMMEDIATE: writers queue instead of failing. FULL: acknowledged is on the disk.
    # secure_delete: what is deleted is overwritten, not only let go of; forgotten text would else stay in the file.
    # The queue is not a fair one: among 16 that write without a pause, one may wait until the others are through
    # (measured: 8 s, where the median is 3 ms). So patience is long.
    _database["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 60,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-16000; "
        "PRAGMA secure_delete=ON;",
    }
    _database["TEST"] = {"NAME": f"{_database['NAME']}.test"}
else:
    _database["CONN_HEALTH_CHECKS"] = True
    _database["OPTIONS"] = {
        # A connection whose other end is gone without a word ends within half a minute: else it would wait for hours.
        "connect_timeout": 10,
        "keepalives_idle": 15,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
        **_database.get("OPTIONS", {}),
        "pool": {"min_size": 1, "max_size": DATABASE_POOL_SIZE, "timeout": 10},
    }
_database["CONN_MAX_AGE"] = 0  # under ASGI, threads come and go; our own executors keep what is worth keeping
DATABASES = {"default": _database}

REDIS_URL = env.url("REDIS_URL", ("redis", "rediss", "unix"))
# Never a shared one: Django's hold pickles that nobody signed, so who can write to it could run code in the worker.
# Nothing of ours is cached; django-q2 keeps the statistics of its processes here.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

Q_BROKER = env.choice("Q_BROKER", "orm", ("orm", "redis"))
if Q_BROKER == "redis" and not REDIS_URL:
    raise ImproperlyConfigured(
        "Q_BROKER is 'redis', but REDIS_URL is empty: name the Redis server to queue on."
    )
Q_WORKERS = env.integer("Q_WORKERS", 2, at_least=1, at_most=64)
Q_TIMEOUT = 120
"""Seconds after which the queue ends a task. Our own limits within each task are far below."""
Q_CLUSTER = {
    "name": "chatmemory",
    "label": "Queue",
    "workers": Q_WORKERS,
    # Prefetch little: what a killed worker had prefetched is done twice.
    "queue_limit": 2,
    "timeout": Q_TIMEOUT,
    "retry": 300,
    "max_attempts": 5,
    "ack_failures": False,
    "bulk": 1,
    "poll": 0.5,
    "catch_up": False,
    "save_limit": 100,
    "recycle": 200,
    **(
        {"orm": "default", "broker_class": "memory.worker.broker.OrmBroker"}
        if Q_BROKER == "orm"
        else {"redis": REDIS_URL, "broker_class": "memory.worker.redis_broker.RedisBroker"}
    ),
}
WORKER_CANARY_SECONDS = env.seconds("WORKER_CANARY_SECONDS", 5, at_least=0.1)
WORKER_PATIENCE_SECONDS = env.seconds("WORKER_PATIENCE_SECONDS", 30)
WORKER_STOP_SECONDS = env.seconds("WORKER_STOP_SECONDS", 8, at_least=0)
if WORKER_PATIENCE_SECONDS < 3 * WORKER_CANARY_SECONDS:
    raise env.fail(
        "WORKER_PATIENCE_SECONDS", WORKER_PATIENCE_SECONDS, "at least three times WORKER_CANARY_SECONDS"
    )

# --- API -------------------------------------------------------------------------------------------------------------

REQUEST_MAX_BYTES = env.integer("REQUEST_MAX_BYTES", 2 * 1024 * 1024, at_least=1024)
REQUEST_HEAD_MAX_BYTES = env.integer("REQUEST_HEAD_MAX_BYTES", 64 * 1024, at_least=4096, at_most=1024 * 1024)
REQUEST_RECEIVE_SECONDS = env.seconds("REQUEST_RECEIVE_SECONDS", 20, at_least=0.5)
MESSAGE_MAX_CHARS = env.integer("MESSAGE_MAX_CHARS", 200_000, at_least=1)
INSTRUCTIONS_MAX_CHARS = env.integer("INSTRUCTIONS_MAX_CHARS", 20_000, at_least=0)
METADATA_MAX_BYTES = env.integer("METADATA_MAX_BYTES", 16 * 1024, at_least=2)
DATA_UPLOAD_MAX_MEMORY_SIZE = REQUEST_MAX_BYTES
RATE_LIMITS = env.boolean("RATE_LIMITS", True)
LIMITS = Limits(
    requests_per_minute=env.integer("LIMIT_REQUESTS_PER_MINUTE", 300),
    tokens_per_day=env.integer("LIMIT_TOKENS_PER_DAY", 5_000_000),
    streams=env.integer("LIMIT_STREAMS", 50),
    readers=env.integer("LIMIT_READERS", 100),
    resummarize_per_hour=env.integer("LIMIT_RESUMMARIZE_PER_HOUR", 20),
)
LIMIT_OUTPUT_TOKENS_RESERVED = env.integer("LIMIT_OUTPUT_TOKENS_RESERVED", 2000)
LIMIT_EXPORT_SECONDS = env.integer("LIMIT_EXPORT_SECONDS", 60, at_most=86_400)
LIMIT_SIGN_INS = env.integer("LIMIT_SIGN_INS", 10)
PLAYGROUND = env.choice("PLAYGROUND", "staff", ("staff", "open", "off"))
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "chatmemory.api.http.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["chatmemory.api.http.JSONBody"],
    "DEFAULT_SCHEMA_CLASS": "chatmemory.api.openapi.hooks.OperationSchema",
    "EXCEPTION_HANDLER": "chatmemory.api.error_handler.exception_handler",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
REST_KNOX = {"AUTH_HEADER_PREFIX": "Bearer", "TOKEN_TTL": None}
SPECTACULAR_SETTINGS = {
    "TITLE": "chatmemory",
    "DESCRIPTION": "A memory for LLM chats: every message stored, replies streamed, every prompt within its budget.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "TAGS": [{"name": name} for name in ("messages", "chats", "memory", "stateless", "account", "health")],
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "chatmemory.api.openapi.hooks.completed",
    ],
}

# --- Models ----------------------------------------------------------------------------------------------------------

OPENAI_API_KEY = env.secret("OPENAI_API_KEY")
OPENAI_BASE_URL = env.endpoint("OPENAI_BASE_URL")
OPENAI_API_STYLE: Style = (
    "chat" if env.choice("OPENAI_API_STYLE", "responses", ("responses", "chat")) == "chat" else "responses"
)
UPSTREAM_CONTROL_TOKENS = env.choice("UPSTREAM_CONTROL_TOKENS", "auto", ("auto", "disarm", "send"))
OPENAI_TERMINAL: Terminal = (
    "done" if env.choice("OPENAI_TERMINAL", "strict", ("strict", "done")) == "done" else "strict"
)
MODEL_VARIANTS = env.variants(
    "MODEL_VARIANTS",
    {"arco": {"model": "gpt-5-mini"}, "arco-pro": {"model": "gpt-5"}, "deep-dive": {"model": "gpt-5.1"}},
)
DEFAULT_MODEL_VARIANT = env.text("DEFAULT_MODEL_VARIANT", "arco")
if DEFAULT_MODEL_VARIANT not in MODEL_VARIANTS:
    raise env.fail("DEFAULT_MODEL_VARIANT", DEFAULT_MODEL_VARIANT, f"one of {', '.join(MODEL_VARIANTS)}")

REPLY_DEADLINES = Deadlines(
    first_byte=env.seconds("REPLY_FIRST_BYTE_SECONDS", 30),
    idle=env.seconds("REPLY_IDLE_SECONDS", 30),
    total=env.seconds("REPLY_TOTAL_SECONDS", 300),
    max_bytes=env.integer("REPLY_MAX_BYTES", 2 * 1024 * 1024, at_least=1),
)
REPLY_CHECKPOINT_SECONDS = env.seconds("REPLY_CHECKPOINT_SECONDS", 0.5)
REPLY_LEASE_SECONDS = env.seconds("REPLY_LEASE_SECONDS", 15, at_least=1)
REPLY_DRAIN_SECONDS = env.seconds("REPLY_DRAIN_SECONDS", 8, at_least=0)
if REPLY_LEASE_SECONDS < 4 * REPLY_CHECKPOINT_SECONDS:
    raise env.fail("REPLY_LEASE_SECONDS", REPLY_LEASE_SECONDS, "at least four times REPLY_CHECKPOINT_SECONDS")

# --- Memory ----------------------------------------------------------------------------------------------------------

MEMORY_POLICY = env.choice("MEMORY_POLICY", "chunked", POLICIES)
MEMORY_LIMITS = MemoryLimits(
    k_raw_turns=env.integer("MEMORY_K_RAW_TURNS", 3, at_least=1, at_most=50),
    summary_cap=env.integer("MEMORY_SUMMARY_TOKEN_CAP", 500, at_least=50, at_most=100_000),
    prompt_budget=env.integer("MEMORY_PROMPT_TOKEN_BUDGET", 3000, at_least=200),
    budget_for="prompt"
    if env.choice("MEMORY_BUDGET_FOR", "memory", ("memory", "prompt")) == "prompt"
    else "memory",
    threshold=env.integer("MEMORY_CHUNK_SUMMARIZE_THRESHOLD", 6000, at_least=200),
    line_tokens=env.integer("MEMORY_LINE_TOKENS", 40, at_least=8, at_most=1000),
    bite_tokens=env.integer("MEMORY_FOLD_BITE_TOKENS", 6000, at_least=500),
    min_fold_tokens=env.integer("MEMORY_MIN_FOLD_TOKENS", 1000),
    recall=cast(RecallMode, env.choice("MEMORY_RECALL", "auto", RECALL_MODES)),
    recall_share=env.share("MEMORY_RECALL_SHARE", 0.2, at_most=0.9),
    window_share=env.share("MEMORY_WINDOW_SHARE", 0.4),
    sources_budget=env.integer("SOURCES_TOKEN_BUDGET", 4000),
    turns_as="text"
    if env.choice("MEMORY_TURNS_AS", "messages", ("messages", "text")) == "text"
    else "messages",
    enabled=env.boolean("MEMORY_ENABLED", True),
    numbers={name: env.numbers(f"MEMORY_{name.upper()}_", kind) for name, kind in PER_POLICY.items()},
)
if MEMORY_LIMITS.summary_cap >= MEMORY_LIMITS.prompt_budget:
    raise env.fail(
        "MEMORY_SUMMARY_TOKEN_CAP",
        MEMORY_LIMITS.summary_cap,
        "smaller than MEMORY_PROMPT_TOKEN_BUDGET, which it is part of",
    )
_summarizer = env.model("MEMORY_SUMMARIZER_MODEL", "gpt-5-nano")
SUMMARIZER = Variant(
    name="summarizer",
    model=_summarizer,
    reasoning_effort=env.effort("MEMORY_SUMMARIZER_EFFORT"),
    max_output_tokens=env.integer("MEMORY_SUMMARIZER_OUTPUT_TOKENS", 0, at_most=1_000_000) or None,
    price=price_of(_summarizer),
)
SUMMARIZER_TOTAL_SECONDS = env.seconds("SUMMARIZER_TOTAL_SECONDS", 40)
PROMPT_ID_SUMMARY_GLOBAL = env.text("PROMPT_ID_SUMMARY_GLOBAL")
PROMPT_VERSION_SUMMARY_GLOBAL = env.text("PROMPT_VERSION_SUMMARY_GLOBAL")
MEMORY_FOLD_SECONDS = env.seconds("MEMORY_FOLD_SECONDS", 45, at_most=70)
MEMORY_FOLD_LEASE_SECONDS = env.seconds("MEMORY_FOLD_LEASE_SECONDS", 120)
MEMORY_FOLD_ATTEMPTS = env.integer("MEMORY_FOLD_ATTEMPTS", 5, at_least=1)
MEMORY_FOLD_BACKOFF_SECONDS = env.seconds("MEMORY_FOLD_BACKOFF_SECONDS", 10)
MEMORY_MIN_RETAINED = env.share("MEMORY_MIN_RETAINED", 0.5)
MEMORY_REBUILD_EVERY_FOLDS = env.integer("MEMORY_REBUILD_EVERY_FOLDS", 0, at_most=100_000)
MEMORY_EMBEDDINGS_MODEL = env.model("MEMORY_EMBEDDINGS_MODEL")
MEMORY_EMBEDDINGS_FOLDER = env.embeddings_folder("MEMORY_EMBEDDINGS_FOLDER")
MEMORY_EMBEDDINGS_DIMENSIONS = env.integer("MEMORY_EMBEDDINGS_DIMENSIONS", 256, at_least=1, at_most=4096)
MEMORY_EMBEDDINGS_SECONDS = env.seconds("MEMORY_EMBEDDINGS_SECONDS", 0.3, at_most=10)
SWEEP_SECONDS = env.seconds("SWEEP_SECONDS", 60)
