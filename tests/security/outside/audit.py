"""`make audit`: look up known vulnerabilities of every locked version, and report packages that were not found.

pip-audit passes when its index knows none of the packages. Here, a package without an answer is a failure, unless
`OFFLINE=1` says that this is expected.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCK = Path(__file__).resolve().parents[3] / "requirements-check.lock"
"""The lock file that contains all packages of the others."""
SECONDS = 600
ASK = ["--require-hashes", "--disable-pip", "--progress-spinner=off", "--format=json"]


def main() -> int:
    """Print the verdict. Returns 0 if no version has a known vulnerability."""
    command = [sys.executable, "-m", "pip_audit", *ASK, "-r", str(LOCK)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except ValueError:
        packages = []
    code, lines = verdict(packages, is_offline=os.environ.get("OFFLINE") == "1")
    print("\n".join(lines))
    if not packages:
        print("\n".join(done.stderr.strip().splitlines()[-1:]))
    return code


def verdict(packages: list[dict[str, Any]], *, is_offline: bool) -> tuple[int, list[str]]:
    """Return exit code and sentences for pip-audit's packages: 1 for a vulnerability, 2 if one was not looked up."""
    asked = [one for one in packages if "vulns" in one]
    found = [(one, hole) for one in asked for hole in one["vulns"]]
    lines = [
        f"{one['name']} {one['version']}: {hole['id']}, fixed in {', '.join(hole['fix_versions']) or 'none'}"
        for one, hole in found
    ]
    lines.append(
        f"{len(asked)} of {len(packages)} locked packages were asked about, {len(found)} vulnerabilities known."
    )
    if found:
        return 1, lines
    if asked and len(asked) == len(packages):
        return 0, lines
    lines.append("The service of advisories could not be asked about all of them.")
    return (0, [*lines, "OFFLINE=1: that is taken as it is."]) if is_offline else (2, lines)


if __name__ == "__main__":
    sys.exit(main())
