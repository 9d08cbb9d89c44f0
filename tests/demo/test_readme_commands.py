"""The README's two commands, in its order and in a clone that other users may not enter, as root and by sudo: `tools/check nightly` runs this, other
runs do not. MINOVA_README=whole: the second command as it stands there, which takes an hour for each user; else a selection of the tests.
"""

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.demo.test_openstack_demo import PATIENCE, ROOT, left_of

# What once failed there, and what looks at the machine's networks, libvirtd or other users.
# By their files: to collect all tests takes longer than these.
SELECTION = (
    "tests/integration/test_private_libvirtd.py",
    "tests/integration/test_standalone.py",
    "tests/integration/virt/test_bug_metadata_beside_another.py",
    "tests/integration/virt/test_bug_networks_of_a_killed_host.py",
    "tests/integration/virt/test_port_filters.py::test_guests_read_their_own_metadata_alone",
    "tests/security/test_bug_closed_clone.py",
    "tests/security/test_root_files.py",
    "tests/security/test_systemd_units.py",
    "tests/unit/cmd/test_standalone.py",
)

WHOLE = os.environ.get("MINOVA_README") == "whole"
HOURS = 3 * 3600

# An ordinary user who may use sudo, made for the test.
VISITOR = "minova-visitor"


class Clone(NamedTuple):
    """`user`: types the commands; root, or one who becomes root by sudo."""

    path: Path
    user: str

    def run(self, *command: str) -> str:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OS_", "PYTEST_", "MINOVA_", "XDG_"))
        }
        account = pwd.getpwnam(self.user)
        environment |= {"HOME": account.pw_dir, "USER": self.user, "LOGNAME": self.user}
        done = subprocess.run(
            ("setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups", *command),
            cwd=self.path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=HOURS if WHOLE else 3 * PATIENCE,
        )
        assert done.returncode == 0, done.stdout[-8000:]
        return done.stdout


@pytest.fixture(params=["root", VISITOR])
def user(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    if name == "root":
        yield name
        return
    subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", name], check=True)
    rule = Path("/etc/sudoers.d", name)
    try:
        rule.touch(0o440)
        rule.write_text(f"{name} ALL=(ALL) NOPASSWD: ALL\n")
        yield name
    finally:
        rule.unlink(missing_ok=True)
        subprocess.run(["userdel", "--remove", name], check=True, capture_output=True)


@contextmanager
def clone_of(user: str) -> Iterator[Clone]:
    """Its path is short: it becomes that of libvirt's socket."""
    with tempfile.TemporaryDirectory(prefix="minova-") as name:
        path = Path(name, "clone")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(path)], check=True, timeout=PATIENCE)
        subprocess.run(["chown", "-R", f"{user}:", name], check=True)
        assert Path(name).stat().st_mode & 0o777 == 0o700
        clone = Clone(path, user)
        try:
            yield clone
        finally:
            clone.run("tools/demo", "--stop")
        assert left_of(path / ".demo") == []


@pytest.fixture
def clone(user: str) -> Iterator[Clone]:
    with clone_of(user) as clone:
        yield clone


@pytest.mark.timeout(2 * HOURS if WHOLE else 6 * PATIENCE)
def test_the_tests_pass_while_the_demo_runs(clone: Clone) -> None:
    assert "MINOVA-GUEST READY" in clone.run("tools/demo")
    said = clone.run("tools/test") if WHOLE else clone.run("tools/test", *SELECTION)
    assert " passed" in said.splitlines()[-1]
    assert (clone.path / "build" / "flaky.txt").read_text() == ""
    # The demo's own guest is as it was.
    assert "logging in to the guest" in clone.run("tools/demo")


# In a guest: its metadata, by nc, as its wget crashes.
READ_METADATA = r"{ printf 'GET /openstack/latest/meta_data.json HTTP/1.0\r\nHost: 169.254.169.254\r\n\r\n'; sleep 1; } | nc -w 5 169.254.169.254 80"


def require_own_metadata(clone: Clone) -> None:
    """The demo's guest must read its own UUID at the metadata service."""
    url = f"http://127.0.0.1:{(clone.path / '.demo' / 'port').read_text().strip()}"
    minova = ("env", f"MINOVA_URL={url}", ".venv/bin/minova", "server")
    own = clone.run(*minova, "show", "demo", "-f", "value", "-c", "id").strip()
    state = clone.path / ".demo" / "own"
    # Without a terminal ssh asks nobody whether it may trust the guest.
    options = ("-o", f"UserKnownHostsFile={state / 'known_hosts'}", "-o", "LogLevel=ERROR")
    read = clone.run(*minova, "ssh", "demo", "--identity", str(state / "key"), "--", *options, READ_METADATA)
    assert own in read, read


@pytest.mark.timeout(9 * PATIENCE)
def test_two_demos_run_beside_each_other() -> None:
    """Of two clones, at once: each logs in to its own guest, which reads its own metadata, and the end of one leaves the other as it is."""
    with clone_of("root") as first, clone_of("root") as second, ThreadPoolExecutor(2) as pool:
        said = list(pool.map(lambda clone: clone.run("tools/demo"), (first, second)))
        for words in said:
            assert "MINOVA-GUEST READY" in words
            assert "logging in to the guest" in words
        for clone in (first, second):
            require_own_metadata(clone)
        second.run("tools/demo", "--stop")
        assert left_of(second.path / ".demo") == []
        require_own_metadata(first)
        assert "logging in to the guest" in first.run("tools/demo")
