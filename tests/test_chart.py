"""The Helm chart, rendered by Helm's own engine: valid for Kubernetes, without secrets, in agreement with the product.

Marked as services only because that is where the tools of the extra `check` are installed.
"""

from __future__ import annotations

import math
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands
from django.urls import resolve
from prometheus_client import generate_latest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from chatmemory.config import environment
from chatmemory.config.declared import SECRETS, Config
from tests.support.chart import CHART, SECRETS_AT, Objects, pods, render, variables
from tests.support.image import ROOT, Image

pytestmark = pytest.mark.services

FULL: dict[str, Any] = {
    "image": {"repository": "images.example.com/chatmemory", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "settings": {
        "LIMIT_TOKENS_PER_DAY": 5_000_000,
        "MEMORY_ENABLED": True,
        "MODEL_VARIANTS": {"arco": {"model": "m", "key_env": "SPARE_KEY", "base_url": "http://llm/v1"}},
        "REPLY_DRAIN_SECONDS": 60.5,
        "WORKER_STOP_SECONDS": "20",
    },
    "secret": {"name": "ours", "keys": [*sorted(SECRETS), "SPARE_KEY"]},
    "server": {"replicas": 3, "maxReplicas": 30, "trustedProxies": "10.0.0.0/8,10.1.2.3"},
    "worker": {"replicas": 4},
    "migration": {"resources": {"limits": {"memory": "2Gi"}}},
    "pods": {
        "annotations": {"team": "chats"},
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "chats", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
        ],
        "volumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "volumeMounts": [{"name": "ca", "mountPath": "/etc/ca", "readOnly": True}],
    },
    "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {}}]},
    "ingress": {"host": "chat.example.com", "className": "nginx", "tlsSecret": "tls"},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
}
DOCUMENTED = yaml.safe_load((ROOT / "docs" / "deploy.md").read_text().split("```yaml\n")[1].split("```")[0])
VALUES = pytest.mark.parametrize("values", [{}, DOCUMENTED, FULL], ids=["default", "documented", "full"])
OF_THE_OPERATOR = {"ServiceMonitor", "PodMonitor"}
"""Kinds that Kubernetes' own schemas do not have."""


@cache
def full() -> Objects:
    return render(FULL)


@VALUES
def test_helm_has_nothing_to_say_against_it(values: dict[str, Any]) -> None:
    import helm_python

    report = helm_python.lint(CHART, values, strict=True)
    assert (report["errors"], [one for one in report["messages"] if one["severity"] > 1]) == ([], [])


@VALUES
@pytest.mark.parametrize("version", ["1.27", "1.37"])
def test_kubernetes_accepts_rendered_chart(values: dict[str, Any], version: str) -> None:
    from kubernetes_validate.utils import validate

    objects = render(values)
    for one in objects.values():
        if one["kind"] not in OF_THE_OPERATOR:
            validate(one, version, strict=True)
    wanted = {"Deployment", "Job", "PodDisruptionBudget", "Service"}
    wanted |= {"HorizontalPodAutoscaler", "Ingress"} if values else set()
    wanted |= {"NetworkPolicy"} if "networkPolicy" in values else set()
    wanted |= OF_THE_OPERATOR if "serviceMonitor" in values else set()
    assert {one["kind"] for one in objects.values()} == wanted


def test_settings_arrive_and_secrets_only_as_files(tmp_path: Path) -> None:
    objects = full()
    assert {*pods(objects)} == {"server", "worker", "migrate"}
    for name in FULL["secret"]["keys"]:
        (tmp_path / name).write_text("postgres://host/db" if "URL" in name else f"sk-{name}")
    for component, pod in pods(objects).items():
        given = variables(pod, str(tmp_path))
        names = {name.removesuffix("_FILE") for name in given} - {"SPARE_KEY"}
        assert names <= {*Config.model_fields}, component
        assert ("METRICS_PORT" in names) == (component == "worker")
        assert not SECRETS & {*given}
        (mount,) = (one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "secrets")
        (volume,) = (one["secret"] for one in pod["volumes"] if one["name"] == "secrets")
        assert (volume["secretName"], mount["mountPath"], mount["readOnly"]) == ("ours", SECRETS_AT, True)
        config, texts = environment.read(given, Path("/nowhere"))
        assert (config.LIMIT_TOKENS_PER_DAY, config.MEMORY_ENABLED) == (5_000_000, True)
        assert config.OPENAI_API_KEY == "sk-OPENAI_API_KEY"
        assert (upstream := config.variants(texts)["arco"].upstream)
        assert upstream.api_key == "sk-SPARE_KEY"
        assert config.DJANGO_ALLOWED_HOSTS == "chat.example.com"


@pytest.mark.parametrize(
    "values",
    [
        *({"settings": {name: "x"}} for name in sorted(SECRETS)),
        {"secret": {"keys": ["OPENAI_API_KEY", "DATABASE_URL"]}},
        {"servers": {"replicas": 2}},
        {"server": {"replica": 2}},
        {"serviceMonitor": {"enabled": True}},  # without a token
        {"server": {"trustedProxies": "*"}},  # then clients choose their address
    ],
    ids=str,
)
def test_secrets_as_values_and_misspelt_values_are_refused(values: dict[str, Any]) -> None:
    import helm_python

    with pytest.raises(helm_python.HelmError):
        render(values)


@pytest.mark.parametrize("name", yaml.safe_load((CHART / "values.yaml").read_text()))
def test_a_value_with_nothing_under_it_is_its_default_or_named(name: str) -> None:
    import helm_python

    if name in ("settings", "pods", "imagePullSecrets"):
        assert render({name: None}) == render({})
        return
    with pytest.raises(helm_python.HelmError, match=f"missing property '{name}'"):
        render({name: None})


def test_pods_are_placed_and_mount_as_their_values_say() -> None:
    values = FULL["pods"]
    for component, pod in pods(full()).items():
        for name in ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints"):
            assert pod[name] == values[name], component
        assert pod["volumes"][-1:] == values["volumes"]
        assert pod["containers"][0]["volumeMounts"][-1:] == values["volumeMounts"]
    templates = [one["spec"]["template"] for one in full().values() if "template" in one["spec"]]
    assert [one["metadata"]["annotations"] for one in templates] == [values["annotations"]] * 3
    assert pods(full())["migrate"]["containers"][0]["resources"]["limits"] == {"memory": "2Gi"}


def test_network_policy_opens_only_ports_that_there_are() -> None:
    (rule,) = full()["NetworkPolicy chatmemory"]["spec"]["ingress"]
    containers = [pod["containers"][0] for pod in pods(full()).values()]
    named = [port["name"] for one in containers for port in one.get("ports", [])]
    assert [one["port"] for one in rule["ports"]] == sorted(named)
    assert rule["from"] == FULL["networkPolicy"]["from"]


def test_no_proxy_is_trusted_by_default() -> None:
    args = pods(render({}))["server"]["containers"][0]["args"]
    trusted = args[args.index("--forwarded-allow-ips") + 1]
    assert "10.0.0.1" not in ProxyHeadersMiddleware(full, trusted).trusted_hosts  # type: ignore[arg-type]


@VALUES
def test_pods_run_commands_of_the_image(values: dict[str, Any]) -> None:
    image, found = Image.read(), pods(render(values))
    server = found["server"]["containers"][0]
    assert server["command"] == ["chatmemory", "serve"]
    assert found["worker"]["containers"][0]["command"] == ["chatmemory", "worker"]
    assert found["migrate"]["containers"][0]["command"] == ["chatmemory", "migrate"]
    assert {"worker", "migrate"} <= {*get_commands()}
    (port,) = server["ports"]
    assert server["args"][: server["args"].index("--port") + 2][-1] == str(port["containerPort"])
    for probe in ("readinessProbe", "livenessProbe"):
        assert server[probe]["httpGet"]["port"] == port["name"]
        assert resolve(server[probe]["httpGet"]["path"])
    for pod in found.values():
        assert pod["securityContext"]["runAsUser"] == image.user_id
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == version


@VALUES
def test_pods_have_the_time_that_their_settings_promise(values: dict[str, Any]) -> None:
    given = values.get("settings", {})
    found = pods(render(values))
    for component, name in (("server", "REPLY_DRAIN_SECONDS"), ("worker", "WORKER_STOP_SECONDS")):
        needed = math.ceil(float(given.get(name, Config.model_fields[name].default)))
        assert found[component]["terminationGracePeriodSeconds"] == needed + 30


def test_traffic_budget_and_scaling_are_of_the_server_alone() -> None:
    objects = full()
    labels = {
        name: one["spec"]["template"]["metadata"]["labels"]
        for name, one in objects.items()
        if "template" in one["spec"]
    }
    for selector in (
        objects["Service chatmemory"]["spec"]["selector"],
        objects["PodDisruptionBudget chatmemory-server"]["spec"]["selector"]["matchLabels"],
    ):
        assert [name for name, one in labels.items() if selector.items() <= one.items()] == [
            "Deployment chatmemory-server"
        ]
    scaler = objects["HorizontalPodAutoscaler chatmemory-server"]["spec"]
    assert f"Deployment {scaler['scaleTargetRef']['name']}" in objects
    (one,) = scaler["metrics"]
    assert f"# TYPE {one['pods']['metric']['name']} gauge" in generate_latest().decode()
    assert "replicas" not in objects["Deployment chatmemory-server"]["spec"], "the scaler sets it"


def test_the_operator_scrapes_ports_that_there_are() -> None:
    objects = full()
    (of_server,) = objects["ServiceMonitor chatmemory-server"]["spec"]["endpoints"]
    (of_worker,) = objects["PodMonitor chatmemory-worker"]["spec"]["podMetricsEndpoints"]
    assert resolve(of_server["path"])
    assert of_server["authorization"]["credentials"] == {"name": "ours", "key": "METRICS_TOKEN"}
    assert of_server["port"] in {one["name"] for one in objects["Service chatmemory"]["spec"]["ports"]}
    worker = pods(objects)["worker"]
    (port,) = worker["containers"][0]["ports"]
    assert (port["name"], str(port["containerPort"])) == (
        of_worker["port"],
        variables(worker)["METRICS_PORT"],
    )


def test_the_schema_is_migrated_before_the_pods_are_rolled() -> None:
    job = full()["Job chatmemory-migrate"]
    hooks = job["metadata"]["annotations"]
    assert hooks["helm.sh/hook"] == "pre-install,pre-upgrade"
    # What failed stays, so that its log can be read: until the next try, and in pods that are not started again.
    assert hooks["helm.sh/hook-delete-policy"] == "before-hook-creation"
    assert pods(full())["migrate"]["restartPolicy"] == "Never"
