"""`minova-standalone` on real QEMU: it stops cleanly, guests live on, and started again it knows them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import libvirt
import psutil
import pytest

from tests.integration import preloaded
from tests.integration.deployment import BIN
from tests.integration.leftovers import domains_and_disks
from tests.servers.libvirtd import Libvirtd
from tests.servers.private_server import free_ports
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)


class Standalone:
    """One state folder and the process that works in it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        """`default_subnet`: `none`, as tests on a libvirtd in the machine's own network namespace would share it."""
        default_subnet = options.pop("default_subnet", "none")
        self.folder = folder
        # Makes of its command the one that starts it with limits.
        self.limit: Callable[[list[str]], list[str]] | None = None
        # What enters the network namespace in which it runs; empty: that of the tests.
        self.enter: list[str] = []
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.log_file = folder / "standalone.log"
        self._conf = folder / "minova.conf"
        lines = [f"{name} = {value}" for name, value in options.items()]
        lines += ["[api]", f"osapi_compute_listen_port = {port}", "[networks]", f"default_subnet = {default_subnet}"]
        self._conf.write_text("\n".join(["[DEFAULT]", *lines, ""]))
        self._process: subprocess.Popen[bytes] | preloaded.Process | None = None

    def command(self, state: str = "state") -> list[str]:
        words = ["--config-file", str(self._conf), "--state-dir", str(self.folder / state)]
        return [str(BIN / "minova-standalone"), *words]

    def start(self) -> float:
        """Seconds until it said that it is ready."""
        begun, before = time.monotonic(), self.log.count("minova-standalone is ready")
        with self.log_file.open("ab") as log:
            if self.limit is None:
                self._process = preloaded.Process(self.command(), log, log)
            else:
                command = [*self.enter, *self.limit(self.command())]
                self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for("ready", lambda: self.ended() or self.log.count("minova-standalone is ready") > before, 120)
        assert not self.ended(), self.log[-4000:]
        return time.monotonic() - begun

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def stop(self, number: signal.Signals) -> int:
        """Its exit code."""
        assert self._process is not None
        os.kill(self._process.pid, number)
        return self._process.wait(60)

    def reconfigure(self, old: str, new: str) -> None:
        """Change its configuration, which it reads again."""
        text = self._conf.read_text()
        assert old in text
        self._conf.write_text(text.replace(old, new))
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGHUP)

    def kill(self) -> None:
        if self._process is not None and not self.ended():
            self._process.kill()
            self._process.wait(10)

    def cli_command(self, *words: str) -> list[str]:
        return [str(BIN / "minova"), "--url", self.url, *words]

    def cli(self, *words: str, check: bool = True) -> str:
        """`check` False: the command must fail; answers what it says of that."""
        command = self.cli_command(*words)
        if self.enter:
            done = subprocess.run([*self.enter, *command], capture_output=True, text=True, timeout=120)
        else:
            done = preloaded.run(command)
        assert (done.returncode == 0) == check, f"{words}\n{done.stdout}\n{done.stderr}\n{self.log[-4000:]}"
        return done.stdout if check else done.stderr

    def json(self, *words: str) -> Any:
        return json.loads(self.cli(*words, "-f", "json"))

    def flavors(self) -> list[str]:
        return sorted(row["Name"] for row in self.json("flavor", "list"))


@pytest.fixture
def libvirtd() -> Iterator[Libvirtd]:
    """One of its own: other tests look for what is left on theirs."""
    with Libvirtd(networks=True) as server:
        yield server


@pytest.fixture
def real(tmp_path: Path, libvirtd: Libvirtd) -> Iterator[Standalone]:
    conf = tmp_path / "real"
    conf.mkdir()
    standalone = Standalone(conf, default_subnet="auto")
    file = conf / "minova.conf"
    file.write_text(file.read_text() + f"[libvirt]\nconnection_uri = {libvirtd.uri}\nvirt_type = qemu\n")
    # The executable itself, in the tests that are about it, and beside the bridges of its libvirtd.
    standalone.limit = list
    standalone.enter = ["nsenter", f"--net=/proc/{libvirtd.pid}/ns/net"]
    yield standalone
    standalone.kill()


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Standalone]:
    standalone = Standalone(tmp_path, default_subnet="auto", compute_driver="fake")
    standalone.limit = list
    yield standalone
    standalone.kill()


def test_a_guest_outlives_the_service_and_is_stopped_and_started(
    real: Standalone, libvirtd: Libvirtd, guest_image: Path
) -> None:
    print(f"ready in {real.start():.1f} s on an empty folder", file=sys.stderr)
    real.cli("image", "create", "guest", "--file", str(guest_image), "--disk-format", "qcow2")
    real.cli("keypair", "create", "mine", "--private-key", str(real.folder / "key"))
    script = real.folder / "script"
    script.write_text(
        "#!/bin/sh\necho THE KEY: $(grep -o 'ssh-ed25519 [^\" ]*' /config/openstack/latest/meta_data.json)\n"
    )
    given = ("--key-name", "mine", "--user-data", str(script), "--config-drive")
    created = real.json("server", "create", "vm", "--flavor", "m1.nano", "--image", "guest", "--wait", *given)
    assert (created["key_name"], created["config_drive"], len(created["adminPass"])) == ("mine", "True", 12)
    wait_for("READY", lambda: "MINOVA-GUEST READY" in real.cli("server", "console", "log", "vm"))
    said = real.cli("server", "console", "log", "vm")
    assert "READY hostname=vm.novalocal" in said
    # Its address on the network `default`, which nothing but the first start has made.
    assert f"DHCP eth0 {created['addresses']['default']}/24" in said, said
    public_key = real.cli("keypair", "show", "mine", "--public-key").strip()
    assert f"THE KEY: {public_key}" in said
    real.cli("keypair", "delete", "mine")
    assert created["adminPass"] not in real.log
    uuid = real.json("server", "show", "vm")["id"]
    for number in (signal.SIGTERM, signal.SIGINT):
        assert real.stop(number) == 0
        assert "Traceback" not in real.log
        assert running(libvirtd) == [uuid]
        print(f"ready in {real.start():.1f} s on a folder with a guest", file=sys.stderr)
        assert running(libvirtd) == [uuid]
        assert real.json("server", "show", "vm")["status"] == "ACTIVE"
        # One boot only, and all it has said is still there.
        assert real.cli("server", "console", "log", "vm").count("MINOVA-GUEST READY") == 1
    # The guest shuts itself down at its power button, and boots again.
    real.cli("server", "stop", "vm", "--wait")
    assert (running(libvirtd), real.json("server", "show", "vm")["status"]) == ([], "SHUTOFF")
    real.cli("server", "start", "vm", "--wait")
    assert (running(libvirtd), real.json("server", "show", "vm")["status"]) == ([uuid], "ACTIVE")
    wait_for("READY again", lambda: real.cli("server", "console", "log", "vm").count("MINOVA-GUEST READY") == 2)
    real.cli("server", "delete", "vm", "--wait")
    wait_for("nothing is left", lambda: domains_and_disks(libvirtd.uri, real.folder) == [])


def test_it_stops_soon_and_whole_although_libvirt_hangs(real: Standalone, libvirtd: Libvirtd) -> None:
    """As without broker and database, in test_bug_stop_without_broker."""
    file = real.folder / "minova.conf"
    file.write_text(file.read_text().replace("[DEFAULT]", "[DEFAULT]\nupdate_resources_interval = 1"))
    real.start()
    assert libvirtd.pid is not None
    (own,) = [process for process in psutil.process_iter(["cmdline"]) if _is_of(process, real)]
    processes = [own, *own.children(recursive=True)]
    os.kill(libvirtd.pid, signal.SIGSTOP)
    try:
        # An audit waits for the answer of libvirt then.
        time.sleep(3)
        begun = time.monotonic()
        assert real.stop(signal.SIGTERM) == 0
        assert time.monotonic() - begun < 10
        gone, alive = psutil.wait_procs(processes, 10)
        assert alive == [], gone
    finally:
        os.kill(libvirtd.pid, signal.SIGCONT)


def _is_of(process: psutil.Process, standalone: Standalone) -> bool:
    # None: a process that has just ended.
    return bool((process.info["cmdline"] or ())[1:] == standalone.command())


def running(libvirtd: Libvirtd) -> list[str]:
    connection = libvirt.open(libvirtd.uri)
    try:
        return [domain.UUIDString() for domain in connection.listAllDomains() if domain.isActive()]
    finally:
        connection.close()


def test_a_second_one_on_the_same_folder_is_refused(books: Standalone) -> None:
    books.start()
    second = subprocess.run(books.command(), capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert second.returncode == 1
    state = books.folder / "state"
    assert second.stderr == f"minova-standalone: --state-dir {state}: another minova-standalone works there\n"
    assert books.flavors() != []


def test_what_is_ready_made_is_there_once_and_not_again(books: Standalone) -> None:
    books.start()
    flavors = books.flavors()
    assert "m1.tiny" in flavors
    (network,) = books.json("network", "list")
    assert (network["Name"], len(network["Subnets"])) == ("default", 1)
    books.cli("flavor", "delete", "m1.tiny")
    books.cli("network", "delete", "default")
    assert books.stop(signal.SIGTERM) == 0
    books.start()
    assert books.flavors() == [name for name in flavors if name != "m1.tiny"]
    assert books.json("network", "list") == []


def test_local_networks_have_the_same_range_unless_the_host_reaches_them(books: Standalone) -> None:
    books.start()
    assert books.json("network", "show", "default")["minova:reachable"]
    for name in ("blue", "green"):
        books.cli("network", "create", name)
        books.cli("subnet", "create", name, "--network", name, "--subnet-range", "10.77.0.0/24")
    books.cli("network", "set", "--reachable", "blue")
    refused = books.cli("network", "set", "--reachable", "green", check=False)
    assert "overlaps with a subnet of another reachable network" in refused
    books.cli("network", "set", "--no-reachable", "blue")
    books.cli("network", "set", "--reachable", "green")


def test_a_port_in_use_is_said_and_leaves_the_folder_usable(books: Standalone) -> None:
    books.start()
    other = subprocess.run(
        books.command("other"), capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )
    assert other.returncode == 1
    assert "osapi_compute_listen_port" in other.stderr.splitlines()[-1]
    assert "Traceback" not in other.stderr
