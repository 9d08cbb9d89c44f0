"""`tools/demo --openstack` as people run it, which takes minutes: `tools/check nightly` runs this, other runs do not."""

import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Seconds that a fresh machine may take that does nothing else, and that anything may take here.
FRESH, PATIENCE = 360, 900


def words_of(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """The folder of a demo, which is removed by the demo itself."""
    folder = tmp_path / "demo"
    yield folder
    ended = demo(folder, "--stop")
    said, _ = ended.communicate(timeout=PATIENCE)
    assert ended.returncode == 0, said
    assert left_of(folder) == []


def left_of(folder: Path) -> list[bytes]:
    """The folder, and the command lines of processes that name it."""
    own = str(folder).encode()
    processes = [words for each in Path("/proc").glob("[0-9]*") if own in (words := words_of(each))]
    return processes + ([own] if folder.exists() else [])


def demo(folder: Path, *words: str) -> subprocess.Popen[str]:
    """In a process group of its own, as in a terminal."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    return subprocess.Popen(
        [str(ROOT / "tools" / "demo"), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**environment, "MINOVA_DEMO_DIR": str(folder)},
        start_new_session=True,
    )


@pytest.mark.timeout(3 * PATIENCE)
def test_a_server_boots_by_openstack_alone_and_again_on_what_runs(state: Path) -> None:
    ids = []
    for _ in range(2):
        started, quiet = time.monotonic(), os.getloadavg()[0] < (os.cpu_count() or 1)
        running = demo(state, "--openstack")
        said, _ = running.communicate(timeout=PATIENCE)
        assert running.returncode == 0, said
        seconds = time.monotonic() - started
        print(f"tools/demo --openstack: {seconds:.0f} s")
        assert seconds < FRESH or not quiet
        assert re.search(r"\| status +\| ACTIVE ", said)
        assert "MINOVA-GUEST READY" in said
        assert {"compute", "identity", "image", "network", "placement"} <= set(re.findall(r"\| (\w+)", said))
        (url,) = re.findall(r"\| url +\| (\S+)", said)
        with urllib.request.urlopen(url, timeout=60) as page:
            assert b"noVNC" in page.read()
        ids += re.findall(r"\| id +\| (\S+)", said)
    assert len(set(ids)) == 2, "each run has a guest of its own"
    refused = demo(state)
    assert "tools/demo --stop first" in refused.communicate(timeout=PATIENCE)[0]
    assert refused.returncode == 1


@pytest.mark.timeout(3 * PATIENCE)
@pytest.mark.parametrize("after", ["starting RabbitMQ", "booting a guest"])
def test_an_interrupted_demo_leaves_nothing(state: Path, after: str) -> None:
    running = demo(state, "--openstack")
    assert running.stdout is not None
    for line in running.stdout:
        if after in line:
            break
    else:
        pytest.fail(f"it has not come to {after!r}")
    os.killpg(running.pid, signal.SIGINT)
    said, _ = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130, said
    assert left_of(state) == []
