"""The wheel: built, installed into an empty environment outside of the checkout, started, and walked."""

import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support import costs
from tests.support.ports import free_port

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).resolve().parents[2]
FILES = {"chatmemory": "chatmemory", "conversations": "conversations", "memory": "memory"} | {
    "templates": "chatmemory/templates"
}
"""Where the folders of the checkout are in the wheel."""
GIT = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
MAX_CHARS = 200


@dataclass(frozen=True)
class Installed:
    """A running `chatmemory quickstart`, and where it is installed."""

    url: str
    token: str
    home: Path
    folder: Path
    packages: Path
    wheel: Path


def run(*command: object) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, env=costs.environment_for_tls())
    assert done.returncode == 0, f"{words}:\n{done.stdout[-1000:]}{done.stderr[-3000:]}"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    root = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "venv", "--without-pip", root / "venv")
    uv = Path(sys.executable).with_name("uv")
    run(uv, "build", "--quiet", "--wheel", "--out-dir", root, ROOT)
    (wheel,) = root.glob("chatmemory_server-*.whl")
    install = [uv, "pip", "install", "--quiet", "--python", root / "venv" / "bin" / "python"]
    run(*install, "--require-hashes", "-r", ROOT / "requirements.lock")
    run(*install, "--no-deps", wheel)
    run(uv, "pip", "check", "--quiet", "--python", root / "venv" / "bin" / "python")

    folder, home = root / "anywhere", root / "home"
    folder.mkdir()
    (home / ".chatmemory").mkdir(parents=True)
    (home / ".chatmemory" / ".env").write_text(f"MESSAGE_MAX_CHARS={MAX_CHARS}\n")
    port = free_port()
    program = root / "venv" / "bin" / "chatmemory"
    with subprocess.Popen(
        [program, "quickstart", "--port", str(port)],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            screen = ""
            for line in process.stdout:
                screen += line
                if "Press Ctrl-C" in line:
                    break
            token = re.search(r"Bearer (\S+)'", screen)
            assert token, screen
            (packages,) = (root / "venv" / "lib").glob("python*/site-packages")
            url = f"http://127.0.0.1:{port}"
            yield Installed(url, token[1], home / ".chatmemory", folder, packages, wheel)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0


def test_the_wheel_contains_exactly_the_product(installed: Installed) -> None:
    tracked = subprocess.run([*GIT, *FILES], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    wanted = {FILES[top] + "/" + rest for top, _, rest in (path.partition("/") for path in tracked)}
    found = {name for name in zipfile.ZipFile(installed.wheel).namelist() if ".dist-info/" not in name}
    assert found == wanted


def test_the_wheel_serves_its_pages_and_assets(installed: Installed) -> None:
    with httpx.Client(base_url=installed.url) as client:
        files = set()
        for page in ("/", "/playground/", "/v1/docs", "/admin/login/"):
            answer = client.get(page)
            assert answer.status_code == 200, page
            files |= set(re.findall(r'(?:src|href)="(/static/[^"?]+)', answer.text))
        static = installed.packages / "chatmemory" / "static"
        files |= {f"/static/{path.relative_to(static)}" for path in static.rglob("*") if path.is_file()}
        assert {path: code for path in files if (code := client.get(path).status_code) != 200} == {}


def test_wheel_answers_with_settings_of_its_home(installed: Installed) -> None:
    with httpx.Client(base_url=installed.url, headers={"Authorization": f"Bearer {installed.token}"}) as client:
        body = {"message": "My dog is called Rex.", "stream": False}
        answered = client.post("/v1/message/first", json=body, headers={"Accept": "application/json"})
        assert answered.status_code == 200, answered.text
        reply = answered.json()["message"]
        assert (reply["status"], reply["content"] != "") == ("complete", True), reply
        refused = client.post("/v1/message/first", json={"message": "x" * (MAX_CHARS + 1)})
        assert refused.status_code == 400, "the .env of its home is not read"


def test_the_wheel_writes_only_into_its_home(installed: Installed) -> None:
    assert {path.name for path in (installed.home / "var").iterdir()} >= {
        "chatmemory.sqlite3",
        "log",
        "secret-key",
    }
    assert list(installed.folder.iterdir()) == []
    assert not (installed.packages / "var").exists()
