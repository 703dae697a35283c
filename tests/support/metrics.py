"""What a server or a worker tells Prometheus, read as Prometheus reads it."""

from __future__ import annotations

from dataclasses import dataclass

import httpx
from prometheus_client import Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from chatmemory import metrics
from memory import probes

TOKEN = "scrape-token"
DECLARED = [one for one in vars(metrics).values() if isinstance(one, MetricWrapperBase)]
ENDINGS: dict[str | None, tuple[str, ...]] = {
    "counter": ("_total",),
    "gauge": ("",),
    "summary": ("_sum", "_count"),
    "histogram": ("_sum", "_count", "_bucket"),
}
NAMES = [one._name + ENDINGS[one._type][0].replace("_sum", "") for one in DECLARED] + [*probes.STORED]
"""All metrics."""
SERIES: dict[str, set[str]] = {name: set() for name in probes.STORED} | {
    one._name + ending: set(one._labelnames) for one in DECLARED for ending in ENDINGS[one._type]
}
"""All that a scrape can have, with its labels."""


@dataclass(frozen=True)
class Scrape:
    """One scrape."""

    text: str
    families: list[Metric]

    @classmethod
    def of(cls, url: str, token: str = TOKEN) -> Scrape:
        """Scrape the server or worker at `url`."""
        headers = {"Authorization": f"Bearer {token}"}
        answer = httpx.get(f"{url}/metrics", headers=headers, timeout=20)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        return cls(answer.text, list(text_string_to_metric_families(answer.text)))

    def __call__(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name that have these labels, among others."""
        return sum(
            sample.value
            for family in self.families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    @property
    def labels(self) -> set[tuple[str, str]]:
        """Names and values of all labels, without the bounds of buckets."""
        found = [sample.labels for family in self.families for sample in family.samples]
        return {(name, value) for labels in found for name, value in labels.items() if name != "le"}
