"""tools/lock and tools/release-sbom: locked packages, and the list of them that goes with a release."""

import json
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def tool(name: str) -> Any:
    loader = SourceFileLoader(f"tools_{name}", str(ROOT / "tools" / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tool, on a project with one dependency."""
    module = tool("lock")
    (tmp_path / "requirements").mkdir()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "FOLDER", tmp_path / "requirements")
    extras = "".join(f"{extra} =\n" for extra in ("libvirt", "mysql", "postgresql", "docs", "test"))
    setup = f"[options]\ninstall_requires =\n    # why\n    falcon>=4\n\n[options.extras_require]\n{extras}"
    (tmp_path / "setup.cfg").write_text(setup)
    pin = "# via the following command\n{}==4.4.0 \\\n    --hash=sha256:00\n"
    for name in ("test", "runtime"):
        (tmp_path / "requirements" / f"{name}.lock").write_text(pin.format("falcon"))
    for name, package in (("build", "setuptools"), ("openstack", "keystone")):
        (tmp_path / "requirements" / f"{name}.lock").write_text(pin.format(package))
        (tmp_path / "requirements" / f"{name}.in").write_text(f"{package}\n")
    (tmp_path / "requirements" / "floors.txt").write_text("# why\nfalcon>=4\n")
    return module


def edit(lock: Any, name: str, before: str, after: str) -> None:
    path = lock.ROOT / name
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


def test_a_lock_that_fits_is_fine(lock: Any) -> None:
    assert list(lock.problems()) == []


@pytest.mark.parametrize(
    ("name", "before", "after", "problem"),
    [
        ("setup.cfg", "falcon>=4\n", "falcon>=4\n    uvicorn>=0.30\n", "runtime.lock: no version fits uvicorn>=0.30"),
        ("setup.cfg", "falcon>=4", "falcon>=4.5", "runtime.lock: no version fits falcon>=4.5"),
        ("setup.cfg", "falcon>=4", "falcon", "setup.cfg: falcon allows releases before 4, see requirements/floors.txt"),
        ("requirements/floors.txt", ">=4", ">=4.5", "runtime.lock: no version fits falcon>=4.5"),
        ("requirements/floors.txt", "falcon>=4", "paste>=1", "floors.txt: paste is in no lock file"),
        ("requirements/runtime.lock", "    --hash=sha256:00", "    # none", "runtime.lock: falcon==4.4.0 has no hash"),
        ("requirements/openstack.in", "keystone", "keystone>=5", "openstack.lock: no version fits keystone>=5"),
        ("requirements/test.lock", "# via", "--index-url https://host/simple\n#", "test.lock: it names a server"),
    ],
)
def test_what_does_not_fit_is_named(lock: Any, name: str, before: str, after: str, problem: str) -> None:
    edit(lock, name, before, after)
    assert problem in list(lock.problems())


def test_what_a_locked_package_needs_in_turn_must_be_locked(lock: Any) -> None:
    from importlib.metadata import version  # noqa: PLC0415

    edit(lock, "setup.cfg", "falcon>=4", "falcon>=4\n    alembic")
    for name in ("test", "runtime"):
        path = lock.FOLDER / f"{name}.lock"
        path.write_text(path.read_text() + f"alembic=={version('alembic')} \\\n    --hash=sha256:00\n")
    assert any(text.startswith("runtime.lock: no version fits Mako, which alembic needs") for text in lock.problems())


def test_the_lock_files_of_this_project_fit() -> None:
    """As tools/check lint finds it, which says how to renew them."""
    done = subprocess.run([sys.executable, ROOT / "tools" / "lock", "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_sbom_is_valid_and_complete(tmp_path: Path) -> None:
    file = tmp_path / "sbom.json"
    command = [sys.executable, str(ROOT / "tools" / "release-sbom"), str(file)]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": path})
    assert done.returncode == 0, done.stderr
    sbom = json.loads(file.read_text())
    locker = tool("lock")
    pinned = {(name, version) for name, pins in locker.pins("runtime.lock").items() for version, _ in pins}
    assert {(canonicalize_name(one["name"]), one["version"]) for one in sbom["components"]} == pinned
    assert all(one["hashes"] for one in sbom["components"])
    edges = {edge["ref"]: edge.get("dependsOn", []) for edge in sbom["dependencies"]}
    own = edges[sbom["metadata"]["component"]["bom-ref"]]
    direct = {canonicalize_name(requirement.name) for requirement in locker.declared(locker.RUNTIME)}
    assert {reference.removeprefix("pkg:pypi/").partition("@")[0] for reference in own} == direct
    reached, queue = set(own), list(own)
    while queue:
        queue += new if (new := [to for to in edges[queue.pop()] if to not in reached]) else []
        reached |= {*new}
    assert reached == {one["bom-ref"] for one in sbom["components"]}
