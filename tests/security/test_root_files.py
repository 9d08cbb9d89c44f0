"""The helper of minova-compute gives files of guests back, and nothing else; the service itself keeps no capability."""

import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import kept_paths
from tests.waiting import wait_for

OTHER = 64999
# Asks for the paths of its input; prints what became of each, and the capabilities of all threads.
_ASK = """
import json, sys
from pathlib import Path
from minova.virt.libvirt.guest_files import root_files

root_files.start_helper()
answers = []
for name in json.load(sys.stdin):
    try:
        root_files.take_back(Path(name))
        answers.append("taken")
    except Exception as error:
        answers.append(f"{type(error).__name__}: {error}")
permitted = [
    line.split()[1] for status in Path("/proc/self/task").glob("*/status")
    for line in status.read_text().splitlines() if line.startswith("CapPrm")
]
helpers = Path("/proc/self/task").joinpath(str(__import__("os").getpid()), "children").read_text().split()
print(json.dumps({"answers": answers, "permitted": permitted, "helpers": helpers}))
"""


@pytest.fixture
def instances() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="minova-root-files-") as name:
        os.chown(name, OTHER, OTHER)
        yield Path(name)


def guest(instances: Path) -> Path:
    folder = instances / str(uuid.uuid4())
    folder.mkdir(mode=0o750)
    os.chown(folder, OTHER, OTHER)
    return folder


def ask(instances: Path, paths: list[Path], capabilities: str = "-all,+chown") -> dict[str, Any]:
    """Of a process of user OTHER with these capabilities."""
    become = ["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups"]
    words = [*become, f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}", sys.executable, "-c", _ASK]
    done = subprocess.run(
        kept_paths.command(words, keep=[kept_paths.ROOT, Path(sys.prefix), instances], uid=OTHER),
        input=json.dumps([str(path) for path in paths]),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def test_only_plain_files_of_guests_are_taken_back(instances: Path) -> None:
    folder, secret = guest(instances), instances / "secret"
    taken = [folder / name for name in ("disk", "console.log.0", "snapshot.overlay", "kernel", "ramdisk")]
    for path in (*taken, folder / "shadow", secret):
        path.write_text("of root")
    (folder / "disk.swap").symlink_to(secret)
    (folder / "disk.eph0").hardlink_to(secret)
    (folder / "disk.config").mkdir()
    foreign = folder / "console.log"
    foreign.touch()
    os.chown(foreign, 64055, 64055)
    refused = [folder / "disk.swap", folder / "disk.eph0", folder / "disk.config", folder / "shadow", foreign, secret]
    outcome = ask(instances, [*taken, *refused, folder / "disk"])
    assert outcome["answers"][: len(taken)] == ["taken"] * len(taken)
    assert all(answer.startswith("ValueError") for answer in outcome["answers"][len(taken) :]), outcome["answers"]
    assert {path.stat().st_uid for path in taken} == {OTHER}
    assert (secret.stat().st_uid, foreign.stat().st_uid, (folder / "shadow").stat().st_uid) == (0, 64055, 0)
    assert set(outcome["permitted"]) == {"0" * 16}
    (helper,) = outcome["helpers"]
    wait_for("the helper ends with its service", lambda: not Path(f"/proc/{helper}").exists())


def test_without_the_capability_there_is_no_helper(instances: Path) -> None:
    disk = guest(instances) / "disk"
    disk.touch()
    outcome = ask(instances, [disk], "-all")
    assert outcome["answers"] == ["PermissionError: minova-compute was started without CAP_CHOWN"]
    assert (outcome["helpers"], disk.stat().st_uid) == ([], 0)
