"""Django's settings, and ours as read from the environment: `chatmemory.config` declares those."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

from chatmemory.config import page
from chatmemory.config.kinds import database, make_folder, text_or_file
from chatmemory.config.memory import (
    ChunkedSettings,
    MemorySettings,
    RecallSettings,
    SummarizerSettings,
)
from chatmemory.config.names import check_names
from chatmemory.config.relations import check_relations
from chatmemory.config.service import (
    DatabaseSettings,
    LimitSettings,
    ServerSettings,
    UpstreamSettings,
    WorkerSettings,
)
from chatmemory.config.setting import read_numbers
from chatmemory.llm.prices import price_of
from chatmemory.llm.protocol import Deadlines, Variant
from chatmemory.runtime.logging_config import logging_config
from conversations.accounts.limits import Limits
from memory.limits import MemoryLimits
from memory.policies import PER_POLICY

PACKAGE_DIR = Path(__file__).resolve().parent
BASE_DIR = PACKAGE_DIR.parent
_templates = PACKAGE_DIR / "templates"
IS_INSTALLED = _templates.is_dir()
"""True where the wheel is installed, which has the templates inside of the package: then nothing is written here."""
_home = ServerSettings.CHATMEMORY_HOME.read() or ("~/.chatmemory" if IS_INSTALLED else str(BASE_DIR))
HOME = Path(_home).expanduser().resolve()
VAR_DIR = HOME / "var"
environ.Env.read_env(HOME / ".env")
if (ServerSettings.CHATMEMORY_HOME.read() or _home) != _home:
    del os.environ["CHATMEMORY_HOME"]  # Django may load the settings again after an error
    raise ImproperlyConfigured("CHATMEMORY_HOME cannot be set in .env, which is a file in it.")
check_names(os.environ, page.names())


def _secret_key() -> str:
    """The configured key, or a key of this installation, created at first use and shared by its processes."""
    if configured := ServerSettings.DJANGO_SECRET_KEY.read():
        return configured
    path = VAR_DIR / "secret-key"
    make_folder("CHATMEMORY_HOME", VAR_DIR)
    if not path.exists():
        # Linked when it is complete: processes that start together all read the first one's key, and never half of
        # it.
        own = VAR_DIR / f"secret-key.{secrets.token_hex(8)}"
        with os.fdopen(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(50))
        with suppress(FileExistsError):
            os.link(own, path)
        own.unlink()
    return path.read_text()


# --- Django ----------------------------------------------------------------------------------------------------------

DEBUG = ServerSettings.DJANGO_DEBUG.read()
SECRET_KEY = _secret_key()
ALLOWED_HOSTS = ServerSettings.DJANGO_ALLOWED_HOSTS.read().split(",")
SECURE_SSL_REDIRECT = ServerSettings.DJANGO_SECURE_SSL_REDIRECT.read()
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]  # probes come from inside, without secrets
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_HSTS_SECONDS = 31_536_000 if SECURE_SSL_REDIRECT else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_SSL_REDIRECT
SECURE_HSTS_PRELOAD = (
    False  # it binds a whole domain for years, including hosts that are not ours: a decision for its owner
)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SECURE_SSL_REDIRECT else None
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# Pages load only our own files, and nothing inline: text from chats could do nothing even if it were rendered as
# HTML.
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
# They look for Django's middleware by name; ours are subclasses. `chatmemory.checks` checks those.
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
        "DIRS": [_templates if IS_INSTALLED else BASE_DIR / "templates"],
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
LOGIN_REDIRECT_URL = "admin:index"  # where a sign-in ends whose `next` is a foreign address
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOGGING_CONFIG = "logging.config.dictConfig"
LOGGING = logging_config(
    style=ServerSettings.LOG_FORMAT.read(),
    level=ServerSettings.LOG_LEVEL.read(),
)

# --- Database, queue ------------------------------------------------------------------------------------------

DATABASE_URL = DatabaseSettings.DATABASE_URL.read() or f"sqlite:///{VAR_DIR / 'chatmemory.sqlite3'}"
DATABASE_POOL_SIZE = DatabaseSettings.DATABASE_POOL_SIZE.read()
_database = database("DATABASE_URL", DATABASE_URL)
IS_SQLITE = _database["ENGINE"] == "django.db.backends.sqlite3"
if IS_SQLITE:
    make_folder("DATABASE_URL", Path(_database["NAME"]).parent)
    # WAL: readers never wait. IMMEDIATE: writers queue instead of failing. FULL: acknowledged writes are on disk.
    # secure_delete: deleted text is overwritten; otherwise it would stay in the file. The queue is not fair: among 16
    # threads that write without pause, one may wait until the others are done (measured: 8 s, with a median of 3 ms).
    # So the timeout is long.
    _database["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 60,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-16000; "
        "PRAGMA secure_delete=ON;",
    }
    _database["TEST"] = {"NAME": f"{_database['NAME']}.test"}
else:
    _database["ENGINE"] = "chatmemory.database.postgresql"
    # They do not survive a pooler in transaction mode. What may be long is read by `chatmemory.database.chunks`.
    _database["DISABLE_SERVER_SIDE_CURSORS"] = True
    _database["OPTIONS"] = {
        # Notice within half a minute that the other end is gone; otherwise a connection would wait for hours.
        "connect_timeout": 10,
        "keepalives_idle": 15,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
        **_database.get("OPTIONS", {}),
        "pool": {"min_size": 1, "max_size": DATABASE_POOL_SIZE, "timeout": 10},
    }
_database["CONN_MAX_AGE"] = 0  # under ASGI, threads come and go; our executors keep their own connections
DATABASES = {"default": _database}

# Never a shared cache: Django stores unsigned pickles, so anyone who can write to it could run code in the worker. We
# cache nothing; django-q2 keeps the statistics of its processes here.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

WORKER_THREADS = WorkerSettings.WORKER_THREADS.read()
Q_TIMEOUT = 120
"""Seconds after which a task counts as hanging. Our own limits within each task are far lower."""
Q_CLUSTER = {
    "name": "chatmemory",
    "label": "Queue",
    "workers": 2,  # of `manage.py qcluster`, for those who prefer django-q2's own cluster
    # Prefetch little: tasks that a killed worker had prefetched run twice.
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
    "orm": "default",
    "broker_class": "memory.queue.Broker",
}
WORKER_STOP_SECONDS = WorkerSettings.WORKER_STOP_SECONDS.read()

# --- API -------------------------------------------------------------------------------------------------------------

REQUEST_MAX_BYTES = LimitSettings.REQUEST_MAX_BYTES.read()
OPENAI_REQUEST_MAX_BYTES = LimitSettings.OPENAI_REQUEST_MAX_BYTES.read()
ATTACHMENT_MAX_BYTES = LimitSettings.ATTACHMENT_MAX_BYTES.read()
ATTACHMENTS_MAX_BYTES_PER_USER = LimitSettings.ATTACHMENTS_MAX_BYTES_PER_USER.read()
ATTACHMENTS_KEEP_DAYS = LimitSettings.ATTACHMENTS_KEEP_DAYS.read()
ATTACHMENTS_SENT_AGAIN = LimitSettings.ATTACHMENTS_SENT_AGAIN.read()
REQUEST_HEAD_MAX_BYTES = LimitSettings.REQUEST_HEAD_MAX_BYTES.read()
REQUEST_RECEIVE_SECONDS = LimitSettings.REQUEST_RECEIVE_SECONDS.read()
MESSAGE_MAX_CHARS = LimitSettings.MESSAGE_MAX_CHARS.read()
INSTRUCTIONS_MAX_CHARS = LimitSettings.INSTRUCTIONS_MAX_CHARS.read()
METADATA_MAX_BYTES = LimitSettings.METADATA_MAX_BYTES.read()
IMPORT_METADATA_MAX_BYTES = LimitSettings.IMPORT_METADATA_MAX_BYTES.read()
DATA_UPLOAD_MAX_MEMORY_SIZE = max(REQUEST_MAX_BYTES, OPENAI_REQUEST_MAX_BYTES)  # per path: see `asgi`
RATE_LIMITS = LimitSettings.RATE_LIMITS.read()
LIMITS = Limits(
    requests_per_minute=LimitSettings.LIMIT_REQUESTS_PER_MINUTE.read(),
    tokens_per_day=LimitSettings.LIMIT_TOKENS_PER_DAY.read(),
    streams=LimitSettings.LIMIT_STREAMS.read(),
    readers=LimitSettings.LIMIT_READERS.read(),
    resummarize_per_hour=LimitSettings.LIMIT_RESUMMARIZE_PER_HOUR.read(),
)
LIMIT_OUTPUT_TOKENS_RESERVED = LimitSettings.LIMIT_OUTPUT_TOKENS_RESERVED.read()
LIMIT_EXPORT_SECONDS = LimitSettings.LIMIT_EXPORT_SECONDS.read()
LIMIT_SIGN_INS = LimitSettings.LIMIT_SIGN_INS.read()
PLAYGROUND = ServerSettings.PLAYGROUND.read()
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
    # With deep links, each operation is a link inside of a button, which screen readers cannot distinguish.
    "SWAGGER_UI_SETTINGS": {"deepLinking": False},
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "RevisionKindEnum": "memory.models.RevisionKind.choices",
        "RoleEnum": "conversations.models.Role.choices",
    },
    "TAGS": [
        {"name": name} for name in ("messages", "chats", "memory", "openai", "stateless", "account", "health")
    ],
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "chatmemory.api.openapi.hooks.completed",
    ],
}

# --- Models ----------------------------------------------------------------------------------------------------------

OPENAI_API_KEY = UpstreamSettings.OPENAI_API_KEY.read()
OPENAI_BASE_URL = UpstreamSettings.OPENAI_BASE_URL.read()
OPENAI_API_STYLE = UpstreamSettings.OPENAI_API_STYLE.read()
UPSTREAM_CONTROL_TOKENS = UpstreamSettings.UPSTREAM_CONTROL_TOKENS.read()
OPENAI_TERMINAL = UpstreamSettings.OPENAI_TERMINAL.read()
MODEL_VARIANTS = UpstreamSettings.MODEL_VARIANTS.read()
DEFAULT_MODEL_VARIANT = UpstreamSettings.DEFAULT_MODEL_VARIANT.read()
OPENAI_MODEL_ALIASES = UpstreamSettings.OPENAI_MODEL_ALIASES.read()
OPENAI_CONVERSATION_HEADERS = UpstreamSettings.OPENAI_CONVERSATION_HEADERS.read()

REPLY_DEADLINES = Deadlines(
    first_byte=UpstreamSettings.REPLY_FIRST_BYTE_SECONDS.read(),
    idle=UpstreamSettings.REPLY_IDLE_SECONDS.read(),
    total=UpstreamSettings.REPLY_TOTAL_SECONDS.read(),
    max_bytes=UpstreamSettings.REPLY_MAX_BYTES.read(),
)
REPLY_CHECKPOINT_SECONDS = UpstreamSettings.REPLY_CHECKPOINT_SECONDS.read()
REPLY_LEASE_SECONDS = UpstreamSettings.REPLY_LEASE_SECONDS.read()
REPLY_DRAIN_SECONDS = UpstreamSettings.REPLY_DRAIN_SECONDS.read()

# --- Memory ----------------------------------------------------------------------------------------------------------

MEMORY_POLICY = MemorySettings.MEMORY_POLICY.read()
MEMORY_LIMITS = MemoryLimits(
    k_raw_turns=ChunkedSettings.MEMORY_K_RAW_TURNS.read(),
    summary_cap=ChunkedSettings.MEMORY_SUMMARY_TOKEN_CAP.read(),
    prompt_budget=MemorySettings.MEMORY_PROMPT_TOKEN_BUDGET.read(),
    budget_for=MemorySettings.MEMORY_BUDGET_FOR.read(),
    threshold=ChunkedSettings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD.read(),
    line_tokens=MemorySettings.MEMORY_LINE_TOKENS.read(),
    bite_tokens=MemorySettings.MEMORY_FOLD_BITE_TOKENS.read(),
    min_fold_tokens=MemorySettings.MEMORY_MIN_FOLD_TOKENS.read(),
    recall=RecallSettings.MEMORY_RECALL.read(),
    recall_share=RecallSettings.MEMORY_RECALL_SHARE.read(),
    window_share=MemorySettings.MEMORY_WINDOW_SHARE.read(),
    sources_budget=MemorySettings.SOURCES_TOKEN_BUDGET.read(),
    turns_as=MemorySettings.MEMORY_TURNS_AS.read(),
    summarizer_task=text_or_file(
        "MEMORY_SUMMARIZER_INSTRUCTIONS", SummarizerSettings.MEMORY_SUMMARIZER_INSTRUCTIONS.read(), HOME
    ),
    enabled=MemorySettings.MEMORY_ENABLED.read(),
    numbers={name: read_numbers(name, kind) for name, kind in PER_POLICY.items()},
)
_summarizer = SummarizerSettings.MEMORY_SUMMARIZER_MODEL.read()
SUMMARIZER = Variant(
    name="summarizer",
    model=_summarizer,
    reasoning_effort=SummarizerSettings.MEMORY_SUMMARIZER_EFFORT.read(),
    max_output_tokens=SummarizerSettings.MEMORY_SUMMARIZER_OUTPUT_TOKENS.read() or None,
    price=price_of(_summarizer),
)
SUMMARIZER_TOTAL_SECONDS = SummarizerSettings.SUMMARIZER_TOTAL_SECONDS.read()
MEMORY_FOLD_SECONDS = MemorySettings.MEMORY_FOLD_SECONDS.read()
MEMORY_FOLD_LEASE_SECONDS = MemorySettings.MEMORY_FOLD_LEASE_SECONDS.read()
MEMORY_FOLD_ATTEMPTS = MemorySettings.MEMORY_FOLD_ATTEMPTS.read()
MEMORY_FOLD_BACKOFF_SECONDS = MemorySettings.MEMORY_FOLD_BACKOFF_SECONDS.read()
MEMORY_MIN_RETAINED = SummarizerSettings.MEMORY_MIN_RETAINED.read()
MEMORY_REBUILD_EVERY_FOLDS = MemorySettings.MEMORY_REBUILD_EVERY_FOLDS.read()
MEMORY_EMBEDDINGS_MODEL = RecallSettings.MEMORY_EMBEDDINGS_MODEL.read()
MEMORY_EMBEDDINGS_FOLDER = RecallSettings.MEMORY_EMBEDDINGS_FOLDER.read()
MEMORY_EMBEDDINGS_DIMENSIONS = RecallSettings.MEMORY_EMBEDDINGS_DIMENSIONS.read()
MEMORY_EMBEDDINGS_SECONDS = RecallSettings.MEMORY_EMBEDDINGS_SECONDS.read()
SWEEP_SECONDS = WorkerSettings.SWEEP_SECONDS.read()

check_relations(globals())
