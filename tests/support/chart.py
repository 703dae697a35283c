"""The Helm chart, rendered by Helm's own engine, which the extra `check` brings."""

from __future__ import annotations

from typing import Any

import yaml

from tests.support.image import ROOT

CHART = ROOT / "deploy" / "helm"
SECRETS_AT = "/run/secrets/chatmemory"
"""Where the chart mounts the Secret."""

Objects = dict[str, dict[str, Any]]
"""By kind and name, such as `Deployment chatmemory-server`."""


def render(values: dict[str, Any]) -> Objects:
    """What Helm would send. Raise `helm_python.HelmError` if it refuses the values."""
    import helm_python

    with helm_python.Chart.load(CHART) as chart:
        rendered: dict[str, str] = chart.render(values, name="chatmemory", namespace="chats")
    found = [one for path, text in rendered.items() if path.endswith(".yaml") for one in yaml.safe_load_all(text)]
    return {f"{one['kind']} {one['metadata']['name']}": one for one in found if one}


def pods(objects: Objects) -> dict[str, Any]:
    """The specifications of the pods: of `server`, `worker` and `migrate`."""
    found = [one["spec"]["template"] for one in objects.values() if "template" in one["spec"]]
    return {one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"] for one in found}


def variables(pod: Any, secrets: str = SECRETS_AT) -> dict[str, str]:
    """The environment of a pod whose Secret is mounted at `secrets`."""
    return {one["name"]: one["value"].replace(SECRETS_AT, secrets) for one in pod["containers"][0]["env"]}
