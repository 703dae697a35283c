"""Dockerfile, compose.yaml, nginx.conf and the systemd units agree with the product and with each other."""

import re
import shlex
from configparser import RawConfigParser
from fnmatch import fnmatch
from typing import Any

import pytest
import yaml

from chatmemory.asgi import LARGE_PATHS
from chatmemory.config.declared import Config
from tests.support.image import ROOT, Image
from tests.support.released import RELEASED

pytestmark = pytest.mark.exhaustive

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
UNITS = sorted((ROOT / "deploy" / "systemd").iterdir())
SERVE = ["chatmemory", "serve"]


def test_the_image_starts_the_server_as_documented() -> None:
    assert Image.read().command[:2] == SERVICES["server"]["command"][:2] == SERVE


def test_the_image_runs_unprivileged_without_secrets() -> None:
    image = Image.read()
    assert image.user == str(image.user_id) != "0"
    assert not [name for name in image.environment if re.search("KEY|TOKEN|PASSWORD|SECRET|URL", name)]
    assert not [step for step in image.steps if step.name == "ARG"]


def test_the_image_has_locked_packages_and_the_wheel() -> None:
    locked, wheel = Image.read().installs
    assert {"--require-hashes", "requirements.lock"} <= {*locked}
    assert {"--no-deps", "/src"} <= {*wheel}


def test_build_context_equals_copied_files() -> None:
    lines = (ROOT / ".dockerignore").read_text().split()
    assert lines[0] == "*"
    let_in = [line[1:] for line in lines if line.startswith("!")]
    assert sorted(source for source, _ in Image.read().copies) == sorted(let_in)
    assert all((ROOT / source).exists() for source in let_in)
    assert not [name for name in (".env", "var", ".git") if any(fnmatch(name, one) for one in let_in)]


def test_every_setting_of_compose_is_one_of_ours() -> None:
    given = COMPOSE["x-chatmemory"]["environment"]
    assert set(given) <= set(Config.model_fields)
    for name in ("server", "worker", "migrate"):
        assert SERVICES[name]["environment"] == given
    assert all(":?" in given[name] for name in ("DATABASE_URL", "DJANGO_SECRET_KEY")), "a secret has no default"


def test_server_and_worker_wait_for_the_tables() -> None:
    for name in ("server", "worker"):
        assert SERVICES[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert SERVICES["worker"]["command"] == ["chatmemory", "worker"]


def test_proxy_takes_large_bodies_where_the_server_does() -> None:
    places = re.findall(r"location (/\S*) \{([^}]*)\}", (ROOT / "deploy" / "nginx.conf").read_text())
    large = {path for path, inside in places if "client_max_body_size 33m;" in inside}
    assert large == {*LARGE_PATHS}
    assert Config.model_fields["OPENAI_REQUEST_MAX_BYTES"].default < 33 * 1024**2


def test_upgrade_page_names_the_version_that_the_tests_upgrade_from() -> None:
    assert f"commit {RELEASED[:7]} " in (ROOT / "docs" / "upgrade.md").read_text()


def test_only_the_proxy_publishes_a_port() -> None:
    assert [name for name, one in SERVICES.items() if "ports" in one] == ["proxy"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_start_the_documented_commands(unit: Any) -> None:
    read = RawConfigParser(strict=False)
    read.optionxform = str  # type: ignore[assignment,method-assign]  # as configparser documents it
    read.read(unit)
    program, *command = shlex.split(read["Service"]["ExecStart"])
    called = [program.removeprefix("/opt/chatmemory/bin/"), *command]
    assert called[:2] == SERVE or called == ["chatmemory", "worker"]
    assert read["Service"]["User"] == "chatmemory"
