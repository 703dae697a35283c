"""The files of `deploy/`, run: the proxy in front of a real server, and the image's own commands."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.api.talking import heard, hold_replies
from tests.support import costs
from tests.support.chart import pods, render, variables
from tests.support.fakes.upstream import FakeUpstream
from tests.support.image import ROOT, Image
from tests.support.images import data_url, png
from tests.support.live_server import Client
from tests.support.ports import free_port
from tests.support.processes import Product, scratch
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.services]

MB = 1024 * 1024

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
"""A Python that every user may run; the one of the tests may be in someone's home directory."""
POSTGRES = os.environ.get("POSTGRES_URL", "")
SYSTEMD = shutil.which("systemd-analyze")


@contextmanager
def proxy(folder: Path, server: str) -> Iterator[str]:
    """Run nginx with our own file, except for the addresses; yield its URL."""
    assert NGINX
    port = free_port()
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    for ours, here in (
        ("server server:8000", f"server {server.removeprefix('http://')}"),
        ("listen 8080", f"listen 127.0.0.1:{port}"),
        ("/tmp/nginx.pid", f"{folder}/nginx.pid"),  # a path in the file, not one that is opened
        ("/dev/stdout", f"{folder}/access.txt"),
    ):
        assert ours in text
        text = text.replace(ours, here)
    file = folder / "nginx.conf"
    file.write_text(text)
    command = [NGINX, "-p", str(folder), "-c", str(file), "-g", "daemon off;"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: answers(f"{url}/healthz"), "an answer through the proxy", timeout=20)
        yield url
    finally:
        process.terminate()
        process.wait(10)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.skipif(not NGINX, reason="there is no nginx on this machine")
def test_the_proxy_buffers_no_stream_and_has_the_limits_and_errors_of_the_api(
    product: Product, fake: FakeUpstream, tmp_path: Path
) -> None:
    product.server("--forwarded-allow-ips", "*")
    with proxy(tmp_path, product.url) as url:
        client = Client(url, product.client().token)
        hold_replies(fake, text="one two three", after=2, deltas=0)
        with client.stream("POST", "message/first", json={"message": "x"}) as events:
            assert next(events).name == "message.created"
            assert heard(events, words=1).startswith("one")
            fake.release()
            assert [event.name for event in events][-1] == "message.completed"
        image = {"type": "image_url", "image_url": {"url": data_url(png() + b"x" * 19_000_000)}}
        body = {"model": "arco", "messages": [{"role": "user", "content": [image]}]}
        assert client.post("chat/completions", json=body).status_code == 200
        refused = {
            path: [client.post(path, content=b"x" * int(mb * MB)) for mb in sizes]
            for path, sizes in (("message/first", (3, 5)), ("chat/completions", (32.5, 34)))
        }
        client.http.close()
    for by_server, by_proxy in refused.values():
        assert by_server.status_code == by_proxy.status_code == 413
        assert "x-request-id" in by_server.headers
        assert "x-request-id" not in by_proxy.headers
        assert by_server.json() == by_proxy.json()
        assert by_server.headers["content-type"] == by_proxy.headers["content-type"] == "application/json"


@pytest.mark.skipif(not NGINX, reason="there is no nginx on this machine")
def test_forwarded_addresses_of_clients_are_not_trusted(product: Product, fake: FakeUpstream, tmp_path: Path) -> None:
    """Otherwise wrong passwords would be counted for an address that the attacker chooses for each request."""
    product.env |= {"RATE_LIMITS": "on", "LIMIT_SIGN_INS": "1"}
    product.server("--forwarded-allow-ips", "*")
    with proxy(tmp_path, product.url) as url:
        tried = [
            httpx.post(
                f"{url}/v1/auth/token",
                json={"username": f"user{number}", "password": "wrong"},
                headers={"X-Forwarded-For": f"10.0.0.{number}"},
            ).status_code
            for number in range(22)
        ]
    assert 429 in tried


@pytest.mark.skipif(not SYSTEMD, reason="there is no systemd on this machine")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    assert SYSTEMD
    units = []
    for unit in sorted((ROOT / "deploy" / "systemd").iterdir()):
        here = tmp_path / unit.name
        here.write_text(re.sub(r"/opt/chatmemory/bin/\w+", sys.executable, unit.read_text()))
        units.append(str(here))
    done = subprocess.run([SYSTEMD, "verify", *units], capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "chatmemory" in line]
    assert (done.returncode, complaints) == (0, []), done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["hadolint", "Dockerfile"],
        *(
            ["check-jsonschema", "--builtin-schema", f"vendor.{schema}", *files]
            for schema, files in (
                ("compose-spec", ["compose.yaml"]),
                ("github-workflows", [".github/workflows/ci.yml", ".github/workflows/release.yml"]),
                ("github-issue-config", [".github/ISSUE_TEMPLATE/config.yml"]),
                ("github-issue-forms", [".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/idea.yml"]),
            )
        ),
    ],
    ids=lambda command: command[-1],
)
def test_deployment_files_are_valid(command: list[str]) -> None:
    tool = Path(sys.executable).parent / command[0]
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def container() -> Iterator[Path]:
    """A folder with the image's `/venv`: what the image copies, installed as it installs.

    It is none of pytest's, which closes those to other users whenever it starts.
    """
    image, root = Image.read(), Path(tempfile.mkdtemp(prefix="image-"))
    root.chmod(0o755)
    for source, target in image.copies:
        here = root / target.removeprefix("/")
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, here, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            here.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, here)
    run(PYTHON, "-m", "venv", "--without-pip", root / "venv")
    pip = [sys.executable, "-m", "pip", "--python", root / "venv", "--quiet"]
    for words in image.installs:
        words = [word.replace("/src", f"{root}/src") for word in words]
        run(*pip, *words, cwd=root / "src", env=costs.environment_for_tls())
    shutil.rmtree(root / "src")
    (root / "tmp").mkdir()
    yield root
    shutil.rmtree(root)


def contained(root: Path, command: list[str], **env: str) -> subprocess.Popen[bytes]:
    """Start a command as the image's user, without capabilities, where nothing but `/tmp` can be written."""
    user = str(Image.read().user_id)
    bare = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs"]
    bare += ["--bounding-set=-all", "--inh-caps=-all"]
    mounts = f"mount -t tmpfs -o mode=1777 tmpfs {root}/tmp && mount -o remount,bind,ro / && exec "
    with (root / "log").open("ab") as log:
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", mounts + shlex.join([*bare, *command])],
            env={
                **Image.read().environment,
                "PATH": f"{root}/venv/bin:/usr/bin:/bin",
                "TMPDIR": f"{root}/tmp",
                **env,
            },
            cwd="/",
            stdout=log,
            stderr=log,
        )


CONTAINED = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as the image's user")


@pytest.mark.nightly
@pytest.mark.slow
@CONTAINED
def test_the_image_runs_with_sqlite_in_its_volume(container: Path) -> None:
    """As by `docker run`, without any setting. Only its volume can be written."""
    image, port = Image.read(), free_port()
    volume = str(container / "tmp")  # a new one for each command, so both run in one shell
    both = f"chatmemory migrate && exec {shlex.join(image.command)}".replace("8000", str(port))
    server = contained(container, ["sh", "-c", both], CHATMEMORY_HOME=volume)
    check = [word.replace("8000", str(port)) for word in image.health_check]
    try:
        wait_for(lambda: answers(f"http://127.0.0.1:{port}/healthz"), "an answer", timeout=60)
        assert contained(container, check).wait(60) == 0
    finally:
        server.terminate()
        assert server.wait(30) in (0, -signal.SIGTERM), (container / "log").read_text()[-3000:]
    assert contained(container, check).wait(60) != 0, "nobody serves any more"


@pytest.mark.nightly
@pytest.mark.slow
@CONTAINED
def test_the_pods_of_the_chart_run_with_secrets_from_files(container: Path) -> None:
    port, found = free_port(), pods(render({"secret": {"keys": ["DATABASE_URL", "DJANGO_SECRET_KEY"]}}))

    def start(pod: str, *command: str) -> subprocess.Popen[bytes]:
        (one,) = found[pod]["containers"]
        words = list(command) or [*one["command"], *one.get("args", [])]
        words = [word.replace("8000", str(port)) for word in words]
        return contained(container, words, **variables(found[pod], str(container / "secrets")))

    with scratch(container, POSTGRES) as url:
        for name, text in (("DATABASE_URL", url), ("DJANGO_SECRET_KEY", "x" * 50)):
            file = container / "secrets" / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{text}\n")
            file.chmod(0o440)
            os.chown(file, 0, Image.read().user_id)
        assert start("migrate").wait(120) == 0, (container / "log").read_text()[-3000:]
        running = [start("server"), start("worker")]
        try:
            wait_for(lambda: answers(f"http://127.0.0.1:{port}/readyz"), "server and worker", timeout=60)
            probe = found["worker"]["containers"][0]["livenessProbe"]["exec"]["command"]
            assert start("worker", *probe).wait(60) == 0
            assert start("server", "chatmemory", "create_token", "alice", "--create").wait(60) == 0
        finally:
            for process in running:
                process.terminate()
            assert {process.wait(30) for process in running} <= {0, -signal.SIGTERM}


def run(*command: object, **options: object) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload]  # as given
    assert done.returncode == 0, f"{words}:\n{done.stderr[-3000:]}"
