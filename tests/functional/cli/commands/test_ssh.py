"""`minova server ssh`: which address, user and key it gives to ssh, and what it says where there is none."""

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minova.cli.commands.server import reach
from minova.cli.commands.server.ssh import own_options
from tests.fakes.api_server import ApiServer
from tests.fakes.compute_api import ACTIVE, STOPPED
from tests.functional.cli.conftest import Cli

FRONT, BACK, SIX = "10.0.0.5", "10.1.0.7", "fd00::5"
ADDRESSES = {
    "front": [
        {"addr": SIX, "version": 6, "OS-EXT-IPS:type": "fixed"},
        {"addr": FRONT, "version": 4, "OS-EXT-IPS:type": "fixed"},
    ],
    "back": [{"addr": BACK, "version": 4, "OS-EXT-IPS:type": "fixed"}],
}
FLOATING = {"addr": "192.0.2.9", "version": 4, "OS-EXT-IPS:type": "floating"}

Ssh = Callable[..., list[str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a user who has no keys yet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    return tmp_path


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ssh that writes down its words, in place of the machine's. It ends as the file `code` beside it says."""
    folder = tmp_path / "bin"
    folder.mkdir()
    noted = folder / "words"
    ssh = folder / "ssh"
    ssh.write_text(
        '#!/usr/bin/python3\nimport json, pathlib, sys\nhere = pathlib.Path(__file__).parent\n(here / "words").write_text(json.dumps(sys.argv[1:]))\n'
        'code = here / "code"\nsys.exit(int(code.read_text()) if code.exists() else 0)\n'
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(reach, "NAMESPACES", tmp_path / "netns")
    return noted


@pytest.fixture
def image(api: ApiServer) -> dict[str, Any]:
    return api.add_image("debian-12", os_distro="debian")


def ran(program: Path) -> list[str]:
    words: list[str] = json.loads(program.read_text())
    return words


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ((), FRONT),
        (("-4",), FRONT),
        (("-6",), SIX),
        (("--private",), FRONT),
        (("--address-type", "back"), BACK),
        (("--address-type", "fixed"), FRONT),
        (("--address-type", "front", "-6"), SIX),
    ],
)
def test_the_address(api: ApiServer, cli: Cli, home: Path, program: Path, image: Any, words: Any, address: str) -> None:
    server = api.add_server("web", addresses=ADDRESSES)
    result = cli("server", "ssh", "web", *words)
    assert (result.code, result.err) == (0, "")
    assert ran(program) == ["-o", f"HostKeyAlias={server['id']}", "-l", "debian", address]


def test_public_addresses_come_first(api: ApiServer, cli: Cli, home: Path, program: Path, image: Any) -> None:
    api.add_server("web", addresses={"front": [*ADDRESSES["front"], FLOATING]})
    for words, address in (((), "192.0.2.9"), (("--public",), "192.0.2.9"), (("--private",), FRONT)):
        assert cli("server", "ssh", "web", *words).code == 0
        assert ran(program)[-1] == address
    api.add_server("access", addresses=ADDRESSES, accessIPv4="198.51.100.1")
    assert cli("server", "ssh", "access").code == 0
    assert ran(program)[-1] == "198.51.100.1"


@pytest.mark.parametrize(
    ("properties", "words", "user"),
    [
        ({"os_admin_user": "operator", "os_distro": "debian"}, (), "operator"),
        ({"os_distro": "Ubuntu"}, (), "ubuntu"),
        ({"os_distro": "debian"}, ("--login", "root"), "root"),
        ({}, ("-l", "root"), "root"),
    ],
)
def test_the_user(api: ApiServer, cli: Cli, home: Path, program: Path, properties: Any, words: Any, user: str) -> None:
    api.add_image("guest", **properties)
    api.add_server("web", addresses=ADDRESSES)
    assert cli("server", "ssh", "web", *words).code == 0
    assert ran(program)[2:4] == ["-l", user]


def test_the_key_is_the_one_whose_public_half_the_cloud_has(
    api: ApiServer, cli: Cli, home: Path, program: Path, image: Any
) -> None:
    api.keypairs["mine"] = "ssh-ed25519 AAAAC3same me@here"
    api.add_server("web", addresses=ADDRESSES, key_name="mine")
    keys = home / ".ssh"
    for name, public in (("id_rsa", "ssh-rsa AAAAother x"), ("work", "ssh-ed25519 AAAAC3same me@there")):
        (keys / name).write_text("private")
        (keys / f"{name}.pub").write_text(public)
    assert cli("server", "ssh", "web").code == 0
    assert ran(program)[4:-1] == ["-i", str(keys / "work"), "-o", "IdentitiesOnly=yes"]
    # Without its public half a file counts that has the name of the key pair.
    (keys / "work.pub").unlink()
    assert cli("server", "ssh", "web").code == 0
    assert ran(program)[4:-1] == []
    (keys / "mine.pem").write_text("private")
    assert cli("server", "ssh", "web").code == 0
    assert ran(program)[4:-1] == ["-i", str(keys / "mine.pem"), "-o", "IdentitiesOnly=yes"]
    assert cli("server", "ssh", "web", "--identity", str(keys / "id_rsa")).code == 0
    assert ran(program)[4:-1] == ["-i", str(keys / "id_rsa")]


def test_the_name_of_a_key_pair_leads_to_no_file_elsewhere(
    api: ApiServer, cli: Cli, home: Path, program: Path, image: Any
) -> None:
    (home / "secret").write_text("private")
    for name in ("../secret", ".."):
        api.add_server(f"web {len(name)}", addresses=ADDRESSES, key_name=name)
        assert cli("server", "ssh", f"web {len(name)}").code == 0
        assert ran(program)[4:-1] == []


def test_a_command_and_options_go_to_ssh(api: ApiServer, cli: Cli, home: Path, program: Path, image: Any) -> None:
    (home / "key").write_text("private")
    api.add_server("web", addresses=ADDRESSES, key_name="gone")
    assert cli("server", "ssh", "web", "-p", "2222", "--", "uname", "-l").code == 0
    assert ran(program)[2:] == ["-l", "debian", "-p", "2222", FRONT, "uname", "-l"]
    own = ("-l", "root", "-i", str(home / "key"), "-o", "StrictHostKeyChecking=no", "uptime")
    assert cli("server", "ssh", "web", "--", *own).code == 0
    assert ran(program)[2:] == [FRONT, *own]


@pytest.mark.parametrize("status", ["REBOOT", "MIGRATING"])
def test_a_guest_that_runs_meanwhile(
    api: ApiServer, cli: Cli, home: Path, program: Path, image: Any, status: str
) -> None:
    api.add_server("web", ({**ACTIVE[0], "status": status},), addresses=ADDRESSES)
    assert cli("server", "ssh", "web").code == 0
    assert ran(program)[-1] == FRONT


@pytest.mark.parametrize(
    ("words", "letters"),
    [
        ([], ""),
        (["ls", "-l"], ""),
        (["-v", "ls", "-l"], "v"),
        (["-vl", "root", "ls", "-i"], "vl"),
        (["-lroot", "-i", "-l"], "li"),
        (["-o", "User=x", "-A", "true"], "oA"),
    ],
)
def test_which_options_ssh_has_of_its_own(words: list[str], letters: str) -> None:
    assert own_options(words) == set(letters)


@pytest.mark.parametrize(("code", "hint"), [(0, ""), (3, ""), (255, "minova server console log web")])
def test_the_exit_code_is_that_of_the_command(
    api: ApiServer, cli: Cli, home: Path, program: Path, image: Any, code: int, hint: str
) -> None:
    program.with_name("code").write_text(str(code))
    api.add_server("web", addresses=ADDRESSES)
    result = cli("server", "ssh", "web", "--", "false")
    assert result.code == code
    assert hint in result.err
    assert (result.err == "") == (hint == "")


BAD: dict[str, tuple[dict[str, Any], tuple[str, ...], int, str]] = {
    "stopped": ({"script": (*ACTIVE, STOPPED)}, (), 1, "Start it: minova server start web"),
    "rebuilt now": (
        {"script": ({**ACTIVE[0], "status": "REBUILD", "task_state": "rebuild_spawning"},)},
        (),
        1,
        "Its disks are being made anew: wait for it with minova server show.",
    ),
    "no network": ({"addresses": {}}, (), 1, "no address, because it is on no network"),
    "no such version": (
        {"addresses": {"back": ADDRESSES["back"]}},
        ("-6",),
        1,
        f"no IPv6 address. It has {BACK} (fixed, on back)",
    ),
    "no public one": (
        {},
        ("--public",),
        1,
        f"no public address. It has {SIX} (fixed, on front), {FRONT} (fixed, on front)",
    ),
    "no such network": ({}, ("--address-type", "blue"), 1, "no blue address. It has"),
    "no such key": ({}, ("--identity", "/no/such"), 1, "There is no file /no/such"),
    "a bad port": ({}, ("--port", "0"), 2, "'0' is not a port"),
    "two versions": ({}, ("-4", "-6"), 2, "not allowed with"),
    "two types": ({}, ("--public", "--private"), 2, "not allowed with"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_says_what_to_do(
    api: ApiServer, cli: Cli, home: Path, program: Path, image: Any, case: str
) -> None:
    values, words, code, message = BAD[case]
    more = {"addresses": ADDRESSES} | values
    api.add_server("web", more.pop("script", ACTIVE)[-1:], **more)
    result = cli("server", "ssh", "web", *words)
    assert (result.code, message in result.err) == (code, True), result.err
    assert not program.exists()


def test_an_unknown_user_is_asked_for(api: ApiServer, cli: Cli, home: Path, program: Path) -> None:
    api.add_image("plain", os_admin_user="-oProxyCommand=evil")
    api.add_server("web", addresses=ADDRESSES)
    result = cli("server", "ssh", "web")
    assert result.code == 1
    assert "Name one with --login, or set a property of image plain" in result.err
    assert not program.exists()


def test_without_ssh(api: ApiServer, cli: Cli, home: Path, image: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    api.add_server("web", addresses=ADDRESSES)
    result = cli("server", "ssh", "web")
    assert (result.code, "apt-get install openssh-client" in result.err) == (1, True)


def test_list_shows_addresses_by_network(api: ApiServer, cli: Cli) -> None:
    api.add_server("web", addresses=ADDRESSES)
    assert f"back={BACK}; front={SIX}, {FRONT}" in cli("server", "list").out
    (row,) = json.loads(cli("server", "list", "-f", "json").out)
    assert row["Networks"] == {"front": [SIX, FRONT], "back": [BACK]}


# -- networks that the host has no route to -------------------------------------------------------------------------------

HIDDEN = "5f705771-3aa9-4f4c-8660-0d9522ffdbea"
ON_HIDDEN = {HIDDEN: [{"addr": FRONT, "version": 4, "OS-EXT-IPS:type": "fixed"}]}


class Helper:
    """In the place of minova-network-helper: connects to `target`, whatever the address, or refuses."""

    def __init__(self, path: Path, target: tuple[str, int] | None = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self._target = target
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def _answer(self) -> None:
        asking, _ = self._listening.accept()
        with asking:
            (length,) = struct.unpack("!I", asking.recv(4))
            self.asked.append(json.loads(asking.recv(length)))
            answer = json.dumps({} if self._target else {"failed": "no route"}).encode()
            connections = [socket.create_connection(self._target)] if self._target else []
            socket.send_fds(
                asking, [struct.pack("!I", len(answer))], [connection.fileno() for connection in connections]
            )
            asking.sendall(answer)
            for connection in connections:
                connection.close()

    def close(self) -> None:
        self._thread.join(30)
        self._listening.close()


@pytest.fixture
def host(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with the network HIDDEN, for a user who is not root. Returns the path of the helper's socket."""
    (home / "netns").mkdir()
    (home / "netns" / f"minova-{HIDDEN}").touch()
    for name, value in (("NAMESPACES", home / "netns"), ("HELPER", home / "helper")):
        monkeypatch.setattr(reach, name, value)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return home / "helper"


def test_helper_connects_ssh_inside_the_network(
    api: ApiServer, cli: Cli, home: Path, program: Path, image: Any, host: Path
) -> None:
    """With the options that the command gives, the real ssh talks to the address inside the network."""
    api.add_server("web", addresses=ON_HIDDEN)
    guest = socket.create_server(("127.0.0.1", 0))
    helper = Helper(host, guest.getsockname()[:2])
    assert cli("server", "ssh", "web", "-p", "2222").code == 0
    words = ran(program)
    assert words[:3:2] == ["-o", "-o"]
    assert words[1] == "ProxyUseFdpass=yes"
    real = subprocess.Popen(["/usr/bin/ssh", "-F", "none", "-o", "BatchMode=yes", *words], stdin=subprocess.DEVNULL)
    try:
        guest.settimeout(30)
        connection, _ = guest.accept()
        with connection:
            connection.settimeout(30)
            assert connection.recv(8).startswith(b"SSH-2.0-")
    finally:
        real.kill()
        real.wait()
        helper.close()
        guest.close()
    assert helper.asked == [{"type": "Connect", "network_id": HIDDEN, "address": FRONT, "port": 2222}]


def test_refusal_of_the_helper_is_shown(host: Path) -> None:
    helper = Helper(host)
    words = [sys.executable, "-m", reach.__name__, str(host), HIDDEN, FRONT, "22"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    helper.close()
    assert (ended.returncode, f"{FRONT} is not reached by {host}: no route" in ended.stderr) == (1, True), ended.stderr


def test_root_enters_the_network(
    api: ApiServer, cli: Cli, home: Path, program: Path, image: Any, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.add_server("web", addresses=ON_HIDDEN)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    noted = program.with_name("entered")
    nsenter = program.with_name("nsenter")
    nsenter.write_text(f'#!/bin/sh\necho "$1" > {noted}\nshift\nexec "$@"\n')
    nsenter.chmod(0o755)
    assert cli("server", "ssh", "web").code == 0
    assert noted.read_text() == f"--net={home}/netns/minova-{HIDDEN}\n"
    assert ran(program)[-1] == FRONT


@pytest.mark.parametrize("network", ["front", "../etc", f"{HIDDEN[:-1]}0"])
def test_other_networks_are_reached_directly(
    api: ApiServer, cli: Cli, home: Path, program: Path, image: Any, host: Path, network: str
) -> None:
    """Also if this user may not open the helper's socket, which does not exist here."""
    for name, addresses in (("web", {network: ON_HIDDEN[HIDDEN]}), ("hidden", ON_HIDDEN)):
        api.add_server(name, addresses=addresses)
        assert cli("server", "ssh", name).code == 0
        assert ran(program)[2:] == ["-l", "debian", FRONT]


def test_bug_changed_host_key_looks_like_a_guest_that_has_not_booted(
    api: ApiServer, cli: Cli, program: Path, home: Path
) -> None:
    server = api.add_server("vm")
    api.servers[server["id"]]["addresses"] = ADDRESSES
    (program.parent / "code").write_text("255")
    keygen = program.parent / "ssh-keygen"
    keygen.write_text(f'#!/bin/sh\n[ "$*" = "-F {server["id"]} -f {home}/.ssh/known_hosts" ]\n')
    keygen.chmod(0o755)
    result = cli("server", "ssh", "vm", "--login", "debian")
    assert f"ssh-keygen -R {server['id']} -f ~/.ssh/known_hosts" in result.err
    assert "Has the guest booted" not in result.err


def test_bug_changed_host_key_in_a_file_of_ones_own(api: ApiServer, cli: Cli, program: Path, home: Path) -> None:
    server = api.add_server("vm")
    api.servers[server["id"]]["addresses"] = ADDRESSES
    ssh = shutil.which("ssh", path=os.environ["PATH"].partition(":")[2])
    # What it would do is asked of the real one.
    program.with_name("ssh").write_text(f'#!/bin/sh\n[ "$1" = -G ] && exec {ssh} "$@"\nexit 255\n')
    keeps = home / "hosts"
    keeps.write_text(
        f"{server['id']} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJrSPYIkXdQEGZB8MnEzFIVTGVL2KZ2rgSRcfbHqTQ3u\n"
    )
    result = cli("server", "ssh", "vm", "--login", "debian", "--", "-o", f"UserKnownHostsFile={keeps}", "true")
    assert f"ssh-keygen -R {server['id']} -f {keeps}" in result.err
