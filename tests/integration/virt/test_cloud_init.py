"""The real cloud-init reads the config drives that minova writes: Debian's package, which tools/cloud-init unpacks."""

import base64
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import msgspec
import pycdlib
import pytest

from minova import conf as configuration
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.metadata import service
from minova.objects.guests.guest_metadata import GuestMetadata
from minova.objects.requests.build_extras import GuestFile
from minova.objects.servers.instance import Instance
from minova.virt.config_drive.builder import ConfigDrives
from minova.virt.driver.domains import GuestData
from minova.virt.namespaces.network import network_of
from tests.fakes.host_networks import FakeHostNetworks
from tests.unit.api.compute.test_public_keys import ED25519
from tests.unit.virt.config_drive.test_contents import BASIC, USER_DATA, VIF

CLOUD_INIT = Path(__file__).resolve().parents[3] / "tools" / "cloud-init"
# Its data source finds the files in its seed folder, where it looks before it looks for a device.
READ = """
import json, sys
modules, state = sys.argv[1:]
sys.path.insert(0, modules)
from cloudinit.helpers import Paths
from cloudinit.sources.DataSourceConfigDrive import DataSourceConfigDrive
source = DataSourceConfigDrive({}, None, Paths({"cloud_dir": state, "run_dir": state}))
from cloudinit.sources.helpers.openstack import convert_net_json
assert source.get_data(), "it is no config drive to it"
hostname = source.get_hostname(fqdn=True)
print(json.dumps({
    "hostname": getattr(hostname, "hostname", hostname),
    "keys": source.get_public_ssh_keys(),
    "user_data": source.get_userdata_raw().decode("latin-1"),
    "vendor_data": source.vendordata_pure,
    "vendor_data2": source.vendordata2_pure,
    "instance_id": source.get_instance_id(),
    "zone": source.availability_zone,
    "password": source.metadata["admin_pass"],
    "ec2": source.ec2_metadata["instance-id"],
    "network": convert_net_json(source.network_json, {"52:54:00:00:00:01": "eth0"}),
    "version": source.version,
}))
"""


# Its other data source, which asks over HTTP: at the address that is named, in the place of 169.254.169.254.
ASK = """
import json, sys
modules, state, url = sys.argv[1:]
sys.path.insert(0, modules)
from cloudinit.distros.debian import Distro
from cloudinit.helpers import Paths
from functools import partial
from cloudinit.sources import DataSourceOpenStack as module
from cloudinit.sources.helpers import ec2
# This machine is no guest of an OpenStack cloud, and its own link-local address is none of minova's.
module.detect_openstack = lambda **_: True
ec2.get_instance_metadata = partial(ec2.get_instance_metadata, metadata_address=url)
paths = Paths({"cloud_dir": state, "run_dir": state})
settings = {"datasource_list": ["OpenStack"], "datasource": {"OpenStack": {"metadata_urls": [url], "timeout": 10, "retries": 1, "apply_network_config": True}}}
source = module.DataSourceOpenStack(settings, Distro("debian", {}, paths), paths)
source.perform_dhcp_setup = False
assert source.wait_for_metadata_service(), "it does not answer"
assert source._get_data(), "it is no OpenStack to it"
hostname = source.get_hostname(fqdn=True)
print(json.dumps({
    "hostname": getattr(hostname, "hostname", hostname),
    "keys": source.get_public_ssh_keys(),
    "user_data": source.get_userdata_raw().decode("latin-1"),
    "vendor_data": source.vendordata_pure,
    "vendor_data2": source.vendordata2_pure,
    "instance_id": source.get_instance_id(),
    "zone": source.availability_zone,
    "links": source.network_json["links"][0]["id"],
    "ec2": source.ec2_metadata["instance-id"],
    "version": source.version,
}))
"""


@pytest.fixture(scope="session")
def modules() -> str:
    done = subprocess.run([CLOUD_INIT], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def unpack_iso(drive: Path, folder: Path) -> None:
    disc = pycdlib.PyCdlib()
    disc.open(str(drive))
    assert disc.pvd.volume_identifier.decode().rstrip() == "config-2"
    for path, _, names in disc.walk(rr_path="/"):
        target = folder / path.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        for name in names:
            disc.get_file_from_iso(str(target / name), rr_path=f"{path.rstrip('/')}/{name}")
    disc.close()


def unpack_vfat(drive: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    subprocess.run(["mcopy", "-s", "-Q", "-n", "-i", drive, "::*", folder], check=True)
    label = subprocess.run(["mlabel", "-i", drive, "-s", "::"], capture_output=True, text=True, check=True).stdout
    assert "config-2" in label


@pytest.mark.parametrize(("drive_format", "unpack"), [("iso9660", unpack_iso), ("vfat", unpack_vfat)])
def test_cloud_init_finds_host_name_key_user_data_and_all_else(
    modules: str, tmp_path: Path, drive_format: str, unpack: Any
) -> None:
    vendor_data = tmp_path / "vendor_data.json"
    vendor_data.write_text('{"motd": "welcome"}')
    conf = configuration.load([], "test", files=[])
    conf.set_override("config_drive_format", drive_format)
    conf.set_override("vendordata_jsonfile_path", str(vendor_data), group="api")
    drives = ConfigDrives(conf)
    drives.check()
    # cloud-init writes it there, as it does in a guest.
    injected = tmp_path / "motd"
    guest = msgspec.structs.replace(
        BASIC,
        user_data=base64.b64encode(USER_DATA).decode(),
        key_name="mine",
        key_data=f"{ED25519} a@b",
        key_type="ssh",
        network_info=(VIF,),
    )
    file = GuestFile(path=str(injected), contents=base64.b64encode(b"hello").decode())
    data = GuestData(availability_zone="north", admin_password="s3cret", files=(file,))
    drive = tmp_path / "drive"
    drives.write(drive, guest, data)
    assert drive.stat().st_mode & 0o777 == 0o600
    unpack(drive, tmp_path / "state" / "seed" / "config_drive")
    command = [sys.executable, "-c", READ, modules, str(tmp_path / "state")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "hostname": "web-1.novalocal",
        "keys": [f"{ED25519} a@b"],
        "user_data": USER_DATA.decode("latin-1"),
        "vendor_data": {"motd": "welcome"},
        "vendor_data2": {"static": {"motd": "welcome"}},
        "instance_id": guest.uuid,
        "zone": "north",
        "password": "s3cret",
        "ec2": "i-0b8a5c5e",
        "network": {
            "version": 1,
            "config": [
                {
                    "type": "physical",
                    "name": "eth0",
                    "mac_address": "52:54:00:00:00:01",
                    "mtu": 1450,
                    "subnets": [
                        {"type": "dhcp4"},
                        {
                            "type": "static",
                            "ipv4": True,
                            "address": "192.0.2.9",
                            "netmask": "255.255.255.0",
                            "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.2.1"}],
                        },
                    ],
                },
                {"type": "nameserver", "address": "192.0.2.53"},
            ],
        },
        "version": 2,
    }
    assert injected.read_bytes() == b"hello"


def test_largest_user_data_and_odd_names_fit(tmp_path: Path) -> None:
    big = base64.b64encode(bytes(range(256)) * 192)[:65532].decode()
    guest = msgspec.structs.replace(BASIC, user_data=big, display_name="</name>\x00")
    drives = ConfigDrives(configuration.load([], "test", files=[]))
    drive = tmp_path / "drive"
    drives.write(drive, guest, GuestData())
    unpack_iso(drive, tmp_path / "files")
    assert (tmp_path / "files/openstack/latest/user_data").read_bytes() == base64.b64decode(big)
    assert drive.stat().st_size < 2 << 20


class Conductor:
    """Knows one guest, wherever it asks from."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def metadata_of_address(
        self, ctx: RequestContext, *, host: str, address: str, network_id: str = ""
    ) -> GuestMetadata:
        return GuestMetadata(instance=self._instance, availability_zone="north")


def test_cloud_init_finds_the_same_at_the_metadata_service(modules: str, tmp_path: Path) -> None:
    vendor_data = tmp_path / "vendor_data.json"
    vendor_data.write_text('{"motd": "welcome"}')
    conf = configuration.load([], "test", files=[])
    conf.set_override("vendordata_jsonfile_path", str(vendor_data), group="api")
    guest = msgspec.structs.replace(
        BASIC,
        user_data=base64.b64encode(USER_DATA).decode(),
        key_name="mine",
        key_data=f"{ED25519} a@b",
        key_type="ssh",
        network_info=(VIF,),
    )
    listening = socket.create_server(("127.0.0.1", 0))
    networks = FakeHostNetworks(lambda network_id: listening)
    networks.ensure(network_of(VIF, metadata=True))
    running = service.local(conf, cast(ConductorApi, Conductor(guest)), networks)
    running.start()
    try:
        command = [
            sys.executable,
            "-c",
            ASK,
            modules,
            str(tmp_path / "state"),
            f"http://127.0.0.1:{listening.getsockname()[1]}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    finally:
        running.stop()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "hostname": "web-1.novalocal",
        "keys": [f"{ED25519} a@b"],
        "user_data": USER_DATA.decode("latin-1"),
        "vendor_data": {"motd": "welcome"},
        "vendor_data2": {"static": {"motd": "welcome"}},
        "instance_id": guest.uuid,
        "zone": "north",
        "links": "tapaaaaaaaa-aa",
        "ec2": "i-0b8a5c5e",
        "version": 2,
    }
