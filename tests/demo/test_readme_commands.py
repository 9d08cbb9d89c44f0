"""The README's two commands, in its order and in a clone that other users may not enter: `tools/check nightly` runs this, other runs do not."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.test_openstack_demo import PATIENCE, ROOT, left_of

# What once failed there, and what looks at the machine's networks, libvirtd or other users.
SELECTION = "root_files or closed_clone or own_metadata_alone or beside_another or private_libvirtd or systemd_units or standalone"


@pytest.fixture
def clone() -> Iterator[Path]:
    """Its path is short: it becomes that of libvirt's socket."""
    with tempfile.TemporaryDirectory(prefix="minova-") as name:
        made = Path(name, "clone")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(made)], check=True, timeout=PATIENCE)
        assert Path(name).stat().st_mode & 0o777 == 0o700
        yield made
        run(made, "tools/demo", "--stop")
        assert left_of(made / ".demo") == []


def run(clone: Path, *command: str) -> str:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("OS_", "PYTEST_", "MINOVA_"))
    }
    done = subprocess.run(
        command,
        cwd=clone,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=3 * PATIENCE,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout


@pytest.mark.timeout(6 * PATIENCE)
def test_the_tests_pass_while_the_demo_runs(clone: Path) -> None:
    assert "MINOVA-GUEST READY" in run(clone, "tools/demo")
    said = run(clone, "tools/test", "-k", SELECTION)
    assert " passed" in said.splitlines()[-1]
    assert (clone / "build" / "flaky.txt").read_text() == ""
    # The demo's own guest is as it was.
    assert "logging in to the guest" in run(clone, "tools/demo")
