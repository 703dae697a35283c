# Server, worker and commands in one image, from the wheel. Nothing is a secret while it is built: all settings come from
# the environment, and secrets from the environment or from files.
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /venv
COPY requirements.lock /src/
RUN /venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE /src/
COPY chatmemory /src/chatmemory
COPY conversations /src/conversations
COPY memory /src/memory
COPY templates /src/templates
RUN /venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps /src

FROM python:3.11-slim
# The one folder that is written to, and only with SQLite or without DJANGO_SECRET_KEY.
RUN useradd --system --uid 10001 --home-dir /var/lib/chatmemory chatmemory && install -d -o chatmemory /var/lib/chatmemory
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 LOG_FORMAT=json CHATMEMORY_HOME=/var/lib/chatmemory
USER 10001
VOLUME /var/lib/chatmemory
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=3)"]
CMD ["chatmemory", "serve", "--host", "0.0.0.0", "--port", "8000"]
