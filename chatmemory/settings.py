"""Django's settings, with the secret key that the first start generates; and ours as read from the environment:
`chatmemory.config` declares those."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from chatmemory import metrics  # noqa: F401  # before django-q2 imports Prometheus' client
from chatmemory.config import environment
from chatmemory.config.declared import django_database
from chatmemory.config.environment import make_folder
from chatmemory.llm.protocol import Deadlines
from chatmemory.runtime.logs import logging_config

PACKAGE_DIR = Path(__file__).resolve().parent
BASE_DIR = PACKAGE_DIR.parent
_templates = PACKAGE_DIR / "templates"
_is_installed = _templates.is_dir()
"""True where the wheel is installed, which has the templates inside of the package: then nothing is written here."""
_given = os.environ.get("CHATMEMORY_HOME", "").strip()
HOME = Path(_given or ("~/.chatmemory" if _is_installed else BASE_DIR)).expanduser().resolve()
VAR_DIR = HOME / "var"
for _name, _value in environment.dotenv(HOME / ".env").items():
    os.environ.setdefault(_name, _value)
if os.environ.get("CHATMEMORY_HOME", "").strip() != _given:
    del os.environ["CHATMEMORY_HOME"]  # Django may load the settings again after an error
    raise ImproperlyConfigured("CHATMEMORY_HOME cannot be set in .env, which is a file in it.")
config, _texts = environment.read(os.environ, HOME)


def _secret_key() -> str:
    """The configured key, or a key of this installation, created at first use and shared by its processes."""
    if configured := config.DJANGO_SECRET_KEY:
        return configured
    path = VAR_DIR / "secret-key"
    if not path.exists():
        make_folder("CHATMEMORY_HOME", VAR_DIR)
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

DEBUG = config.DJANGO_DEBUG
SECRET_KEY = _secret_key()
ALLOWED_HOSTS = config.DJANGO_ALLOWED_HOSTS.split(",")
SECURE_SSL_REDIRECT = config.DJANGO_SECURE_SSL_REDIRECT
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]  # asked from inside, not through the proxy
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT
CSRF_COOKIE_HTTPONLY = True
SECURE_HSTS_SECONDS = 31_536_000 if SECURE_SSL_REDIRECT else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_SSL_REDIRECT
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SECURE_SSL_REDIRECT else None
# These checks look for three of Django's middlewares by name; ours are subclasses of them.
SILENCED_SYSTEM_CHECKS = ["security.W001", "security.W002", "security.W003"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "rest_framework",
    "knox",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_q",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.mfa",
    "allauth.idp.oidc",  # also while it is off: a user's deletion takes what tokens there are
    "corsheaders",
    "conversations",
    "memory",
    "chatmemory",
]
MIDDLEWARE = [
    "chatmemory.api.middleware.RequestMiddleware",
    "chatmemory.api.middleware.Security",
    "chatmemory.api.middleware.Frames",
    "chatmemory.api.middleware.StaticFilesMiddleware",
    "chatmemory.api.middleware.Session",
    "chatmemory.api.middleware.Common",
    "chatmemory.api.middleware.Csrf",
    "chatmemory.api.middleware.Authentication",
    "chatmemory.api.middleware.Messages",
    "allauth.account.middleware.AccountMiddleware",
]
CORS_ALLOWED_ORIGINS = config.CORS_ALLOWED_ORIGINS
if CORS_ALLOWED_ORIGINS:  # within ours, which logs and protects every answer
    MIDDLEWARE.insert(1, "corsheaders.middleware.CorsMiddleware")
CORS_URLS_REGEX = "^/(v1/|mcp/?$)"  # tokens only: other sites never use the session of a page
CORS_ALLOW_HEADERS = ("authorization", "*")  # the star stands for all headers but this one
CORS_EXPOSE_HEADERS = ("*",)
ROOT_URLCONF = "chatmemory.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [_templates if _is_installed else BASE_DIR / "templates"],
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
TIME_ZONE = "UTC"
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
LOGIN_REDIRECT_URL = "landing"  # where a sign-in ends whose `next` is missing, or a foreign address
LOGIN_URL = "account_login"
LOCAL_PASSWORDS = config.LOCAL_PASSWORDS
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend" if LOCAL_PASSWORDS else "conversations.sign_in.password.NoPasswords"
]
"""A change of the setting ends all sessions, since each names the one it was made by."""
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOGGING = logging_config(config.LOG_FORMAT, config.LOG_LEVEL)

# --- Sign-in by allauth: no accounts by form, no mail. We rate-limit guesses ourselves, in the database. ---

ACCOUNT_ADAPTER = "conversations.sign_in.password.Accounts"
ACCOUNT_UNIQUE_EMAIL = False
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_RATE_LIMITS = MFA_RATE_LIMITS = False
ACCOUNT_AUTHENTICATED_LOGIN_REDIRECTS = False  # a signed-in user may switch accounts
SOCIALACCOUNT_ADAPTER = "conversations.sign_in.oidc.Identities"
MFA_FORMS = {
    **dict.fromkeys(("authenticate", "reauthenticate"), "conversations.sign_in.password.OnceCode"),
    "add_webauthn": "conversations.sign_in.passkeys.AddPasskey",
}
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes", "webauthn"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_WEBAUTHN_USER_VERIFICATION = "required"  # as a stolen key signs in alone
MFA_TOTP_TOLERANCE = 1
SESSION_ENGINE = "conversations.sign_in.sessions"
OIDC_ISSUER = config.OIDC_ISSUER
OIDC_CLIENT_ID = config.OIDC_CLIENT_ID
OIDC_CLIENT_SECRET = config.OIDC_CLIENT_SECRET
OIDC_GROUPS_CLAIM = config.OIDC_GROUPS_CLAIM
OIDC_REQUIRED_GROUP = config.OIDC_REQUIRED_GROUP
OIDC_STAFF_GROUP = config.OIDC_STAFF_GROUP
MCP_OAUTH = config.MCP_OAUTH
IDP_OIDC_REFRESH_TOKEN_EXPIRES_IN = 30 * 86_400  # an agent that was not used for so long asks again

# --- Database, queue ------------------------------------------------------------------------------------------

DATABASE_POOL_SIZE = config.DATABASE_POOL_SIZE
DATABASE_URL = config.DATABASE_URL or f"sqlite:///{VAR_DIR / 'chatmemory.sqlite3'}"
_database = django_database(DATABASE_URL)
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
    _database["ENGINE"] = "chatmemory.database.postgresql"  # which checks a pooled connection (P15)
    # They do not survive a pooler in transaction mode. What may be long is read by `chatmemory.database.rows`.
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

# No CACHES: a shared cache holds unsigned pickles, so anyone who can write to it could run code in the worker.
Q_TIMEOUT = 120
"""Seconds after which a task counts as hanging. Our own limits within each task are far lower."""
Q_CLUSTER = {
    "name": "chatmemory",
    "label": "Queue",
    "workers": 2,  # of `manage.py qcluster`, django-q2's own cluster
    # Prefetch little: tasks that a killed worker had prefetched run twice.
    "queue_limit": 2,
    "timeout": Q_TIMEOUT,
    "retry": 300,
    "max_attempts": 5,
    "poll": 0.5,
    "catch_up": False,
    "save_limit": 100,
    "recycle": 200,
    "orm": "default",
    "broker_class": "memory.queue.Broker",
}
WORKER_THREADS = config.WORKER_THREADS
WORKER_STOP_SECONDS = config.WORKER_STOP_SECONDS
METRICS_PORT = config.METRICS_PORT

# --- API -------------------------------------------------------------------------------------------------------------

ATTACHMENT_MAX_BYTES = 20 * 1024 * 1024
"""The largest image or file that a message may have."""
ATTACHMENTS_MAX_BYTES_PER_USER = config.ATTACHMENTS_MAX_BYTES_PER_USER
ATTACHMENTS_KEEP_DAYS = config.ATTACHMENTS_KEEP_DAYS
ATTACHMENTS_SENT_AGAIN = config.ATTACHMENTS_SENT_AGAIN
REQUEST_MAX_BYTES = config.REQUEST_MAX_BYTES
OPENAI_REQUEST_MAX_BYTES = config.OPENAI_REQUEST_MAX_BYTES
REQUEST_HEAD_MAX_BYTES = 64 * 1024
"""URL and headers together. Larger ones get 431; a URL of more than half of it gets 414."""
REQUEST_RECEIVE_SECONDS = 20.0
"""Time for the headers of a request to arrive, and the longest pause within its body. Then it gets 408."""
MESSAGE_MAX_CHARS = config.MESSAGE_MAX_CHARS
INSTRUCTIONS_MAX_CHARS = 20_000
METADATA_MAX_BYTES = 16 * 1024
"""The largest `metadata` of a chat or a message, and the largest `options`, as JSON in UTF-8."""
IMPORT_METADATA_MAX_BYTES = 1024 * 1024
"""The same where `import_chat` stores a message: recorded tool calls and their outputs are kept there."""
DATA_UPLOAD_MAX_MEMORY_SIZE = max(REQUEST_MAX_BYTES, OPENAI_REQUEST_MAX_BYTES)  # per path: see `asgi`
RETENTION_DAYS = config.RETENTION_DAYS
TEMPORARY_CHAT_HOURS = config.TEMPORARY_CHAT_HOURS
END_USER_HEADER = config.END_USER_HEADER
WEBHOOK_ALLOW_PRIVATE = config.WEBHOOK_ALLOW_PRIVATE
METRICS_TOKEN = config.METRICS_TOKEN
RATE_LIMITS = config.RATE_LIMITS
LIMIT_REQUESTS_PER_MINUTE = config.LIMIT_REQUESTS_PER_MINUTE
LIMIT_TOKENS_PER_DAY = config.LIMIT_TOKENS_PER_DAY
LIMIT_STREAMS = config.LIMIT_STREAMS
LIMIT_READERS = config.LIMIT_READERS
LIMIT_RESUMMARIZE_PER_HOUR = config.LIMIT_RESUMMARIZE_PER_HOUR
LIMIT_WRITES_PER_MINUTE = config.LIMIT_WRITES_PER_MINUTE
LIMIT_APP_STREAMS = config.LIMIT_APP_STREAMS
LIMIT_APP_TOKENS_PER_DAY = config.LIMIT_APP_TOKENS_PER_DAY
LIMIT_NEW_END_USERS_PER_MINUTE = 1000  # of an app
LIMIT_OUTPUT_TOKENS_RESERVED = 2000
"""Tokens reserved for a reply until its real length is known, if its variant has no `max_output_tokens`."""
LIMIT_SIGN_INS = 10
"""Wrong passwords per minute for one name from one address; ten times as many from one address, or for one name."""
PLAYGROUND = config.PLAYGROUND
PRINTED_TOKEN_SHA256 = ""
"""Set by `quickstart`: the hash of the token in the link that it prints, with which the playground signs in at once. A
link with any other token may come from an attacker who wants to read what others write into the attacker's account: for
those the page asks first, naming the account."""
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "conversations.accounts.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["conversations.accounts.authentication.ScopesAllow"],
    "DEFAULT_THROTTLE_CLASSES": ["conversations.accounts.quotas.LimitWrites"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["chatmemory.api.http.JSONBody"],
    "DEFAULT_SCHEMA_CLASS": "chatmemory.api.openapi.OperationSchema",
    "EXCEPTION_HANDLER": "chatmemory.api.error_handler.exception_handler",
}
REST_KNOX = {"AUTH_HEADER_PREFIX": "Bearer", "TOKEN_TTL": None}
_API_INTRODUCTION = """\
A memory for LLM chats: every message is stored, replies are streamed, and every prompt stays within its token budget.

**Sign in.** Send `Authorization: Bearer <token>`. A token comes from `POST /v1/auth/token`, or from your operator.
Objects of other users return 404.

**Stream.** Replies arrive as server-sent events; with `"stream": false` as JSON. To resume a
broken stream, send `Last-Event-ID`. Disconnecting does not cancel the reply: it is finished and stored.

**Repeat.** The same `Idempotency-Key` with the same body returns the same turn, for 24 hours. **OpenAI's clients** take
`/v1` as their base URL, for `POST /v1/responses` and `POST /v1/chat/completions`.

**Errors** are `{"error": {"code", "message", "details"?}}`: a machine-readable code, and a message for people.

**Generate a client** from `/v1/schema`: `npx openapi-typescript http://127.0.0.1:8000/v1/schema -o api.ts`, or
`openapi-python-client generate --url http://127.0.0.1:8000/v1/schema`.
"""
SPECTACULAR_SETTINGS = {
    "TITLE": "chatmemory",
    "DESCRIPTION": _API_INTRODUCTION,
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    # With deep links, each operation is a link inside of a button, which screen readers cannot distinguish.
    # `codeSamples` is a plugin of ours, in static/chatmemory/docs.js.
    "SWAGGER_UI_SETTINGS": "{deepLinking: false, plugins: [codeSamples]}",
    "SORT_OPERATIONS": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_NAME_OVERRIDES": {
        "RevisionKindEnum": "memory.models.RevisionKind.choices",
        "PinKindEnum": "memory.models.PinKind.choices",
        "PinnedByEnum": "memory.models.PinnedBy.choices",
        "RoleEnum": "conversations.models.Role.choices",
    },
    "TAGS": [
        {"name": name}
        for name in ("messages", "chats", "memory", "openai", "stateless", "account", "webhooks", "health")
    ],
    "PREPROCESSING_HOOKS": ["chatmemory.api.openapi.in_order"],
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "chatmemory.api.openapi.completed",
    ],
}

# --- Models ----------------------------------------------------------------------------------------------------------

MODEL_VARIANTS = config.variants(_texts)
DEFAULT_MODEL_VARIANT = config.DEFAULT_MODEL_VARIANT
OPENAI_API_KEY = config.OPENAI_API_KEY
OPENAI_BASE_URL = config.OPENAI_BASE_URL
OPENAI_API_STYLE = config.OPENAI_API_STYLE
OPENAI_TERMINAL = config.OPENAI_TERMINAL
OPENAI_MODEL_ALIASES = config.OPENAI_MODEL_ALIASES
OPENAI_CONVERSATION_HEADERS = config.OPENAI_CONVERSATION_HEADERS
UPSTREAM_CONTROL_TOKENS = config.UPSTREAM_CONTROL_TOKENS
REPLY_MAX_BYTES = 2 * 1024 * 1024
REPLY_DEADLINES = Deadlines(
    first_byte=config.REPLY_FIRST_BYTE_SECONDS,
    idle=config.REPLY_IDLE_SECONDS,
    total=config.REPLY_TOTAL_SECONDS,
    max_bytes=REPLY_MAX_BYTES,
)
REPLY_DRAIN_SECONDS = config.REPLY_DRAIN_SECONDS
REPLY_CHECKPOINT_SECONDS = 0.5
"""How often a partial reply is stored."""
REPLY_LEASE_SECONDS = 15.0
"""A reply counts as interrupted when its process has given no sign for this long: many checkpoints."""

# --- Memory ----------------------------------------------------------------------------------------------------------

MEMORY_ENABLED = config.MEMORY_ENABLED
MEMORY_POLICY = config.MEMORY_POLICY
MEMORY_POLICY_OPTIONS = config.MEMORY_POLICY_OPTIONS
MEMORY_PROMPT_TOKEN_BUDGET = config.MEMORY_PROMPT_TOKEN_BUDGET
MEMORY_BUDGET_FOR = config.MEMORY_BUDGET_FOR
MEMORY_WINDOW_SHARE = config.MEMORY_WINDOW_SHARE
MEMORY_TURNS_AS = config.MEMORY_TURNS_AS
SOURCES_TOKEN_BUDGET = config.SOURCES_TOKEN_BUDGET
MEMORY_K_RAW_TURNS = config.MEMORY_K_RAW_TURNS
MEMORY_SUMMARY_TOKEN_CAP = config.MEMORY_SUMMARY_TOKEN_CAP
MEMORY_CHUNK_SUMMARIZE_THRESHOLD = config.MEMORY_CHUNK_SUMMARIZE_THRESHOLD
MEMORY_FOLD_BITE_TOKENS = config.MEMORY_FOLD_BITE_TOKENS
MEMORY_REBUILD_EVERY_FOLDS = config.MEMORY_REBUILD_EVERY_FOLDS
MEMORY_ACROSS_CHATS = config.MEMORY_ACROSS_CHATS
MEMORY_RECALL = config.MEMORY_RECALL
MEMORY_RECALL_SHARE = config.MEMORY_RECALL_SHARE
MEMORY_EMBEDDINGS_MODEL = config.MEMORY_EMBEDDINGS_MODEL
MEMORY_EMBEDDINGS_DIMENSIONS = config.MEMORY_EMBEDDINGS_DIMENSIONS
MEMORY_SUMMARIZER_MODEL = config.MEMORY_SUMMARIZER_MODEL
MEMORY_SUMMARIZER_EFFORT = config.MEMORY_SUMMARIZER_EFFORT
MEMORY_SUMMARIZER_OUTPUT_TOKENS = config.MEMORY_SUMMARIZER_OUTPUT_TOKENS
SUMMARIZER_TOTAL_SECONDS = config.SUMMARIZER_TOTAL_SECONDS
MEMORY_SUMMARIZER_INSTRUCTIONS = environment.text_or_file(
    "MEMORY_SUMMARIZER_INSTRUCTIONS", config.MEMORY_SUMMARIZER_INSTRUCTIONS, HOME
)
MEMORY_LINE_TOKENS = 40
MEMORY_MIN_FOLD_TOKENS = 1000
"""Tokens that there must be beyond the window before a chat is due because its lines do not fit."""
MEMORY_FOLD_SECONDS = min(70.0, max(45.0, SUMMARIZER_TOTAL_SECONDS + 5))
"""Time of one fold task, which has room for one call. A longer fold continues in a new task."""
MEMORY_FOLD_LEASE_SECONDS = 120.0
"""After this time, another worker takes over the fold of a worker that died."""
MEMORY_FOLD_ATTEMPTS = 5
"""Failures after which the built-in summarizer does the fold."""
MEMORY_FOLD_BACKOFF_SECONDS = 10.0
"""Wait after a failed fold. It doubles with each failure, up to 600 s."""
MEMORY_MIN_RETAINED = 0.5
"""Share of the known numbers, ids and names that a new summary must keep. Below it, the summarizer is asked once
more, and the better answer is marked for staff."""
MEMORY_EMBEDDINGS_SECONDS = 0.3
"""The longest wait for the vector of a question. After it, the search uses words only."""
SWEEP_SECONDS = 60.0
"""How often the worker looks for work that a crash left behind, rounded up to whole minutes."""
