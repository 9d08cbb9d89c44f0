"""What operators run: Debian with cloud-init, by config drive and by the metadata service, on each machine and firmware.

MINOVA_DEBIAN: its image, which tools/debian-guest makes (tools/check nightly). A boot takes minutes under emulation.
"""

import base64
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import libvirt
import libvirt_qemu
import msgspec
import pytest

from minova import conf as configuration
from minova.contracts.conductor import ConductorApi
from minova.metadata import service
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.driver import ComputeDriver
from minova.virt.driver.domains import GuestData
from minova.virt.namespaces.host_networks import of_this_host
from minova.virt.namespaces.host_routes import PROC_NET
from tests.integration.test_standalone import Standalone
from tests.integration.virt.kept_secrets import KeptSecrets
from tests.integration.virt.test_cloud_init import Conductor
from tests.integration.virt.test_guest import instance, load, remove_all
from tests.integration.virt.test_networks import vif
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

IMAGE = os.environ.get("MINOVA_DEBIAN", "")
BOOT = 2400.0
pytestmark = [pytest.mark.timeout(4 * BOOT), pytest.mark.skipif(not IMAGE, reason="nightly: MINOVA_DEBIAN")]
FLAVOR = Flavor(flavorid="d", name="debian", vcpus=2, memory_mb=768, root_gb=3, ephemeral_gb=1, swap=64)
SPECS = {"hw:cpu_max_sockets": "1", "hw:cpu_threads": "2", "hw:tpm_version": "2.0"}
HOST: dict[str, Any] = {"swtpm_enabled": True, "cpu_mode": "custom", "cpu_models": ["Nehalem"]}
# A place in a TPM that keeps what is written there.
INDEX = "0x1500016"
READ_TPM = f"tpm2_nvread -C o {INDEX}"
USER_DATA = "#!/bin/sh\necho ran >/root/user-data\n"
# Seconds for one answer of the agent.
ANSWER = 60
PASSWORD = "s3cret of Debian"


class DebianGuest:
    """Its agent runs commands."""

    def __init__(self, uri: str, uuid: str) -> None:
        self._uri, self._uuid = uri, uuid

    def ready(self) -> None:
        """Waits for the end of cloud-init, which comes after all of the boot."""
        wait_for("Debian", self._is_ready, timeout=BOOT)
        assert self.ask("cloud-init status") == "status: done"

    def _is_ready(self) -> bool:
        try:
            return "running" not in self.ask("cloud-init status") and self.ask("cat /root/user-data") == "ran"
        except libvirt.libvirtError:  # no agent yet
            return False

    def ask(self, command: str) -> str:
        """What the command prints."""
        words = {"path": "/bin/sh", "arg": ["-c", command], "capture-output": True}
        pid = self._agent("guest-exec", words)["pid"]
        done: dict[str, Any] = wait_for(
            command, lambda: (said := self._agent("guest-exec-status", {"pid": pid}))["exited"] and said, timeout=BOOT
        )
        return base64.b64decode(done.get("out-data", "")).decode().strip()

    def _agent(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        connection = libvirt.open(self._uri)
        try:
            domain = connection.lookupByUUIDString(self._uuid)
            agent_command = json.dumps({"execute": name, "arguments": arguments})
            return dict(json.loads(libvirt_qemu.qemuAgentCommand(domain, agent_command, ANSWER, 0))["return"])
        finally:
            connection.close()

    def says(self, command: str) -> str | None:
        """What the command prints; None while the agent is away."""
        try:
            return self.ask(command)
        except libvirt.libvirtError:
            return None

    def lag(self) -> float:
        """Seconds by which the guest's clock is wrong."""
        return abs(time.time() - float(self.ask("date +%s")))


class Debian(DebianGuest):
    """One that the test makes by its driver."""

    def __init__(self, driver: ComputeDriver, uri: str, one: Instance, kept: KeptSecrets) -> None:
        super().__init__(uri, one.uuid)
        self.driver, self.instance, self.kept = driver, one, kept


@contextmanager
def debian(
    folder: Path,
    file: Path,
    properties: dict[str, str],
    *,
    disk_format: str = "qcow2",
    specs: dict[str, str] | None = None,
    by_network: bool = False,
    **options: Any,
) -> Iterator[Debian]:
    """`by_network`: the guest has its data by the metadata service alone. Otherwise it has a config drive, and no network."""
    with ExitStack() as stack:
        server = stack.enter_context(Libvirtd(networks=by_network))
        driver = load(folder, server.uri, proc_net=server.proc_net if by_network else PROC_NET, **options)
        stack.callback(driver.close)
        kept = KeptSecrets()
        driver.use_secrets(kept)
        image = Image(id="debian", disk_format=disk_format, properties={"hw_qemu_guest_agent": "yes", **properties})
        new_instance = instance(
            display_name="debian",
            hostname="debian",
            flavor=msgspec.structs.replace(FLAVOR, extra_specs=specs or {}),
            image=image,
            image_ref=image.id,
            config_drive=not by_network,
            network_info=(vif(15),) if by_network else (),
            user_data=base64.b64encode(USER_DATA.encode()).decode(),
        )
        stack.callback(remove_all, driver)
        if by_network:
            metadata = service.local(
                configuration.load([], "test", files=[]),
                cast(ConductorApi, Conductor(new_instance)),
                of_this_host("", server.uri, server.proc_net),
            )
            metadata.start()
            stack.callback(metadata.stop)
        driver.prepare(new_instance, driver.available_nodes()[0], 1, file, GuestData(admin_password=PASSWORD))
        driver.power_on(new_instance)
        yield Debian(driver, server.uri, new_instance, kept)


def check(guest: Debian, firmware: str, *, by_network: bool) -> None:
    """Cloud-init ends with `done` and has found its data, and the guest has the disks and the hardware of its flavor."""
    guest.ready()
    assert guest.ask("hostname") == "debian"
    assert guest.ask("cloud-init query platform") == ("openstack" if by_network else "configdrive")
    drive = guest.ask("blkid --label config-2 >/dev/null && echo drive || echo none")
    assert drive == ("none" if by_network else "drive")
    if by_network:
        assert guest.ask("cloud-init query subplatform") == "metadata (http://169.254.169.254)"
    assert guest.ask("test -d /sys/firmware/efi && echo uefi || echo bios") == firmware
    # The root file system has grown to the flavor's 3 GB.
    assert int(guest.ask("df --output=size -BM / | tail -n 1 | tr -dc 0-9")) > 2500
    assert int(guest.ask("df --output=size -BM /mnt | tail -n 1 | tr -dc 0-9")) in range(900, 1025)
    assert guest.ask("findmnt -n -o LABEL /mnt") == "ephemeral0"
    assert guest.ask("swapon --show=SIZE --noheadings --bytes") == str((64 << 20) - 4096)
    said = dict(re.findall(r"^([^:]+):\s*(.*)$", guest.ask("LC_ALL=C lscpu"), re.MULTILINE))
    topology = ("CPU(s)", "Socket(s)", "Core(s) per socket", "Thread(s) per core")
    assert [said[each] for each in topology] == ["2", "1", "1", "2"]
    assert guest.ask("cat /sys/class/tpm/tpm0/tpm_version_major; ls /dev/tpm0").split() == ["2", "/dev/tpm0"]


# With the tests below each machine is seen with each firmware, and each source of data with each machine and each firmware; pc with BIOS and
# a config drive, which are Nova's defaults, with no option at all.
@pytest.mark.parametrize(
    ("machine", "firmware", "by_network", "options"),
    [
        ("pc", "bios", True, {}),
        ("pc", "bios", False, {}),
        ("pc", "uefi", True, {}),
        # A CD on IDE, which UEFI leaves off unless it is told.
        ("pc", "uefi", False, {}),
        ("q35", "bios", True, {}),
        # The next test has the eighth: q35, BIOS, and a CD on virtio-scsi.
        ("q35", "uefi", True, {}),
        ("q35", "uefi", False, {"__config_drive_format": "vfat"}),
    ],
)
def test_cloud_init_finds_its_data_and_the_guest_its_hardware(
    tmp_path: Path, machine: str, firmware: str, by_network: bool, options: dict[str, str]
) -> None:
    properties = {"hw_machine_type": machine, "hw_firmware_type": firmware, "hw_tpm_model": "tpm-tis"}
    with debian(tmp_path, Path(IMAGE), properties, specs=SPECS, by_network=by_network, **HOST, **options) as guest:
        check(guest, firmware, by_network=by_network)


def test_a_guest_finds_what_it_has_written_into_its_tpm(tmp_path: Path) -> None:
    """After a hard reboot, and after the server was shelved and unshelved."""
    properties = {"hw_machine_type": "q35", "hw_firmware_type": "bios", "hw_tpm_model": "tpm-crb"}
    with debian(tmp_path, Path(IMAGE), properties, specs=SPECS, cdrom_bus="scsi", **HOST) as guest:
        check(guest, "bios", by_network=False)
        driver, new_instance = guest.driver, guest.instance
        assert guest.ask(f"tpm2_nvdefine -Q -C o -s 8 {INDEX} && echo defined") == "defined"
        assert guest.ask(f"printf kept-all | tpm2_nvwrite -Q -C o -i - {INDEX} && echo written") == "written"
        driver.hard_reboot(new_instance)
        wait_for("the TPM after a hard reboot", lambda: guest.says(READ_TPM) == "kept-all", timeout=BOOT)

        shelved = tmp_path / "shelved"
        driver.power_off(new_instance.uuid)
        driver.snapshot(new_instance, shelved, lambda: None)
        state = driver.tpm_state(new_instance)
        assert state is not None
        driver.destroy(new_instance.uuid)
        guest.kept.tpm_states[new_instance.uuid] = state
        driver.prepare(new_instance, driver.available_nodes()[0], 2, shelved)
        driver.power_on(new_instance)
        wait_for("the TPM of an unshelved server", lambda: guest.says(READ_TPM) == "kept-all", timeout=BOOT)


# The disk beside the one of the rescue system, which has the size of its image.
BROKEN = "lsblk --noheadings --output NAME,SIZE --nodeps --bytes | awk '$2 == 3221225472 {print $1}'"


def check_broken_disk(guest: DebianGuest) -> None:
    """It is there, is not the root of the rescue system, and has what the server wrote."""
    name = guest.ask(BROKEN)
    assert not guest.ask("findmnt -n -o SOURCE /").startswith(f"/dev/{name}")
    assert guest.ask(f"mount -o ro /dev/{name}1 /srv && cat /srv/root/kept && umount /srv") == "kept"


def test_an_operators_day_with_debian(tmp_path: Path) -> None:
    """The clock, the password, a snapshot as a new machine, and a rescue beside the broken disk."""
    with debian(tmp_path, Path(IMAGE), {"hw_machine_type": "q35"}, cdrom_bus="scsi") as guest:
        guest.ready()
        driver, new_instance = guest.driver, guest.instance
        before = guest.ask("date +%s")
        driver.pause(new_instance.uuid)
        stands = time.monotonic() + 60
        wait_for("a minute of pause", lambda: time.monotonic() > stands)
        assert driver.unpause(new_instance.uuid) is PowerState.RUNNING
        wait_for("the clock after a pause", lambda: guest.lag() < 20)
        driver.suspend(new_instance.uuid)
        stands = time.monotonic() + 60
        wait_for("a minute of suspension", lambda: time.monotonic() > stands)
        assert driver.resume(new_instance) is PowerState.RUNNING
        wait_for("the clock after a suspension", lambda: guest.lag() < 20)
        assert int(guest.ask("date +%s")) - int(before) >= 120

        stored = guest.ask("getent shadow root | cut -d: -f2")
        driver.set_admin_password(new_instance, "an0ther")
        assert guest.ask("getent shadow root | cut -d: -f2") != stored
        opens = "exit(crypt($ARGV[0], $ARGV[1]) ne $ARGV[1])"
        hashed = "$(getent shadow root | cut -d: -f2)"
        assert guest.ask(f"perl -e '{opens}' an0ther \"{hashed}\" && echo opens") == "opens"
        assert guest.ask(f"perl -e '{opens}' other \"{hashed}\" || echo closed") == "closed"

        guest.ask("echo kept >/root/kept; sync; echo kept")
        snapshot = tmp_path / "snapshot"
        quiet = msgspec.structs.replace(
            new_instance,
            image=Image(id="debian", properties={"hw_qemu_guest_agent": "yes", "os_require_quiesce": "yes"}),
        )
        driver.snapshot(quiet, snapshot, lambda: None)

        assert new_instance.image is not None
        driver.prepare_rescue(new_instance, new_instance.image, Path(IMAGE))
        driver.power_off(new_instance.uuid)
        driver.rescue(new_instance, new_instance.image)
        guest.ready()
        # The rescue system, on the disk of its image: what was written is on the other one.
        assert guest.ask("cat /root/kept 2>/dev/null || echo gone") == "gone"

        def is_there() -> bool:
            for each in driver.without_broken_disk():
                driver.attach_broken_disk(each)
            return bool(guest.ask(BROKEN))

        wait_for("the broken disk", is_there, timeout=BOOT)
        check_broken_disk(guest)
        driver.hard_reboot(new_instance)
        wait_for("the server again", lambda: guest.says("cat /root/kept") == "kept", timeout=BOOT)
    with debian(tmp_path / "2", snapshot, {"hw_machine_type": "q35"}, cdrom_bus="scsi") as another:
        another.ready()
        assert another.ask("cat /root/kept") == "kept"
        assert another.ask("cat /var/lib/cloud/data/instance-id") == another.instance.uuid


def test_a_rescue_by_the_api_gets_the_broken_disk_from_its_compute(tmp_path: Path) -> None:
    """When the agent of the rescue system is there, long before the time that `rescue_disk_delay` says. The guest has pc, BIOS and a config
    drive, as Nova has them without options.
    """
    user_data = tmp_path / "user-data"
    user_data.write_text(USER_DATA)
    with Libvirtd() as server:
        cloud = Standalone(tmp_path)
        file = tmp_path / "minova.conf"
        libvirt_options = f"connection_uri = {server.uri}\nvirt_type = qemu\nrescue_disk_delay = {int(BOOT)}\n"
        file.write_text(f"{file.read_text()}[libvirt]\n{libvirt_options}")
        try:
            cloud.start()
            cloud.cli("flavor", "create", "debian", "--vcpus", "2", "--ram", "768", "--disk", "3")
            agent = ("--property", "hw_qemu_guest_agent=yes")
            cloud.cli("image", "create", "debian", "--file", IMAGE, "--disk-format", "qcow2", *agent)
            data = ("--user-data", str(user_data), "--config-drive", "--wait")
            cloud.cli("server", "create", "debian", "--flavor", "debian", "--image", "debian", *data)
            guest = DebianGuest(server.uri, cloud.json("server", "show", "debian")["id"])
            guest.ready()
            assert guest.ask("cloud-init query platform") == "configdrive"
            assert guest.ask("echo kept >/root/kept; sync; echo kept") == "kept"
            cloud.cli("server", "rescue", "debian", "--wait")
            assert cloud.json("server", "show", "debian")["status"] == "RESCUE"
            wait_for("the rescue system", lambda: guest.says("cat /root/kept || echo gone") == "gone", timeout=BOOT)
            wait_for("the broken disk", lambda: guest.says(BROKEN), timeout=BOOT)
            check_broken_disk(guest)
            wait_for("the clock of the rescue system", lambda: guest.lag() < 20)
            cloud.cli("server", "unrescue", "debian", "--wait")
            wait_for("the server again", lambda: guest.says("cat /root/kept") == "kept", timeout=BOOT)
            assert guest.ask(BROKEN) == guest.ask("lsblk --noheadings --output PKNAME $(findmnt -n -o SOURCE /)")
        finally:
            cloud.kill()
