"""The wheel alone, in an empty virtual environment, is all of minova; and a controller needs no libvirt."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.nightly("installs all packages anew"),
]

EXECUTABLES = (
    "minova",
    "minova-api",
    "minova-compute",
    "minova-conductor",
    "minova-manage",
    "minova-placement-api",
    "minova-scheduler",
    "minova-standalone",
)


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with nothing but the wheel in it, far from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("minova-*.whl")
    venv.create(folder / "venv")
    # With the pip that is there, and without compiling what no test imports: that took most of this file's CPU time.
    pip = (sys.executable, "-m", "pip", "--python", folder / "venv/bin/python")
    run(*pip, "install", "-q", "--no-compile", f"{wheel}[cli,placement-api,standalone]", cwd=folder)
    return folder / "venv"


@pytest.mark.parametrize("name", EXECUTABLES)
def test_every_executable_is_there_and_says_its_version(environment: Path, name: str) -> None:
    assert "0.2.0" in run(environment / "bin" / name, "--version", cwd=environment)


def test_the_migrations_are_there(environment: Path, tmp_path: Path) -> None:
    conf = tmp_path / "minova.conf"
    conf.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    manage = (environment / "bin/minova-manage", "--config-file", conf, "db")
    run(*manage, "upgrade", cwd=tmp_path)
    assert run(*manage, "version", cwd=tmp_path).strip()


def test_man_pages_of_all_executables_are_there(environment: Path) -> None:
    pages = {path.stem for path in (environment / "share/man").glob("man*/minova*")}
    assert pages == {path.name for path in (environment / "bin").glob("minova*")}


def test_the_sample_and_the_units_are_there(environment: Path) -> None:
    sample = environment / "share/minova/minova.conf.sample"
    assert sample.read_text() == (ROOT / "etc/minova/minova.conf.sample").read_text()
    assert {path.name for path in (environment / "share/minova/systemd").iterdir()} == {
        path.name for path in (ROOT / "etc/systemd").iterdir()
    }


def test_a_controller_needs_no_libvirt(environment: Path) -> None:
    code = "import minova.cmd.api, minova.cmd.conductor, minova.cmd.scheduler, sys; print('libvirt' in sys.modules)"
    assert run(environment / "bin/python", "-c", code, cwd=environment).strip().endswith("False")
    missing = subprocess.run([environment / "bin/python", "-c", "import libvirt"], capture_output=True, check=False)
    assert missing.returncode != 0


def test_every_package_of_the_checkout_is_in_the_wheel(environment: Path) -> None:
    """setup.py names the packages of migrations/, which lies outside minova/."""
    site = next((environment / "lib").glob("python3*/site-packages"))
    for root, name in ((ROOT / "minova", "minova"), (ROOT / "migrations", "minova/migrations")):
        for path in root.rglob("*.py"):
            assert (site / name / path.relative_to(root)).exists(), f"{path} is not in the wheel"
