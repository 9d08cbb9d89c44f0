"""One cloud for all tests, which each leaves as it has found it, and machines of their own for some.

`MINOVA_DEBIAN_TREE` names a Debian with the packages that an earlier run has left; else one is made. The logs of the services are left in
build/operators.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree

import pytest

from tests.operators.cloud import ADDRESSES, INCLUDED, LIBVIRT, SERVERS, Cloud, installed
from tests.operators.machines import Machine
from tests.packages.debian_tree import debian_with_minova

LOGS = Path(__file__).parents[2] / "build/operators"


@pytest.fixture(scope="session")
def tree() -> Iterator[Path]:
    """A Debian with the packages of minova."""
    if given := os.environ.get("MINOVA_DEBIAN_TREE"):
        yield Path(given)
        return
    with debian_with_minova(*INCLUDED) as made:
        yield made


@pytest.fixture
def alone(tree: Path) -> Iterator[Machine]:
    """A machine without any other."""
    folder = Path(tempfile.mkdtemp(prefix="minova-day-", dir="/var/tmp"))
    try:
        machine = Machine(folder, tree, "alone", "192.0.2.20", "", (*LIBVIRT, *SERVERS))
        try:
            yield machine
        finally:
            leave_logs({"alone": machine})
            machine.end()
    finally:
        rmtree(folder)


@pytest.fixture(scope="session")
def cloud(tree: Path) -> Iterator[Cloud]:
    with ExitStack() as stack:
        # Not in memory: three machines write what a Debian writes.
        folder = Path(tempfile.mkdtemp(prefix="minova-day-", dir="/var/tmp"))
        stack.callback(rmtree, folder)
        hosts = "".join(f"{address} {name}\n" for name, address in ADDRESSES.items())
        machines: dict[str, Machine] = {}
        for name, address in ADDRESSES.items():
            masked = (*LIBVIRT, "mariadb.service") if name == "controller" else (*LIBVIRT, *SERVERS)
            machines[name] = Machine(folder, tree, name, address, hosts, masked)
            stack.callback(machines[name].end)
            machines[name].connect(None if name == "controller" else machines["controller"])
        stack.callback(leave_logs, machines)
        yield installed(machines, folder)


def leave_logs(machines: dict[str, Machine]) -> None:
    LOGS.mkdir(parents=True, exist_ok=True)
    for name, machine in machines.items():
        log = machine.run(
            "journalctl --quiet --no-pager --unit='minova-*' --unit='rabbitmq-server' --unit='postgresql*'"
        ).stdout
        (LOGS / f"{name}.log").write_text(log)
