"""Make a virtual environment for each rival.

    python benchmarks/rivals/install.py [--into FOLDER] [--only cmfrec,ppca-py] [--again]

Each rival gets an environment of its own, as some exclude each other's requirements, and a `report.json` beside it: the
versions that were installed, or why none was. scikit-learn's methods and nanfold run in the environment of the caller.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / ".venv"

# What is asked of pip for each environment, which is named after the rival.
GROUPS = {
    "cmfrec": ["cmfrec>=3.5.1", "threadpoolctl"],  # compiles for some minutes
    "ppca-py": ["ppca-py>=1.0", "scikit-learn"],
    "statsmodels": ["statsmodels>=0.14", "scikit-learn"],
    "fancyimpute": ["fancyimpute>=0.7", "scikit-learn<1.8"],  # calls what scikit-learn 1.8 no longer has
    "open-nipals": ["open-nipals>=2.0"],
}


@dataclass(frozen=True)
class Environment:
    """What became of an environment: versions of what is in it, or the reason why it cannot be used."""

    group: str
    versions: dict[str, str]
    failure: str = ""

    @property
    def version(self) -> str:
        """That of the rival itself."""
        return self.versions.get(self.group, "")


def python_of(folder: Path, group: str) -> Path:
    place = folder / group
    return place / "Scripts" / "python.exe" if os.name == "nt" else place / "bin" / "python"


def read_report(folder: Path, group: str) -> Environment:
    """What `install` wrote; not installed is a failure too."""
    place = folder / group / "report.json"
    if not place.exists():
        return Environment(group, {}, "not installed; run benchmarks/rivals/install.py")
    return Environment(**json.loads(place.read_text(encoding="utf-8")))


def install(folder: Path, group: str, requirements: list[str]) -> Environment:
    """Make the environment anew and install into it; a failure is returned, not raised."""
    place = folder / group
    shutil.rmtree(place, ignore_errors=True)
    try:
        venv.EnvBuilder(with_pip=True, symlinks=os.name != "nt").create(place)
        pip = [str(python_of(folder, group)), "-m", "pip", "--disable-pip-version-check"]
        done = subprocess.run([*pip, "install", "--quiet", *requirements], capture_output=True, text=True)
        if done.returncode:
            result = Environment(group, {}, "does not install: " + reason_in(done.stderr))
        else:
            listed = subprocess.run([*pip, "list", "--format=json"], capture_output=True, text=True, check=True)
            found = {
                package["name"].lower().replace("_", "-"): package["version"] for package in json.loads(listed.stdout)
            }
            result = Environment(group, found)
    except (OSError, subprocess.CalledProcessError) as error:
        result = Environment(group, {}, f"does not install: {error}")
    place.mkdir(parents=True, exist_ok=True)
    (place / "report.json").write_text(json.dumps(asdict(result), indent=1), encoding="utf-8")
    return result


def reason_in(messages: str) -> str:
    """The last line of what pip said that names an error, or the last line."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["pip gave no reason"])[-1][:300]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=FOLDER, help="folder of the environments")
    parser.add_argument("--only", default=",".join(GROUPS), help="which of them, separated by commas")
    parser.add_argument("--again", action="store_true", help="make those anew that are there already")
    arguments = parser.parse_args()
    groups = arguments.only.split(",")
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        parser.error(f"there is no rival {unknown[0]!r}; there are {', '.join(GROUPS)}")

    def installed(group: str) -> Environment:
        report = read_report(arguments.into, group)
        if arguments.again or report.failure:
            report = install(arguments.into, group, GROUPS[group])
        print(f"{group}: {report.failure or report.version}", flush=True)
        return report

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(installed, groups))
    return 1 if any(result.failure for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
