"""tools/lock and tools/release-sbom: locked packages, and the list of them that goes with a release."""

import configparser
import json
import subprocess
import sys
from collections.abc import Set as AbstractSet
from importlib import metadata
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import grimp
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
    extras = "".join(f"{extra} =\n" for extra in (*tool("lock").RUNTIME, "docs", "test"))
    setup = f"[options]\ninstall_requires =\n    # why\n    falcon>=4\n\n[options.extras_require]\n{extras}"
    (tmp_path / "setup.cfg").write_text(setup)
    pin = "# via the following command\n{}==4.4.0 \\\n    --hash=sha256:00\n"
    for name in ("test", "runtime"):
        (tmp_path / "requirements" / f"{name}.lock").write_text(pin.format("falcon"))
    (tmp_path / "requirements" / "clients").mkdir()
    for name, package in (("build.lock", "setuptools"), *((name, "keystone") for name in module.APART)):
        (tmp_path / "requirements" / name).write_text(pin.format(package))
        (tmp_path / "requirements" / name.replace(".lock", ".in")).write_text(f"{package}\n")
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
    assert {(canonicalize_name(component["name"]), component["version"]) for component in sbom["components"]} == pinned
    assert all(component["hashes"] for component in sbom["components"])
    edges = {edge["ref"]: edge.get("dependsOn", []) for edge in sbom["dependencies"]}
    own = edges[sbom["metadata"]["component"]["bom-ref"]]
    direct = {canonicalize_name(requirement.name) for requirement in locker.declared(locker.RUNTIME)}
    assert {reference.removeprefix("pkg:pypi/").partition("@")[0] for reference in own} == direct
    reached, queue = set(own), list(own)
    while queue:
        queue += new if (new := [to for to in edges[queue.pop()] if to not in reached]) else []
        reached |= {*new}
    assert reached == {component["bom-ref"] for component in sbom["components"]}


# -- roles ---------------------------------------------------------------------------------------------------------------

# The modules with which a role starts. The rest of what it runs is imported by these, at once or when it is needed.
ENTRIES = {
    "api": ("minova.cmd.api",),
    "cli": ("minova.cli",),
    "compute": ("minova.cmd.compute",),
    "conductor": ("minova.cmd.conductor",),
    "consoleproxy": ("minova.cmd.consoleproxy",),
    "manage": ("minova.cmd.manage", "minova.cmd.commands", "minova.scheduler"),
    "metadata": ("minova.cmd.metadata",),
    "placement-api": ("minova.cmd.placement_api",),
    "scheduler": ("minova.cmd.scheduler", "minova.scheduler"),
}
# What a role may use without an import that can be found: uvicorn loads its event loop by name, PyMySQL and psycopg are the
# operator's choice, and only hosts with libvirt have its bindings.
BY_NAME = {"api": {"uvloop"}, "metadata": {"uvloop"}, "placement-api": {"uvloop"}}
OWN_EXTRA = {"libvirt-python"}


@pytest.fixture(scope="module")
def imports() -> Any:
    return grimp.build_graph("minova", include_external_packages=True, exclude_type_checking_imports=True)


def imported_by(imports: Any, role: str) -> AbstractSet[str]:
    """The distributions that the code of a role imports."""
    modules = {module for entry in ENTRIES[role] for module in (entry, *imports.find_descendants(entry))}
    reached = modules | {imported for module in modules for imported in imports.find_upstream_modules(module)}
    names = {module.partition(".")[0] for module in reached} - sys.stdlib_module_names - {"minova"}
    distributions = metadata.packages_distributions()
    return {canonicalize_name(distributions[name][0]) for name in names} - OWN_EXTRA


def declared_for(role: str) -> AbstractSet[str]:
    return {canonicalize_name(requirement.name) for requirement in tool("lock").declared((role,))}


@pytest.mark.parametrize("role", ENTRIES)
def test_an_extra_is_what_its_role_imports(imports: Any, role: str) -> None:
    common = declared_for("libvirt") - OWN_EXTRA
    assert imported_by(imports, role) | common | BY_NAME.get(role, set()) == declared_for(role)


def test_every_role_has_an_extra() -> None:
    assert tuple(ENTRIES) == tool("lock").ROLES


def test_a_package_has_the_same_bounds_in_every_extra() -> None:
    lock = tool("lock")
    bounds: dict[str, set[str]] = {}
    for requirement in lock.declared((*lock.RUNTIME, "test")):
        bounds.setdefault(canonicalize_name(requirement.name), set()).add(str(requirement.specifier))
    assert {name: bounds_of_name for name, bounds_of_name in bounds.items() if len(bounds_of_name) > 1} == {}


def test_bug_the_image_of_controllers_had_no_modules() -> None:
    """setup.py, which names the packages, was not copied into its build."""
    lines = (ROOT / "packaging" / "Containerfile").read_text().splitlines()
    copied = {name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]}
    wheel = configparser.ConfigParser()
    wheel.read(ROOT / "setup.cfg")
    data = {name.split("/")[0] for names in wheel["options.data_files"].values() for name in names.split()}
    files = {"LICENSE", "README.md", "pyproject.toml", "setup.cfg", "setup.py"}
    assert files | data | {"minova", "migrations", "requirements"} <= copied
