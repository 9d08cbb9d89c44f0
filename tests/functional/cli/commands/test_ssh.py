"""`minova server ssh`: which address, user and key it gives to ssh, and what it says where there is none."""

import json
import os
import re
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
from minova.cli.commands.server.ssh import address_of, own_options
from tests.functional.api.conftest import Cloud, at
from tests.functional.cli.conftest import Cli
from tests.functional.cli.servers import ACTIVE, STOPPED, Report, add_network, add_server

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJrSPYIkXdQEGZB8MnEzFIVTGVL2KZ2rgSRcfbHqTQ3u"
# Of the first server on the networks.
FRONT, BACK, SIX = "10.0.0.2", "10.1.0.2", "fd00::2"
FLOATING = "192.0.2.9"

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


class Networks:
    """`front` has both versions of addresses, `back` has one."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self.front = add_network(cloud, "front", "10.0.0.0/24", "fd00::/64")
        self.back = add_network(cloud, "back", "10.1.0.0/24")
        self.image = str(cloud.make_image("debian-12", os_distro="debian")["id"])

    def add_server(self, name: str, columns: Report = ACTIVE, **request: Any) -> str:
        return add_server(self._cloud, name, columns, **{"imageRef": self.image, "networks": self.both, **request})

    @property
    def both(self) -> Any:
        return [{"uuid": self.front}, {"uuid": self.back}]


@pytest.fixture
def networks(cloud: Cloud) -> Networks:
    return Networks(cloud.with_catalogue())


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
def test_the_address(networks: Networks, minova: Cli, home: Path, program: Path, words: Any, address: str) -> None:
    server_id = networks.add_server("web")
    result = minova("server", "ssh", "web", *words)
    assert (result.code, result.err) == (0, "")
    assert ran(program) == ["-o", f"HostKeyAlias={server_id}", "-l", "debian", address]


def test_public_addresses_come_first_and_of_several_those_of_the_older_version() -> None:
    """A cloud of others may have floating addresses."""
    front = [{"addr": SIX, "OS-EXT-IPS:type": "fixed"}, {"addr": FRONT, "OS-EXT-IPS:type": "fixed"}]
    floating = {"addr": FLOATING, "OS-EXT-IPS:type": "floating"}
    server = {"name": "web", "addresses": {"front": [*front, floating]}}
    assert [address_of(server, kind, None) for kind in (None, "public", "private")] == [FLOATING, FLOATING, FRONT]
    assert address_of({"name": "web", "addresses": {"front": front}}, None, None) == FRONT


def test_the_access_address_of_a_server_is_public(networks: Networks, minova: Cli, home: Path, program: Path) -> None:
    networks.add_server("access", accessIPv4="198.51.100.1")
    assert minova("server", "ssh", "access").code == 0
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
def test_the_user(
    cloud: Cloud, networks: Networks, minova: Cli, home: Path, program: Path, properties: Any, words: Any, user: str
) -> None:
    networks.add_server("web", imageRef=cloud.make_image("of", **properties)["id"])
    assert minova("server", "ssh", "web", *words).code == 0
    assert ran(program)[2:4] == ["-l", user]


def test_the_key_is_the_one_whose_public_half_the_cloud_has(
    cloud: Cloud, networks: Networks, minova: Cli, home: Path, program: Path
) -> None:
    key = {"name": "mine", "public_key": f"{KEY} me@here"}
    assert cloud.ask("POST", "/v2.1/os-keypairs", {"keypair": key})[0] in {200, 201}
    networks.add_server("web", key_name="mine")
    keys = home / ".ssh"
    for name, public in (("id_rsa", "ssh-rsa AAAAother x"), ("work", f"{KEY} me@there")):
        (keys / name).write_text("private")
        (keys / f"{name}.pub").write_text(public)
    assert minova("server", "ssh", "web").code == 0
    assert ran(program)[4:-1] == ["-i", str(keys / "work"), "-o", "IdentitiesOnly=yes"]
    # Without its public half a file counts that has the name of the key pair.
    (keys / "work.pub").unlink()
    assert minova("server", "ssh", "web").code == 0
    assert ran(program)[4:-1] == []
    (keys / "mine.pem").write_text("private")
    assert minova("server", "ssh", "web").code == 0
    assert ran(program)[4:-1] == ["-i", str(keys / "mine.pem"), "-o", "IdentitiesOnly=yes"]
    assert minova("server", "ssh", "web", "--identity", str(keys / "id_rsa")).code == 0
    assert ran(program)[4:-1] == ["-i", str(keys / "id_rsa")]


def test_the_name_of_a_key_pair_leads_to_no_file_elsewhere(
    networks: Networks, minova: Cli, home: Path, program: Path
) -> None:
    (home / "secret").write_text("private")
    for name in ("../secret", ".."):
        networks.add_server(f"web {len(name)}", {"key_name": name})
        assert minova("server", "ssh", f"web {len(name)}").code == 0
        assert ran(program)[4:-1] == []


def test_a_command_and_options_go_to_ssh(networks: Networks, minova: Cli, home: Path, program: Path) -> None:
    (home / "key").write_text("private")
    networks.add_server("web", {"key_name": "gone"})
    assert minova("server", "ssh", "web", "-p", "2222", "--", "uname", "-l").code == 0
    assert ran(program)[2:] == ["-l", "debian", "-p", "2222", FRONT, "uname", "-l"]
    own = ("-l", "root", "-i", str(home / "key"), "-o", "StrictHostKeyChecking=no", "uptime")
    assert minova("server", "ssh", "web", "--", *own).code == 0
    assert ran(program)[2:] == [FRONT, *own]


@pytest.mark.parametrize("task_state", ["rebooting", "migrating"])
def test_a_guest_that_runs_meanwhile(
    networks: Networks, minova: Cli, home: Path, program: Path, task_state: str
) -> None:
    networks.add_server("web", {"task_state": task_state})
    assert minova("server", "ssh", "web").code == 0
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


@pytest.mark.parametrize(("code", "hint"), [(0, ""), (3, ""), (255, "minova server console log ")])
def test_the_exit_code_is_that_of_the_command(
    networks: Networks, minova: Cli, home: Path, program: Path, code: int, hint: str
) -> None:
    program.with_name("code").write_text(str(code))
    networks.add_server("web")
    result = minova("server", "ssh", "web", "--", "false")
    assert result.code == code
    assert hint in result.err
    assert (result.err == "") == (hint == "")


BAD: dict[str, tuple[dict[str, Any], tuple[str, ...], int, str]] = {
    "stopped": ({"columns": STOPPED}, (), 1, "Start it: minova server start "),
    "rebuilt now": (
        {"columns": {"task_state": "rebuild_spawning"}},
        (),
        1,
        "Its disks are being made anew: wait for it with minova server show.",
    ),
    "no network": ({"networks": "none"}, (), 1, "no address, because it is on no network"),
    "no such version": (
        {"networks": "back"},
        ("-6",),
        1,
        f"no IPv6 address. It has {BACK} (fixed, on back)",
    ),
    "no public one": (
        {},
        ("--public",),
        1,
        f"no public address. It has {FRONT} (fixed, on front), {SIX} (fixed, on front), {BACK}",
    ),
    "no such network": ({}, ("--address-type", "blue"), 1, "no blue address. It has"),
    "no such key": ({}, ("--identity", "/no/such"), 1, "There is no file /no/such"),
    "a bad port": ({}, ("--port", "0"), 2, "'0' is not a port"),
    "two versions": ({}, ("-4", "-6"), 2, "not allowed with"),
    "two types": ({}, ("--public", "--private"), 2, "not allowed with"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_says_what_to_do(networks: Networks, minova: Cli, home: Path, program: Path, case: str) -> None:
    values, words, code, message = BAD[case]
    asked: dict[str, Any] = {
        "none": {"networks": "none", **at("2.37")},
        "back": {"networks": [{"uuid": networks.back}]},
        "both": {},
    }[values.get("networks", "both")]
    networks.add_server("web", values.get("columns", ACTIVE), **asked)
    result = minova("server", "ssh", "web", *words)
    assert (result.code, message in result.err) == (code, True), result.err
    assert not program.exists()


def test_an_unknown_user_is_asked_for(cloud: Cloud, networks: Networks, minova: Cli, home: Path, program: Path) -> None:
    image = cloud.make_image("plain", os_admin_user="-oProxyCommand=evil")
    networks.add_server("web", imageRef=image["id"])
    result = minova("server", "ssh", "web")
    assert result.code == 1
    assert "Name one with --login, or set a property of image plain" in result.err
    assert not program.exists()


def test_without_ssh(networks: Networks, minova: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    networks.add_server("web")
    result = minova("server", "ssh", "web")
    assert (result.code, "apt-get install openssh-client" in result.err) == (1, True)


def test_list_shows_addresses_by_network(networks: Networks, minova: Cli) -> None:
    networks.add_server("web")
    assert f"back={BACK}; front={FRONT}, {SIX}" in minova("server", "list").out
    (row,) = json.loads(minova("server", "list", "-f", "json").out)
    assert row["Networks"] == {"front": [FRONT, SIX], "back": [BACK]}


# -- networks that the host has no route to -------------------------------------------------------------------------------

HIDDEN = "5f705771-3aa9-4f4c-8660-0d9522ffdbea"


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
def host(home: Path, networks: Networks, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with the network `front`, for a user who is not root. Returns the path of the helper's socket."""
    (home / "netns").mkdir()
    (home / "netns" / f"minova-{networks.front}").touch()
    for name, value in (("NAMESPACES", home / "netns"), ("HELPER", home / "helper")):
        monkeypatch.setattr(reach, name, value)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return home / "helper"


def test_helper_connects_ssh_inside_the_network(
    networks: Networks, minova: Cli, home: Path, program: Path, host: Path
) -> None:
    """With the options that the command gives, the real ssh talks to the address inside the network."""
    networks.add_server("web")
    guest = socket.create_server(("127.0.0.1", 0))
    helper = Helper(host, guest.getsockname()[:2])
    assert minova("server", "ssh", "web", "-p", "2222").code == 0
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
    assert helper.asked == [{"type": "Connect", "network_id": networks.front, "address": FRONT, "port": 2222}]


def test_refusal_of_the_helper_is_shown(host: Path) -> None:
    helper = Helper(host)
    words = [sys.executable, "-m", reach.__name__, str(host), HIDDEN, FRONT, "22"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    helper.close()
    assert (ended.returncode, f"{FRONT} is not reached by {host}: no route" in ended.stderr) == (1, True), ended.stderr


def test_root_enters_the_network(
    networks: Networks, minova: Cli, home: Path, program: Path, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks.add_server("web")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    noted = program.with_name("entered")
    nsenter = program.with_name("nsenter")
    nsenter.write_text(f'#!/bin/sh\necho "$1" > {noted}\nshift\nexec "$@"\n')
    nsenter.chmod(0o755)
    assert minova("server", "ssh", "web").code == 0
    assert noted.read_text() == f"--net={home}/netns/minova-{networks.front}\n"
    assert ran(program)[-1] == FRONT


def test_other_networks_are_reached_directly(
    networks: Networks, minova: Cli, home: Path, program: Path, host: Path
) -> None:
    """Also if this user may not open the helper's socket, which does not exist here."""
    networks.add_server("web", networks=[{"uuid": networks.back}])
    networks.add_server("hidden", networks=[{"uuid": networks.front}])
    for name, address in (("web", BACK), ("hidden", FRONT)):
        assert minova("server", "ssh", name).code == 0
        assert ran(program)[2:] == ["-l", "debian", address]


@pytest.mark.parametrize("network", ["../etc", f"{HIDDEN[:-1]}0"])
def test_no_word_of_another_cloud_leads_to_a_file_elsewhere(
    home: Path, monkeypatch: pytest.MonkeyPatch, network: str
) -> None:
    (home / "netns").mkdir()
    (home / "netns" / f"minova-{HIDDEN}").touch()
    (home / "etc").mkdir()
    monkeypatch.setattr(reach, "NAMESPACES", home / "netns")

    class Answers:
        def get(self, path: str) -> Any:
            return {"interfaceAttachments": [{"net_id": network, "fixed_ips": [{"ip_address": FRONT}]}]}

    assert reach.way_to(Answers(), {"id": "web"}, FRONT) == reach.Way()  # type: ignore[arg-type]


def test_bug_changed_host_key_looks_like_a_guest_that_has_not_booted(
    networks: Networks, minova: Cli, program: Path, home: Path
) -> None:
    server_id = networks.add_server("vm")
    (program.parent / "code").write_text("255")
    keygen = program.parent / "ssh-keygen"
    keygen.write_text(f'#!/bin/sh\n[ "$*" = "-F {server_id} -f {home}/.ssh/known_hosts" ]\n')
    keygen.chmod(0o755)
    result = minova("server", "ssh", "vm", "--login", "debian")
    assert f"ssh-keygen -R {server_id} -f ~/.ssh/known_hosts" in result.err
    assert "Has the guest booted" not in result.err


def test_bug_changed_host_key_in_a_file_of_ones_own(networks: Networks, minova: Cli, program: Path, home: Path) -> None:
    server_id = networks.add_server("vm")
    ssh = shutil.which("ssh", path=os.environ["PATH"].partition(":")[2])
    # What it would do is asked of the real one.
    program.with_name("ssh").write_text(f'#!/bin/sh\n[ "$1" = -G ] && exec {ssh} "$@"\nexit 255\n')
    keeps = home / "hosts"
    keeps.write_text(f"{server_id} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJrSPYIkXdQEGZB8MnEzFIVTGVL2KZ2rgSRcfbHqTQ3u\n")
    result = minova("server", "ssh", "vm", "--login", "debian", "--", "-o", f"UserKnownHostsFile={keeps}", "true")
    assert f"ssh-keygen -R {server_id} -f {keeps}" in result.err


def unknown_host_key(program: Path, listed: str = "") -> None:
    """ssh refuses a server whose key no file has. `listed`: of its settings."""
    (program.parent / "ssh").write_text(f"#!/bin/sh\n[ \"$1\" = -G ] && echo '{listed}' && exit 0\nexit 255\n")
    keygen = program.parent / "ssh-keygen"
    keygen.write_text("#!/bin/sh\nexit 1\n")
    keygen.chmod(0o755)


@pytest.mark.parametrize(
    ("terminal", "setting", "refuses"),
    [
        (False, "", True),
        (False, "stricthostkeychecking ask", True),
        (True, "batchmode yes", True),
        (True, "stricthostkeychecking true", True),
        (True, "stricthostkeychecking ask", False),
        (False, "stricthostkeychecking accept-new", False),
        (False, "stricthostkeychecking false", False),
    ],
)
def test_bug_unknown_host_key_looks_like_a_guest_that_has_not_booted(
    networks: Networks,
    minova: Cli,
    program: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
    setting: str,
    refuses: bool,
) -> None:
    """Without a terminal nobody can accept it."""
    server_id = networks.add_server("vm")
    unknown_host_key(program, setting)
    monkeypatch.setattr("minova.cli.commands.server.ssh._has_terminal", lambda: terminal)
    own = ("--login", "debian", "--port", "2222", "-4")
    error = minova("server", "ssh", "vm", *own, "--", "uname", "-s -r").err
    accept = f"minova server ssh {server_id} --login debian --port 2222 -4 -- -o StrictHostKeyChecking=accept-new uname '-s -r'"
    assert (f"Accept it by: {accept}\nIf ssh says that it could not connect: Has the guest booted" in error) == refuses
    assert ("did not log in to 10.0.0.2. Has the guest booted" in error) != refuses


def test_known_host_key_of_the_machine_is_no_unknown_one(
    networks: Networks, minova: Cli, program: Path, home: Path
) -> None:
    server_id = networks.add_server("vm")
    unknown_host_key(program, "globalknownhostsfile /etc/ssh/ssh_known_hosts")
    (program.parent / "ssh-keygen").write_text('#!/bin/sh\n[ "$4" = /etc/ssh/ssh_known_hosts ]\n')
    error = minova("server", "ssh", "vm", "--login", "debian").err
    assert f"ssh-keygen -R {server_id} -f /etc/ssh/ssh_known_hosts" in error


def test_bug_guest_that_sleeps_looks_like_one_that_has_not_booted(
    networks: Networks, minova: Cli, program: Path, home: Path
) -> None:
    server_id = networks.add_server("vm", {**ACTIVE, "power_state": 7})
    unknown_host_key(program)
    error = minova("server", "ssh", "vm", "--login", "debian").err
    assert f"Its guest stands still. Let it go on: minova server unpause {server_id}" in error
    assert "Has the guest booted" not in error


@pytest.mark.parametrize("columns", [STOPPED, {**ACTIVE, "power_state": 7}, ACTIVE])
def test_bug_name_of_a_server_was_a_part_of_a_command_to_copy(
    networks: Networks, minova: Cli, program: Path, home: Path, columns: dict[str, Any]
) -> None:
    """Any user of the project chooses the name."""
    networks.add_server("a;id", columns)
    unknown_host_key(program, "batchmode yes")
    error = minova("server", "ssh", "a;id", "--login", "debian").err
    commands = re.findall(r"minova server \w+ .*", error)
    assert commands
    assert [command for command in commands if ";" in command] == []
