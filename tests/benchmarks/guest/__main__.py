"""From `server create` to a running domain, against libvirt alone, which creates the same domain, in turns; and idle memory."""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import libvirt

from tests.benchmarks.boots.__main__ import Client, memory_mb
from tests.benchmarks.command_line import Option, parse
from tests.servers.libvirtd import Libvirtd
from tests.servers.private_server import free_ports
from tests.waiting import wait_for

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[3]
POLL = 0.005


@contextmanager
def standalone(folder: Path, libvirt_uri: str) -> Iterator[tuple[Client, int]]:
    """minova-standalone on a real libvirtd: a client of its API, and its process id."""
    (port,) = free_ports(1)
    conf = folder / "minova.conf"
    conf.write_text(
        f"[api]\nosapi_compute_listen_port = {port}\n[glance]\nendpoint_override = http://127.0.0.1:{port}\n"
        f"[libvirt]\nvirt_type = qemu\nconnection_uri = {libvirt_uri}\n"
        "[quota]\ninstances = -1\ncores = -1\nram = -1\n"
    )
    words = [f"{BIN}/minova-standalone", f"--config-file={conf}", f"--state-dir={folder}/state"]
    begun = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "is ready" in line:
            break
    print(f"minova-standalone ready in {time.monotonic() - begun:.1f} s")
    try:
        yield Client(f"http://127.0.0.1:{port}"), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def running(connection: libvirt.virConnect) -> list[libvirt.virDomain]:
    return list(connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_RUNNING))


def by_minova(client: Client, connection: libvirt.virConnect, image: str, name: str) -> tuple[float, str]:
    """Seconds from asking to a running domain, and the server's id."""
    begun = time.monotonic()
    (server,) = client.create(name, image)
    while not running(connection):
        time.sleep(POLL)
    return time.monotonic() - begun, server


def twin(xml: str, folder: Path) -> str:
    """The same domain under another name, on a copy of its disks."""
    tree = ET.fromstring(xml)
    name, own = tree.find("name"), tree.find("uuid")
    assert name is not None
    assert own is not None
    name.text, own.text = "twin", str(uuid.uuid4())
    for entry in tree.iterfind(".//sysinfo//entry[@name='uuid']"):
        entry.text = own.text
    for source in tree.iterfind(".//disk/source[@file]"):
        source.set("file", shutil.copy(source.attrib["file"], str(folder)))
    for log in tree.iterfind(".//log[@file]"):
        log.set("file", str(folder / "console.log"))
    return ET.tostring(tree, encoding="unicode")


def by_libvirt(connection: libvirt.virConnect, xml: str) -> float:
    """Seconds that libvirt takes."""
    begun = time.monotonic()
    domain = connection.createXML(xml)
    took = time.monotonic() - begun
    domain.destroy()
    return took


def main() -> None:
    rounds = parse("guest", __doc__, Option("rounds", 9, 1, "guests of each way")).rounds
    guest = subprocess.run([ROOT / "tools/build-guest"], check=True, capture_output=True, text=True).stdout.strip()
    ours: list[float] = []
    theirs: list[float] = []
    with Libvirtd() as libvirtd, tempfile.TemporaryDirectory() as folder:
        connection = libvirt.open(libvirtd.uri)
        with standalone(Path(folder), libvirtd.uri) as (client, pid):
            image = client.image("guest", "qcow2", Path(guest).read_bytes())
            for number in range(rounds + 1):
                took, server = by_minova(client, connection, image, f"g{number}")
                wait_for("ACTIVE", partial(client.is_active, server))
                scratch = Path(folder) / f"twin-{number}"
                scratch.mkdir()
                # The disk is copied while the guest runs: the copy only has to start.
                copy = twin(running(connection)[0].XMLDesc(), scratch)
                client.ask("DELETE", f"/v2.1/servers/{server}")
                wait_for("gone", lambda: not connection.listAllDomains())
                again = by_libvirt(connection, copy)
                if number:  # the first fetches the image
                    ours.append(took)
                    theirs.append(again)
            print(f"{'way':16} {'median':>9} {'worst':>9}")
            for way, took_all in (("server create", ours), ("libvirt alone", theirs)):
                print(f"{way:16} {median(took_all) * 1000:6.0f} ms {max(took_all) * 1000:6.0f} ms")
            print(f"ratio of the medians: {median(ours) / median(theirs):.2f}")
            print(f"minova-standalone resident: {memory_mb(pid):.0f} MB")


if __name__ == "__main__":
    main()
