"""The Debian packages are built from the tree, installed into a fresh Debian, configured by the page, and used."""

import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import urllib3

from tests.packages.debian_tree import debian_with_minova, run
from tests.servers.private_server import free_ports
from tests.waiting import wait_for

SERVICES = (
    *("api", "compute", "conductor", "consoleproxy", "metadata", "network-helper"),
    *("placement-api", "scheduler", "standalone"),
)
pytestmark = pytest.mark.timeout(3600)


class Machine:
    """A Debian in a folder, with the packages."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, *words: object) -> str:
        return run("chroot", self.root, *words)

    def as_minova(self, *words: object) -> list[str]:
        # Not runuser, which stays as a parent and answers SIGTERM itself.
        user = ("setpriv", "--reuid=minova", "--regid=minova", "--init-groups", "--")
        return ["chroot", str(self.root), *user, *map(str, words)]


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with debian_with_minova() as root:
        yield Machine(root)


@pytest.mark.parametrize("service", SERVICES)
def test_each_service_has_its_command_unit_and_page(machine: Machine, service: str) -> None:
    files = machine("dpkg", "-L", f"minova-{service}").splitlines()
    assert f"/usr/bin/minova-{service}" in files
    assert f"/lib/systemd/system/minova-{service}.service" in files
    assert f"/usr/share/man/man8/minova-{service}.8.gz" in files
    assert "usage: " in machine(f"minova-{service}", "--help")


def test_commands_say_their_version(machine: Machine) -> None:
    assert version("minova") in machine("minova", "--version")
    assert version("minova") in machine("minova-manage", "--version")


def test_no_file_names_the_folder_of_the_build(machine: Machine) -> None:
    scripts = machine.root / "opt/minova/bin"
    for script in scripts.iterdir():
        if script.is_file() and not script.is_symlink():
            first = script.read_bytes().partition(b"\n")[0]
            assert not first.startswith(b"#!") or first.startswith((b"#!/opt/minova/bin/", b"#!/bin/", b"#!/usr/bin/"))


def test_bug_environment_had_the_interpreter_of_the_builders_path(machine: Machine) -> None:
    """A Python of the builder's own (pyenv) came into the package as a link that led nowhere."""
    assert (machine.root / "opt/minova/bin/python3").readlink() == Path("/usr/bin/python3")
    assert "usage: " in machine("runuser", "-u", "minova", "--", "minova-manage", "--help")


def test_user_and_folders_are_ready(machine: Machine) -> None:
    assert machine("stat", "-c", "%U:%G %a", "/etc/minova/minova.conf") == "root:minova 640\n"
    assert machine("stat", "-c", "%U:%G %a", "/var/lib/minova") == "minova:libvirt-qemu 750\n"
    assert {"libvirt", "libvirt-qemu", "minova"} <= set(machine("id", "-nG", "minova").split())
    assert machine("ls", "/etc/systemd/system/multi-user.target.wants").count("minova") == 0


def test_units_are_valid(machine: Machine) -> None:
    units = [f"/lib/systemd/system/minova-{service}.service" for service in SERVICES]
    assert "minova" not in run("systemd-analyze", f"--root={machine.root}", "verify", *units)


def test_a_controller_is_configured_and_serves(machine: Machine) -> None:
    port, page = free_ports(2)
    conf = machine.root / "etc/minova/minova.conf"
    conf.write_text("[database]\nconnection = sqlite:////var/lib/minova/minova.sqlite\n")
    (machine.root / "etc/minova/minova-placement-api.conf").write_text(
        f"[placement]\nlisten = 127.0.0.1\nlisten_port = {port}\n[prometheus]\nport = {page}\n"
    )
    run(*machine.as_minova("minova-manage", "db", "upgrade"))
    process = subprocess.Popen(machine.as_minova("minova-placement-api"))
    try:

        def versions() -> object:
            assert process.poll() is None
            try:
                return urllib3.request("GET", f"http://127.0.0.1:{port}/", retries=False).json()["versions"]
            except urllib3.exceptions.HTTPError:
                return None

        assert wait_for("the Placement API serves", versions, 120)
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_a_purge_leaves_disks_and_images(machine: Machine) -> None:
    (machine.root / "var/lib/minova/instances").mkdir(exist_ok=True)
    machine("apt-get", "purge", "-y", "minova-*")
    assert (machine.root / "var/lib/minova/instances").is_dir()
    assert not (machine.root / "opt/minova/bin/minova").exists()
