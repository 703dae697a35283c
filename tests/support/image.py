"""The Dockerfile, parsed: its steps, and the properties of the container that it makes."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction: its name, and what follows it."""

    name: str
    rest: str


@dataclass(frozen=True, slots=True)
class Image:
    """All steps of the Dockerfile, and those of its last stage, of which the container is made."""

    steps: tuple[Step, ...]
    last: tuple[Step, ...]

    @classmethod
    def read(cls) -> Image:
        lines = (ROOT / "Dockerfile").read_text().splitlines()
        steps = tuple(Step(*line.split(" ", 1)) for line in lines if line and not line.startswith("#"))
        begins = max(place for place, step in enumerate(steps) if step.name == "FROM")
        return cls(steps, steps[begins:])

    @property
    def copies(self) -> list[tuple[str, str]]:
        """The paths that are copied from the checkout, and their destinations."""
        copied = (step.rest.split() for step in self.steps if step.name == "COPY")
        return [
            (source, target) for *sources, target in copied for source in sources if not sources[0].startswith("--from")
        ]

    @property
    def installs(self) -> list[list[str]]:
        """What pip is told to install, in this order."""
        return [shlex.split(step.rest)[1:] for step in self.steps if step.rest.startswith("/venv/bin/pip ")]

    @property
    def environment(self) -> dict[str, str]:
        given = (word for step in self.last if step.name == "ENV" for word in shlex.split(step.rest))
        return dict(word.split("=", 1) for word in given)

    @property
    def user(self) -> str:
        return next(step.rest for step in self.last if step.name == "USER")

    @property
    def user_id(self) -> int:
        made = next(step.rest for step in self.last if step.rest.startswith("useradd"))
        found = re.search(r"--uid (\d+)", made)
        assert found
        return int(found[1])

    @property
    def command(self) -> list[str]:
        return self._exec("CMD", self.last[-1].rest)

    @property
    def health_check(self) -> list[str]:
        (step,) = (step for step in self.last if step.name == "HEALTHCHECK")
        return self._exec("HEALTHCHECK", step.rest[step.rest.index("CMD ") + 4 :])

    @staticmethod
    def _exec(name: str, text: str) -> list[str]:
        command = json.loads(text)
        assert isinstance(command, list), f"{name} is not in exec form, so signals would not arrive"
        return [str(word) for word in command]
