# Server, worker and commands in one image. Nothing is a secret while it is built: all settings come from the environment.
FROM python:3.11-slim AS packages
COPY requirements.lock /requirements.lock
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /requirements.lock

FROM python:3.11-slim
RUN useradd --system --uid 10001 --no-create-home --home-dir /app chatmemory
COPY --from=packages /venv /venv
WORKDIR /app
COPY manage.py /app/manage.py
COPY chatmemory /app/chatmemory
COPY conversations /app/conversations
COPY memory /app/memory
COPY templates /app/templates
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 LOG_FORMAT=json
# The one folder that is written to, and only with SQLite or without DJANGO_SECRET_KEY.
RUN install -d -o chatmemory /app/var && python -m compileall -q /app
USER 10001
VOLUME /app/var
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=3)"]
CMD ["python", "-m", "uvicorn", "chatmemory.asgi:application", "--http", "chatmemory.http_protocol:HttpProtocol", "--host", "0.0.0.0", "--port", "8000"]
