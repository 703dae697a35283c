"""`make audit`: look up known vulnerabilities of every locked version.

pip-audit passes when its index knows none of the packages. Here, a package without an answer is a failure, unless
`OFFLINE=1` says that this is expected.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

LOCK = Path(__file__).resolve().parents[3] / "requirements-dev.lock"
"""The lock file that contains all packages of the others."""
ASK = ["--require-hashes", "--disable-pip", "--progress-spinner=off", "--format=json", "-r", str(LOCK)]


def main() -> int:
    """Print what was found. Returns 0 if no version has a known vulnerability."""
    done = subprocess.run([sys.executable, "-m", "pip_audit", *ASK], stdout=subprocess.PIPE, text=True)
    packages = json.loads(done.stdout)["dependencies"] if done.stdout else []
    known = [one for one in packages if "vulns" in one]
    holes = [(one, hole) for one in known for hole in one["vulns"]]
    for one, hole in holes:
        print(f"{one['name']} {one['version']}: {hole['id']}, fixed in {', '.join(hole['fix_versions']) or 'none'}")
    print(f"{len(known)} of {len(packages)} locked packages were looked up, {len(holes)} vulnerabilities known.")
    is_complete = bool(known) and len(known) == len(packages)
    return int(bool(holes) or not (is_complete or os.environ.get("OFFLINE") == "1"))


if __name__ == "__main__":
    sys.exit(main())
