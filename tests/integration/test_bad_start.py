"""What the executables say when they cannot start: one clear line on standard error, exit code 1, nothing half-done."""

import socket
import subprocess
from pathlib import Path

import pytest

from tests.integration.deployment import BIN
from tests.nightly import daily

# What each needs on its command line to begin at all.
WORDS = {
    "minova-api": [],
    "minova-conductor": [],
    "minova-scheduler": [],
    "minova-compute": [],
    "minova-standalone": ["--state-dir", "{folder}/state"],
    "minova-manage": ["db", "version"],
}
# Wrong values: the line of the file, and what the message names.
WRONG = {
    "a word for a number": ("[DEFAULT]\nreport_interval = soon\n", "report_interval"),
    "a number out of range": ("[conductor]\nworkers = 0\n", "workers"),
    "none of the choices": ("[DEFAULT]\ncompute_driver = paper\n", "compute_driver"),
    "no such database": ("[database]\nconnection = nonsense\n", "connection"),
}


def start_output(name: str, folder: Path, text: str) -> tuple[int, list[str]]:
    """Exit code, and the lines of standard error, of the executable with this configuration file."""
    file = folder / "minova.conf"
    file.write_text(text)
    words = [word.format(folder=folder) for word in WORDS[name]]
    command = [str(BIN / name), "--config-file", str(file), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    return done.returncode, done.stderr.splitlines()


# All executables read options alike, so each meets one number; the other kinds are for one that has the option.
CASES = [(name, "a word for a number") for name in WORDS]
CASES += [("minova-conductor", "a number out of range"), ("minova-compute", "none of the choices")]
CASES += [(name, "no such database") for name in WORDS if name != "minova-compute"]
ALIKE = "all executables read their options alike"
SOME_CASES = [
    pytest.param(*case, marks=[] if case[0] in ("minova-conductor", "minova-compute") else pytest.mark.nightly(ALIKE))
    for case in CASES
]


@pytest.mark.parametrize(("name", "wrong"), SOME_CASES)
def test_a_wrong_value_stops_it_with_the_options_name(tmp_path: Path, name: str, wrong: str) -> None:
    text, option = WRONG[wrong]
    if "[database]" not in text:
        text += f"[database]\nconnection = sqlite:///{tmp_path}/minova.sqlite\n"
    code, lines = start_output(name, tmp_path, text)
    assert (code, len(lines)) == (1, 1), lines
    assert lines[0].startswith(f"{name}: ")
    assert option in lines[0]


@pytest.mark.parametrize("name", daily(WORDS, ("minova-api", "minova-standalone"), ALIKE))
def test_a_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    missing = tmp_path / "missing.conf"
    words = [word.format(folder=tmp_path) for word in WORDS[name]]
    command = [str(BIN / name), "--config-file", str(missing), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{name}: ")
    assert str(missing) in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    "name", daily(["minova-api", "minova-conductor", "minova-scheduler"], ("minova-conductor",), ALIKE)
)
def test_tables_that_are_not_there_are_to_be_made_by_a_command(tmp_path: Path, name: str) -> None:
    text = f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = sqlite:///{tmp_path}/minova.sqlite\n"
    code, lines = start_output(name, tmp_path, text)
    assert code == 1
    assert (
        lines[-1] == f"{name}: There is no file {tmp_path}/minova.sqlite of the database. Run: minova-manage db upgrade"
    )
    assert "Traceback" not in "\n".join(lines)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database that is as it should be."""
    folder = tmp_path_factory.mktemp("tables")
    file = folder / "minova.conf"
    file.write_text(f"[database]\nconnection = sqlite:///{folder}/minova.sqlite\n")
    subprocess.run([BIN / "minova-manage", "--config-file", file, "db", "upgrade"], check=True, timeout=120)
    return folder


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[scheduler]\ndriver = fifo\n", "[scheduler] driver: unknown name 'fifo'; known are caching_scheduler, "),
        ("[filter_scheduler]\nenabled_filters = NoFilter\n", "enabled_filters: unknown name 'NoFilter'; known are "),
        ("[filter_scheduler]\nweight_classes = NoWeigher\n", "weight_classes: unknown name 'NoWeigher'; known are "),
        ("[scheduler]\nscheduler_json_config_location = {folder}/minova.conf\n", "/minova.conf, line 1 column 2"),
        (
            "[oslo_messaging_notifications]\ndriver = messagingv2\ntransport_url = nothing://\n",
            "[oslo_messaging_notifications] transport_url is not a URL",
        ),
    ],
)
def test_a_scheduler_that_cannot_be_as_configured_names_what_it_knows(tables: Path, text: str, named: str) -> None:
    database = f"[database]\nconnection = sqlite:///{tables}/minova.sqlite\n"
    code, lines = start_output("minova-scheduler", tables, text.format(folder=tables) + database)
    assert code == 1
    assert lines[-1].startswith("minova-scheduler: ")
    assert named in lines[-1]
    assert "Traceback" not in "\n".join(lines)


HYPERVISOR = """\
[DEFAULT]
state_path = {folder}
transport_url = kombu+memory://
{default}
[libvirt]
virt_type = test
connection_uri = {uri}
"""
# A host as libvirt's test hypervisor takes it from a file: it has one PCI device and no NUMA cells.
ONE_DEVICE = """\
<node>
  <cpu><mhz>2000</mhz><model>i686</model><active>4</active><nodes>1</nodes><sockets>1</sockets><cores>4</cores>
    <threads>1</threads></cpu>
  <memory>4194304</memory>
  <device><name>pci_0000_5e_00_0</name><capability type="pci"><class>0x0b4000</class><domain>0</domain><bus>94</bus>
    <slot>0</slot><function>0</function><product id="0x37c8">QAT</product><vendor id="0x8086">Intel</vendor>
    </capability></device>
</node>
"""
SPEC = '{"vendor_id": "8086", "product_id": "154c"}'


@pytest.mark.parametrize(
    ("default", "groups", "named"),
    [
        ("vcpu_pin_set = 0-99", "", "[DEFAULT] vcpu_pin_set = 0-99: the host has no CPU 16-99, only 0-15"),
        (
            "",
            "[compute]\ncpu_shared_set = 0-4\ncpu_dedicated_set = 4-7\n",
            "[compute] cpu_shared_set and [compute] cpu_dedicated_set have CPUs 4 in common",
        ),
        (
            "reserved_host_memory_mb = 3073",
            "",
            "[DEFAULT] reserved_host_memory_mb = 3073: node {node} has 3072",
        ),
        (
            "reserved_huge_pages = node:0,size:2048,count:1",
            "",
            "[DEFAULT] reserved_huge_pages: cell 0 has 0 pages of 2048 KiB, fewer than 1",
        ),
        ("", "[pci]\ndevice_spec = nic\n", "[pci] device_spec: 'nic' is no JSON"),
        ("", "[pci]\nalias = nic\n", "[pci] alias nic: is no JSON"),
    ],
)
def test_a_compute_that_cannot_be_as_configured_names_the_option(
    tmp_path: Path, default: str, groups: str, named: str
) -> None:
    text = HYPERVISOR.format(folder=tmp_path, default=default, uri="test:///default") + groups
    code, lines = start_output("minova-compute", tmp_path, text)
    assert code == 1, lines
    assert lines[-1].startswith(f"minova-compute: {named.format(node=socket.gethostname())}")
    assert "Traceback" not in "\n".join(lines)


def test_devices_for_instances_that_the_host_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "node.xml").write_text(ONE_DEVICE)
    text = HYPERVISOR.format(folder=tmp_path, default="", uri=f"test://{tmp_path}/node.xml")
    code, lines = start_output("minova-compute", tmp_path, f"{text}[pci]\ndevice_spec = {SPEC}\n")
    assert code == 1, lines
    assert lines[-1] == f"minova-compute: [pci] device_spec: {SPEC} matches no PCI device of this host"
