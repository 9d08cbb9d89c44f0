"""A cloud of two real hosts, each with libvirt and minova-compute in a network namespace of its own, on one switch, and guests that tell
whether they went on: they count aloud, write memory, look after what they keep there, and answer pings and connections.
"""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import libvirt
import libvirt_qemu
import pytest
from sqlalchemy import select

from minova.db.engine import Database
from minova.db.models import Allocation, Instance, Migration, ResourceProvider, Task
from minova.objects.servers.migration import Migration as Move
from tests.integration.deployment import Deployment, Executable
from tests.servers.authority import Authority
from tests.servers.libvirtd_peers import PeerLibvirtd, peers
from tests.servers.namespace import Door, Namespace
from tests.servers.switch import ADDRESS, BRIDGE, RANGE, Switch, switch
from tests.waiting import wait_for

# The group lets echo requests and one of the ports in; both have a listener.
OPEN, CLOSED = 2222, 2223
# QEMU 7.2 emulates the processor here. Each time that it looks for pages to copy, it stops watching those that its translation cache has:
# what the guest writes to them until the cache is emptied may be lost, whoever migrates (two guests that stood still differed in seven
# pages, and the kernel of the one that had arrived crashed). Each switch of page tables empties it: the guest's kernel has a table of its
# own, and its processes neither work long nor start many programs. And QEMU looks rarely: it may stop the guest after its first look.
GUEST = f"""#!/bin/sh
boot=$(cat /proc/sys/kernel/random/boot_id)
head -c 262144 /dev/urandom >/tmp/kept
mkfifo /tmp/silent
exec 9<>/tmp/silent
{{ i=0; while :; do i=$((i+1)); echo "TICK $i $boot"; read -r -t 0.1 word <&9; done; }} >/dev/console 2>&1 &
{{ i=0; while :; do i=$((i+1)); printf '%262144d' $i >/tmp/written; read -r -t 0.1 word <&9; done; }} &
{{ while :; do echo "KEPT $(md5sum </tmp/kept)"; read -r -t 2 word <&9; done; }} >/dev/console 2>&1 &
for port in {OPEN} {CLOSED}; do {{ while :; do nc -l -p $port -e /bin/cat; done; }} >/dev/null 2>&1 & done
"""
RARE_LOOKS = {"live_migration_downtime": 4000, "live_migration_downtime_steps": 3}
# Each host has records and namespaces of networks of its own, as if it was a machine.
_ENTER = """\
mkdir -p /run/minova /run/netns
mount -t tmpfs none /run/minova
mount -t tmpfs none /run/netns
exec sleep infinity
"""


class Life(NamedTuple):
    boot: str
    ticks: int


class Host:
    """`libvirtd` and `compute` can be killed and started again; `folder` has the disks of its guests."""

    def __init__(self, libvirtd: PeerLibvirtd, compute: Executable, folder: Path) -> None:
        self.name, self.libvirtd, self.compute, self.folder = libvirtd.host, libvirtd, compute, folder

    def states(self) -> dict[str, int]:
        """{UUID of a guest that has a process: state}."""
        connection = libvirt.open(self.libvirtd.uri)
        try:
            domains = connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
            return {domain.UUIDString(): domain.state()[0] for domain in domains}
        finally:
            connection.close()

    def known(self) -> set[str]:
        """Guests that libvirt knows, whether they run or not."""
        connection = libvirt.open(self.libvirtd.uri)
        try:
            return {domain.UUIDString() for domain in connection.listAllDomains()}
        finally:
            connection.close()

    def processor(self, uuid: str) -> str:
        """Registers of a guest's processor: whether it works, where, and whether it waits for an interrupt."""
        connection = libvirt.open(self.libvirtd.uri)
        try:
            domain = connection.lookupByUUIDString(uuid)
            said = libvirt_qemu.qemuMonitorCommand(
                domain, "info registers", libvirt_qemu.VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP
            )
            return f"{domain.state()} {said[:1500]}"
        except libvirt.libvirtError as error:
            return str(error)
        finally:
            connection.close()

    def xml(self, uuid: str) -> str:
        connection = libvirt.open(self.libvirtd.uri)
        try:
            return str(connection.lookupByUUIDString(uuid).XMLDesc())
        finally:
            connection.close()


class MovingCloud:
    def __init__(self, deployment: Deployment, database: Database, hosts: Mapping[str, Host], lan: Switch) -> None:
        self.deployment, self.database, self.hosts, self.lan = deployment, database, hosts, lan
        self.cli = deployment.cli

    def other(self, host: str) -> str:
        (name,) = self.hosts.keys() - {host}
        return name

    def boot(
        self,
        name: str = "web",
        *options: str,
        flavor: str = "tiny",
        image: str = "guest",
        host: str = "",
        network: str = "lan",
        written: int = 0,
    ) -> "MovingGuest":
        """Returns the guest once it counts. `written`: MiB of its memory that it has written before."""
        script = self.deployment.folder / "guest.sh"
        first, others = GUEST.split("\n", 1)
        script.write_text(f"{first}\nhead -c {written << 20} /dev/urandom >/tmp/filled\n{others}")
        words = ("--flavor", flavor, "--image", image, "--config-drive", "--user-data", str(script))
        nets = {"none": ("--nic", "none"), "lan": ("--network", "lan", "--security-group", "some")}
        net = nets.get(network, ("--port", network))
        on = ("--host", host) if host else ()
        self.cli("server", "create", name, *words, *net, *on, *options)
        shown = self.deployment.wait_status(name, "ACTIVE", "ERROR", timeout=240)
        assert shown["status"] == "ACTIVE", (shown, self.deployment.logs())
        guest = MovingGuest(self, shown["id"])
        wait_for("the guest to count", guest.lives, 240)
        return guest

    def migration(self, uuid: str) -> Move:
        """The last one of the server."""
        with self.database.read() as session:
            rows = select(Migration.value).where(Migration.instance_uuid == uuid).order_by(Migration.id.desc()).limit(1)
            return session.scalars(rows).one()

    def phase(self, uuid: str) -> str | None:
        """That in which the move of the server is."""
        with self.database.read() as session:
            payload = session.scalar(select(Task.payload).where(Task.instance_uuid == uuid))
        return None if payload is None else str(payload.get("phase"))


class MovingGuest:
    def __init__(self, cloud: MovingCloud, uuid: str) -> None:
        self.cloud, self.uuid = cloud, uuid

    @property
    def row(self) -> Instance:
        with self.cloud.database.read() as session:
            return session.scalars(select(Instance).where(Instance.uuid == self.uuid)).one()

    @property
    def host(self) -> str:
        return str(self.row.host)

    @property
    def address(self) -> str:
        shown = self.cloud.deployment.json("server", "show", self.uuid)["addresses"]
        return str(re.findall(r"192\.0\.2\.\d+", str(shown))[0])

    def log(self, host: str = "") -> str:
        """`host`: as the row says, if it is not given."""
        path = self.cloud.hosts[host or self.host].folder / self.uuid / "console.log"
        return path.read_text(errors="replace").replace("\r", "") if path.exists() else ""

    def started(self, host: str = "") -> str:
        """What it has printed since it was started."""
        return self.log(host).rpartition("MINOVA-GUEST INIT")[2]

    def lives(self, host: str = "") -> list[Life]:
        ticks_and_boots = re.findall(r"^TICK (\d+) ([0-9a-f-]{36})$", self.started(host), re.MULTILINE)
        return [Life(boot, int(ticks)) for ticks, boot in ticks_and_boots]

    def kept(self) -> set[str]:
        """What the guest has read of what it keeps in its memory."""
        return set(re.findall(r"^KEPT ([0-9a-f]{32})  -$", self.started(), re.MULTILINE))

    def boots(self) -> int:
        """How often its disk was booted, by the disk itself."""
        return max(map(int, re.findall(r"^MINOVA-GUEST BOOTS (\d+)$", self.log(), re.MULTILINE)), default=0)

    def require_counting_on(self, before: Life) -> Life:
        """The guest is the same one, and has lost no memory."""
        try:
            wait_for("the count to go on", lambda: self.lives()[-1:] and self.lives()[-1].ticks > before.ticks + 10, 90)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()[-6000:]}\n{self._silence()}") from None
        # Where the log of one host ends and that of the next begins, half of a line may be missing.
        assert {life.boot for life in self.lives() if life.ticks > before.ticks} == {before.boot}, self.log()[-3000:]
        said = self.started().count("KEPT ")
        wait_for("the guest to look after its memory", lambda: self.started().count("KEPT ") > said, 60)
        assert len(self.kept()) == 1, self.kept()
        return self.lives()[-1]

    def _silence(self) -> str:
        """Tells a guest that has hung or crashed from one that waits, or prints elsewhere."""
        hosts = self.cloud.hosts
        sizes = {name: len(self.log(name)) for name in hosts}
        processors = {name: [each.processor(self.uuid) for _ in range(2)] for name, each in hosts.items()}
        grown = {name: len(self.log(name)) - size for name, size in sizes.items()}
        looks = [f"{name}: {look}" for name, each in processors.items() for look in each]
        return "\n".join([f"the logs have grown by {grown}", *looks])

    def require_counting(self) -> Life:
        """It runs now, whether it was started anew or not."""
        size = len(self.log())
        wait_for("the guest to count", lambda: "TICK " in self.log()[size:], 240)
        return self.require_counting_on(self.lives()[-1])

    def require_booted(self, times: int) -> Life:
        """It was started anew, from the disk that it had."""
        wait_for(f"boot {times}", lambda: self.boots() == times, 240)
        wait_for("the guest to count", lambda: "TICK 10 " in self.started(), 120)
        return self.lives()[-1]

    def copied(self) -> int:
        """Bytes of memory that its migration has copied so far, as its source has reported."""
        with self.cloud.database.read() as session:
            rows = select(Migration.progress).where(Migration.instance_uuid == self.uuid).order_by(Migration.id.desc())
            progress = session.scalars(rows).first()
        return 0 if progress is None else progress.memory_processed

    def is_at_rest(self) -> bool:
        return self.row.task_state is None and self.cloud.phase(self.uuid) is None

    def migrate_live(self, *options: str) -> str:
        """Returns the host that the guest has left."""
        left, status = self.host, "PAUSED" if self.row.vm_state == "paused" else "ACTIVE"
        self.cloud.cli("server", "migrate", "--live-migration", *options, "--wait", self.uuid)
        self.cloud.deployment.wait_status(self.uuid, status)
        assert self.host != left, self.cloud.deployment.logs()
        return left

    def is_only(self, host: str) -> bool:
        """Whether `require_only` agrees."""
        try:
            self.require_only(host)
        except (AssertionError, libvirt.libvirtError):
            return False
        return True

    def require_only(self, host: str, *, running: bool = True) -> None:
        """Row, domains, allocations, and disks are of this host alone."""
        row, hosts = self.row, self.cloud.hosts
        assert (row.host, row.task_state) == (host, None)
        states = {name: each.states().get(self.uuid) for name, each in hosts.items()}
        there = libvirt.VIR_DOMAIN_RUNNING if running else None
        assert states == {name: there if name == host else None for name in hosts}
        assert {name for name, each in hosts.items() if self.uuid in each.known()} == {host}
        owned = {each.folder for each in hosts.values() if (each.folder / self.uuid / "disk").exists()}
        assert owned == {hosts[host].folder}
        with self.cloud.database.read() as session:
            allocations = session.execute(
                select(Allocation.consumer_uuid, ResourceProvider.name).join(
                    ResourceProvider, ResourceProvider.id == Allocation.provider_id
                )
            )
            held = {(consumer, name) for consumer, name in allocations}
        assert held == {(self.uuid, row.node)}


class _Machine:
    """The namespaces of a host's services, which outlive them."""

    def __init__(self, libvirtd: PeerLibvirtd) -> None:
        unshared = ("unshare", "--mount", "--propagation=slave", "sh", "-c", _ENTER)
        inside = ("ip", "netns", "exec", libvirtd.namespace, *unshared)
        self._keeper = subprocess.Popen(["setpriv", "--pdeathsig=KILL", *inside])
        self.namespace = Namespace(self._keeper.pid)
        wait_for("the namespaces of the host", self._is_ready)
        self._mounts = Path(f"/proc/{self._keeper.pid}/ns/mnt").readlink()

    def _is_ready(self) -> bool:
        return Path(f"/proc/{self._keeper.pid}/comm").read_text() == "sleep\n"

    def end(self) -> None:
        """With what services have left in it: a killed compute leaves the DHCP servers of its networks."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended by itself
                if (process / "ns/mnt").readlink() == self._mounts:
                    os.kill(int(process.name), signal.SIGKILL)
        self._keeper.wait()


def _within(namespace: Namespace, command: list[str]) -> list[str]:
    return namespace.enter(*command)


@contextmanager
def moving_cloud(
    folder: Path,
    rabbit: str,
    database_url: str,
    image: Path,
    *,
    shared: bool = False,
    authority: Authority | None = None,
    libvirt_options: Mapping[str, Any] | None = None,
    of_hosts: Mapping[str, Mapping[str, Any]] | None = None,
    defaults: Mapping[str, Any] | None = None,
    **controller: dict[str, Any],
) -> Iterator[MovingCloud]:
    """`libvirt_options`: of both computes. `of_hosts`: groups of options of each. `controller`: those of the controller. `defaults`: in
    DEFAULT of all services.
    """
    controller["DEFAULT"] = {**(defaults or {}), **controller.get("DEFAULT", {})}
    with ExitStack() as stack:
        database = Database(database_url)
        stack.callback(database.close)
        libvirtds = stack.enter_context(peers(authority))
        lan = stack.enter_context(switch(libvirtds))
        # Processes end before their namespaces.
        machines = [_Machine(each) for each in libvirtds]
        for machine in machines:
            stack.callback(machine.end)
        deployment = stack.enter_context(Deployment(folder, rabbit, database_url, **controller))
        broker = int(re.findall(r":(\d+)/", rabbit)[-1])
        hosts = {}
        for server, machine in zip(libvirtds, machines, strict=True):
            for port in (broker, deployment.port):
                stack.enter_context(Door(machine.namespace, port))
            path = folder / ("shared" if shared else server.host) / "instances"
            path.mkdir(parents=True, exist_ok=True)
            compute = deployment.compute(
                server.host,
                DEFAULT={"my_ip": server.address, "instances_path": str(path), **(defaults or {})},
                libvirt={"connection_uri": server.uri, "virt_type": "qemu", **(libvirt_options or {})},
                networks={"bridge_mappings": f"lan:{BRIDGE}"},
                **(of_hosts or {}).get(server.host, {}),
            )
            compute.limit = partial(_within, machine.namespace)
            hosts[server.host] = Host(server, compute, path)
        deployment.manage("db", "upgrade")
        deployment.start()
        deployment.wait_up(timeout=180)
        _furnish(deployment, movable_image(image, folder))
        yield MovingCloud(deployment, database, hosts, lan)


def movable_image(image: Path, folder: Path) -> Path:
    """Returns the guest's image with page tables of the kernel alone: see GUEST."""
    raw, qcow2 = folder / "guest.raw", folder / "guest.qcow2"
    subprocess.run(["qemu-img", "convert", "-O", "raw", str(image), str(raw)], check=True)
    content = raw.read_bytes()
    assert b"mitigations=off" in content
    raw.write_bytes(content.replace(b"mitigations=off", b"pti=on         "))
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(qcow2)], check=True)
    raw.unlink()
    return qcow2


def _furnish(deployment: Deployment, image: Path) -> None:
    for line in (
        "flavor create tiny --ram 128 --disk 1 --vcpus 1",
        "flavor create large --ram 160 --disk 2 --vcpus 1 --swap 16",
        f"image create guest --disk-format qcow2 --file {shlex.quote(str(image))}",
        "network create lan --provider-network-type flat --provider-physical-network lan",
        f"subnet create lan --network lan --subnet-range {RANGE} --gateway {ADDRESS}",
        "security group create some",
        "security group rule create some --protocol icmp",
        f"security group rule create some --protocol tcp --dst-port {OPEN}",
    ):
        deployment.cli(*shlex.split(line))


@pytest.fixture
def make_moving_cloud(
    tmp_path: Path,
    fresh_rabbit_url: Callable[[], str],
    fresh_postgresql_url: Callable[[], str],
    guest_image: Path,
) -> Iterator[Callable[..., MovingCloud]]:
    """Takes the options of `moving_cloud`."""
    with ExitStack() as stack:

        def make(*, libvirt_options: Mapping[str, Any] | None = None, **options: Any) -> MovingCloud:
            urls = fresh_rabbit_url(), fresh_postgresql_url()
            libvirt_options = {**RARE_LOOKS, **(libvirt_options or {})}
            return stack.enter_context(
                moving_cloud(tmp_path, *urls, guest_image, libvirt_options=libvirt_options, **options)
            )

        yield make
