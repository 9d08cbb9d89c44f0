"""An environment with Nova in it, made where there is none. Nothing of Nova's is kept in the project."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

NOVA = "34.0.0"
# For the filters that Nova has dropped since.
OLD = ("19.3.2", "20.6.1")


class Environment(NamedTuple):
    """`python` has Nova 34; `old` holds the unpacked packages of the older ones, as `nova-VERSION`."""

    python: Path
    old: Path


def environment(folder: Path, python: Path | None) -> Environment:
    """In that folder, made at the first call. `python`: one that has Nova already."""
    if python is None:
        python = python_of(folder)
        if not python.exists():
            install(folder)
    for version in OLD:
        if not (folder / f"nova-{version}").exists():
            _say(f"Unpacking Nova {version} in {folder}")
            _unpack(folder, version)
    return Environment(python, folder)


def python_of(folder: Path) -> Path:
    return folder / "venv" / "bin" / "python"


def install(folder: Path, *packages: str) -> None:
    """Nova, and these packages beside it."""
    _say(f"Installing Nova {NOVA} in {folder / 'venv'}")
    if not python_of(folder).exists():
        venv.create(folder / "venv", with_pip=True)
    _run(python_of(folder), "-m", "pip", "install", "-q", f"nova=={NOVA}", *packages)


def _unpack(folder: Path, version: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _run(Path(sys.executable), "-m", "pip", "download", "-q", "--no-deps", f"nova=={version}", "-d", str(folder))
    (wheel,) = folder.glob(f"nova-{version}-*.whl")
    with zipfile.ZipFile(wheel) as package:
        package.extractall(folder / f"nova-{version}")
    wheel.unlink()


def _run(python: Path, *arguments: str) -> None:
    subprocess.run([str(python), *arguments], check=True)


def _say(text: str) -> None:
    print(text, flush=True)
