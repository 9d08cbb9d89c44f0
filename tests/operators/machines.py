"""Machines with systemd as PID 1, made of namespaces on top of one Debian tree: no hypervisor and no container manager is needed.

Each has mounts, processes, network, host name and a tree of cgroups of its own. All are on one network, whose bridge is on the first machine.
A kernel is shared: settings of it outside the network, and modules, are those of the real machine.
"""

import os
import shlex
import subprocess
from pathlib import Path

from tests.waiting import wait_for

_BOOT = Path(__file__).with_name("boot_machine.sh")
_CGROUPS = next((path for path in map(Path, ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup")) if path.is_dir()), Path("/"))
NAMESPACES = ("--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup")
# Nobody logs in at a console, and the machine's life is short.
MASKED = (
    "console-getty.service",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "logrotate.timer",
)
# Seconds that one command of a page may take on a slow machine.
PATIENCE = 300.0


class Machine:
    """`address`: in the network of the machines. `masked`: units that do not start here."""

    def __init__(
        self, folder: Path, tree: Path, name: str, address: str, hosts: str, masked: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self.address = address
        self._folder = folder / name
        etc = self._folder / "upper/etc"
        (etc / "systemd/system").mkdir(parents=True)
        for unit in (*MASKED, *masked):
            (etc / "systemd/system" / unit).symlink_to("/dev/null")
        (etc / "hostname").write_text(f"{name}\n")
        # As Debian does: a machine knows its own name before it has an address.
        (etc / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n{hosts}")
        (etc / "machine-id").write_text(f"{os.urandom(16).hex()}\n")
        self._cgroup = _CGROUPS / f"minova-{folder.name}-{name}"
        self._cgroup.mkdir()
        join = f'echo $$ >{self._cgroup}/cgroup.procs && exec "$@"'
        boot = ("sh", str(_BOOT), str(self._folder), str(tree), name)
        unshare = ("unshare", *NAMESPACES, "--fork", "--kill-child=KILL", *boot)
        # Without the test there is no machine: each of the chain dies with its parent.
        command = ("setpriv", "--pdeathsig=KILL", "sh", "-c", join, "sh", *unshare)
        with (self._folder / "boot.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self._init = wait_for(f"the first process of {name}", self._first_process) or 0
            wait_for(f"systemd of {name}", self._is_up, 180)
        except BaseException:
            self.end()
            raise

    def run(self, command: str, *, patience: float = PATIENCE) -> "subprocess.CompletedProcess[str]":
        """Runs a line as root's shell does."""
        enter = ("nsenter", f"--target={self._init}", *NAMESPACES, "--root", "--wd")
        words = (
            "env",
            "-i",
            "HOME=/root",
            "LANG=C.UTF-8",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        done = ("setpriv", "--pdeathsig=KILL", *enter, *words, "bash", "-c", command)
        return subprocess.run(
            done,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=patience,
        )

    def __call__(self, command: str, *, patience: float = PATIENCE) -> str:
        """Runs a line, and fails the test with its output if it fails."""
        done = self.run(command, patience=patience)
        assert done.returncode == 0, f"{self.name}: {command}\n{done.stdout}"
        return done.stdout

    def write(self, path: str, text: str, owner: str = "root:root", mode: str = "644") -> None:
        self(f"printf %s {shlex.quote(text)} >{path} && chown {owner} {path} && chmod {mode} {path}")

    def journal(self, unit: str) -> str:
        """What the unit has logged since the machine was started, without time and host."""
        return self(f"journalctl --quiet --no-pager --output=cat --unit={unit}")

    def processes(self, unit: str) -> list[str]:
        """What still runs of the unit, also if systemd counts it as stopped: PIDs."""
        listed = self.run(f"grep --files-with-matches --fixed-strings /{unit}.service /proc/[0-9]*/cgroup").stdout
        return [line.split("/")[2] for line in listed.splitlines() if line.startswith("/proc/")]

    def connect(self, bridge_of: "Machine | None" = None) -> None:
        """Connects the machine to the network; the first machine, which has no other, brings the bridge."""
        if bridge_of is None:
            self(f"ip link add br0 type bridge && ip link set br0 up && ip addr add {self.address}/24 dev br0")
            return
        peer = f"v-{self.name}"
        bridge_of(f"ip link add {peer} type veth peer name eth0 && ip link set {peer} master br0 up")
        # The other end changes its machine by the real machine's number of the process.
        subprocess.run(
            ("nsenter", f"--target={bridge_of._init}", "--net", "ip", "link", "set", "eth0", "netns", str(self._init)),
            check=True,
        )
        self(f"ip link set eth0 up && ip addr add {self.address}/24 dev eth0")

    def end(self) -> None:
        """Ends all its processes at once, as if the plug was pulled."""
        self._process.kill()
        self._process.wait()
        groups = sorted((path for path in self._cgroup.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts))
        wait_for(
            f"the end of {self.name}",
            lambda: not any((group / "cgroup.procs").read_text() for group in (*groups, self._cgroup)),
        )
        for group in (*groups, self._cgroup):
            group.rmdir()

    def _first_process(self) -> int | None:
        assert self._process.poll() is None, (self._folder / "boot.log").read_text()
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        if not children or Path(f"/proc/{children[0]}/comm").read_text() != "systemd\n":
            return None
        return int(children[0])

    def _is_up(self) -> bool:
        return self.run("systemctl is-system-running").stdout.strip() in {"running", "degraded"}
