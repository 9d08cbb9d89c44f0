"""The last release, beside the code under test: its own modules and entry points, with the packages of this environment."""

import configparser
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
COMMIT = "d8f8a1a"
# Before the wire of 0.2.0 got one message for all actions. No release, but clouds may run it.
BEFORE_RUN_ACTION = "89a19cb"
PROGRAM = "import sys; from {module} import {function}; sys.argv[0] = {name!r}; sys.exit({function}())"


class Release:
    """Made in `folder` from the repository's history. Raises AssertionError if the clone is too shallow to hold it."""

    def __init__(self, folder: Path, commit: str = COMMIT) -> None:
        self._commit = commit
        self.source = folder / "source"
        self.site = folder / "site"
        self._unpack()
        setup = configparser.ConfigParser()
        setup.read(self.source / "setup.cfg")
        self._require(setup["options"]["install_requires"])
        self._entry_points = {name: _pairs(text) for name, text in setup["options.entry_points"].items()}
        self._install(setup["metadata"]["version"])

    def _unpack(self) -> None:
        command = ["git", "-C", str(ROOT), "archive", self._commit]
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode == 0, (
            f"The last release, commit {self._commit}, is not in this clone: fetch the whole history (git fetch --unshallow).\n"
            f"{done.stderr.decode()}"
        )
        self.source.mkdir(parents=True)
        subprocess.run(["tar", "-x", "-C", str(self.source)], input=done.stdout, check=True)

    def _require(self, packages: str) -> None:
        """Packages that this release needs no more are in the extra `test`, so that the last release starts."""
        for requirement in map(Requirement, packages.split()):
            assert requirement.specifier.contains(metadata.version(requirement.name)), requirement

    def _install(self, version: str) -> None:
        """What pip would write: the modules, and the metadata in which filters and weighers are looked up."""
        self.site.mkdir(parents=True)
        (self.source / "minova").rename(self.site / "minova")
        (self.source / "migrations").rename(self.site / "minova/migrations")
        metadata = self.site / f"minova-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: minova\nVersion: {version}\n")
        lines = []
        for group, pairs in self._entry_points.items():
            lines += [f"[{group}]", *(f"{name} = {target}" for name, target in pairs.items()), ""]
        (metadata / "entry_points.txt").write_text("\n".join(lines))
        # Once, and not by each of the processes that start together.
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(self.site)], check=True)

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which Python finds the release's modules before those of the checkout."""
        return {"PYTHONPATH": str(self.site)}

    def command(self, name: str) -> list[Any]:
        """Of one of the release's executables."""
        module, function = self._entry_points["console_scripts"][name].split(":")
        return [sys.executable, "-P", "-c", PROGRAM.format(module=module, function=function, name=name)]


def _pairs(text: str) -> dict[str, str]:
    return dict((part.strip() for part in line.split("=", 1)) for line in text.strip().splitlines())  # type: ignore[misc]
