"""The units in etc/systemd: how exposed systemd says a service is, and that each service works within the limits."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from minova.conf.networks import HELPER, METADATA_HELPER
from tests.integration.deployment import Deployment
from tests.servers import kept_paths, sandbox
from tests.servers.libvirtd import CLIENT_ID

pytestmark = pytest.mark.timeout(300)

# The most that systemd-analyze may say: 0 is a service that may do nothing, 10 one without any limits.
EXPOSURE = {
    "minova-api": 2.5,
    "minova-conductor": 2.5,
    "minova-scheduler": 2.5,
    "minova-consoleproxy": 2.5,
    "minova-metadata": 2.5,
    # It makes network namespaces, which must be mounts of the host.
    "minova-network-helper": 5.5,
    "minova-placement-api": 2.5,
    "minova-compute": 5.0,
    "minova-standalone": 5.0,
}


def test_every_unit_has_a_limit() -> None:
    assert {unit.stem for unit in sandbox.UNITS.glob("*.service")} == set(EXPOSURE)


@pytest.mark.parametrize("unit", EXPOSURE)
def test_systemd_finds_a_service_little_exposed(unit: str) -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", f"{sandbox.UNITS}/{unit}.service"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    score = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert score is not None, done.stderr
    assert float(score[1]) <= EXPOSURE[unit], done.stdout


@pytest.mark.parametrize("unit", EXPOSURE)
def test_every_service_says_when_it_serves_and_has_a_watchdog(unit: str) -> None:
    settings = sandbox.settings(sandbox.UNITS / f"{unit}.service")
    assert (settings["Type"], settings["WatchdogSec"]) == (["notify"], ["60"])


@pytest.mark.parametrize("unit", EXPOSURE)
def test_no_service_is_root_or_leaves_files_open(unit: str) -> None:
    settings = sandbox.settings(sandbox.UNITS / f"{unit}.service")
    # The helper is root without most of root's rights; nothing but a local socket reaches it.
    user = "root" if unit == "minova-network-helper" else "minova"
    assert (settings["User"], settings["UMask"]) == ([user], ["0077"])


@pytest.mark.parametrize(
    "unit", sorted(set(EXPOSURE) - {"minova-network-helper", "minova-compute", "minova-standalone"})
)
def test_bug_every_service_of_the_user_may_ask_the_helper(unit: str) -> None:
    """The socket of minova-network-helper belongs to the user of all services: other units have an empty folder in its place. A
    folder, because the helper makes its socket anew at each start.
    """
    hidden = " ".join(sandbox.settings(sandbox.UNITS / f"{unit}.service")["TemporaryFileSystem"]).split()
    assert f"{Path(HELPER).parent}:ro" in hidden
    if unit != "minova-metadata":
        assert f"{Path(METADATA_HELPER).parent}:ro" in hidden


def test_the_compute_has_the_limits_of_minova_standalone() -> None:
    """tests/security/test_file_modes.py boots a real guest within those."""
    compute, standalone = (
        sandbox.settings(sandbox.UNITS / f"minova-{name}.service") for name in ("compute", "standalone")
    )
    assert compute.pop("ExecStart") != standalone.pop("ExecStart")
    assert compute == standalone


@pytest.fixture
def limited(fresh_rabbit_url: Callable[[], str], fresh_postgresql_url: Callable[[], str]) -> Iterator[Deployment]:
    """Each service with the limits of its unit."""
    with tempfile.TemporaryDirectory(prefix="minova-units-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        with Deployment(folder, fresh_rabbit_url(), fresh_postgresql_url()) as deployment:
            deployment.compute("hv1", DEFAULT={"compute_driver": "fake"})
            for service in deployment.services.values():
                state = service.folder / "state"
                state.mkdir(exist_ok=True)
                os.chown(state, CLIENT_ID, CLIENT_ID)
                os.chown(service.conf_file, CLIENT_ID, CLIENT_ID)
                keep = [kept_paths.ROOT, Path(sys.prefix), folder]
                service.limit = partial(
                    sandbox.command, service.name, writable=state, keep=keep, uid=CLIENT_ID, groups=[]
                )
            deployment.manage("db", "upgrade")
            yield deployment


def test_a_server_is_built_by_services_with_the_limits_of_their_units(limited: Deployment) -> None:
    limited.start()
    limited.wait_up()
    for name in ("api", "conductor", "scheduler", "hv1"):
        status = Path(f"/proc/{limited.services[name].pid}/status").read_text()
        assert re.search(rf"^Uid:\s+{CLIENT_ID}\s", status, re.MULTILINE), name
        assert re.search(r"^Seccomp:\s+2$", status, re.MULTILINE), name
        # The compute has given its one capability to its helper.
        assert re.search(r"^CapPrm:\s+0+$", status, re.MULTILINE), name
    limited.cli("flavor", "create", "tiny", "--vcpus", "1", "--ram", "64", "--disk", "1")
    image = limited.folder / "image"
    image.write_bytes(b"\0" * 4096)
    limited.cli("image", "create", "raw", "--file", str(image), "--disk-format", "raw")
    limited.cli("server", "create", "vm", "--flavor", "tiny", "--image", "raw", "--wait")
    assert limited.server("vm")["status"] == "ACTIVE"
    limited.cli("server", "delete", "vm", "--wait")
    assert "Operation not permitted" not in limited.logs(100_000)
    assert "Read-only file system" not in limited.logs(100_000)
    for service in limited.services.values():
        assert service.stop() == 0
