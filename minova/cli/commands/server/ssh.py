"""`minova server ssh`: log in to a server with the ssh of this machine, at its address, as its image's user, with its key."""

import argparse
import ipaddress
import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from minova.cli import find
from minova.cli.base import Command
from minova.cli.client import COMPUTE, IMAGE, Client, Json, part
from minova.cli.commands.server.reach import HELPER, way_to
from minova.cli.errors import ApiError, CliError
from minova.cli.parser import Parser

# The login user of the images of distributions, by their `os_distro`.
USERS = {
    "almalinux": "almalinux",
    "alpine": "alpine",
    "arch": "arch",
    "centos": "cloud-user",
    "cirros": "cirros",
    "debian": "debian",
    "fedora": "fedora",
    "freebsd": "freebsd",
    "opensuse": "opensuse",
    "rhel": "cloud-user",
    "rocky": "rocky",
    "ubuntu": "ubuntu",
}
PUBLIC, PRIVATE = "public", "private"
TYPES = {PUBLIC: "floating", PRIVATE: "fixed"}
# The exit code of ssh itself if it could not connect or log in.
NOT_CONNECTED = 255
# Where ssh keeps host keys if nothing else is configured.
_KNOWN_HOSTS = "~/.ssh/known_hosts"
# Power states (PAUSED, SUSPENDED) of an active server whose guest stands still.
_STANDING = frozenset({3, 7})
# Options of ssh that take a value.
_WITH_VALUE = "BbcDEeFIiJLlmOopQRSWw"


class ServerSsh(Command):
    """Log in to a server by ssh, or run a command on it: its address, its key, and the user of its image are found.

    What follows -- is given to ssh: a command, or options of ssh's own.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="SERVER", help="name or ID")
        parser.add_argument("--login", "-l", metavar="NAME", help="the user there (default: of its image)")
        parser.add_argument(
            "--identity", "-i", metavar="FILE", help="the private key (default: that of its key pair in ~/.ssh)"
        )
        parser.add_argument("--port", "-p", type=_port, metavar="PORT", help="where its ssh listens (default: 22)")
        versions = parser.add_mutually_exclusive_group()
        versions.add_argument("-4", dest="version", action="store_const", const=4, help="at an IPv4 address only")
        versions.add_argument("-6", dest="version", action="store_const", const=6, help="at an IPv6 address only")
        types = parser.add_mutually_exclusive_group()
        for name in (PUBLIC, PRIVATE):
            text = f"at a {name} ({TYPES[name]}) address only"
            types.add_argument(f"--{name}", dest="address_type", action="store_const", const=name, help=text)
        types.add_argument(
            "--address-type",
            metavar="TYPE",
            help="at an address of this type or network (default: a public one, or else any)",
        )
        assert isinstance(parser, Parser)
        parser.rest = "ssh_args"
        parser.add_argument(
            "ssh_args", nargs="*", metavar="-- COMMAND", help="a command to run there, or options of ssh"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if shutil.which("ssh") is None:
            raise CliError("There is no ssh on this machine. Install it (Debian: apt-get install openssh-client).")
        server = find.server(self.client, parsed_args.server)
        _require_running(server)
        address = address_of(server, parsed_args.address_type, parsed_args.version)
        ssh_options = own_options(parsed_args.ssh_args)
        way = way_to(self.client, server, address)
        words = [*way.options, "-o", f"HostKeyAlias={server['id']}"]
        if "l" not in ssh_options:
            words += ["-l", parsed_args.login or user_of(self.client, server)]
        if "i" not in ssh_options:
            words += identity_of(self.client, server, parsed_args.identity)
        if parsed_args.port is not None:
            words += ["-p", str(parsed_args.port)]
        words += [address, *parsed_args.ssh_args]
        self.exit_code = _run([*way.before, "ssh", *words])
        if self.exit_code == NOT_CONNECTED:
            self.app.stderr.write(_hint(server, address, _host_keys(server["id"], words), parsed_args))


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: it must be from 1 to 65535")
    return int(text)


def own_options(words: Sequence[str]) -> set[str]:
    """Returns the letters of ssh's options among the first of these words, before any command."""
    letters, rest = set(), iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            break
        for place, letter in enumerate(word[1:], start=1):
            letters.add(letter)
            if letter in _WITH_VALUE:
                if place == len(word) - 1:
                    next(rest, None)
                break
    return letters


# Statuses in which a guest runs, or starts again at once. A live migration leaves it running.
_RUNNING = frozenset({"ACTIVE", "RESCUE", "REBOOT", "HARD_REBOOT", "PASSWORD", "MIGRATING", "VERIFY_RESIZE"})


def _require_running(server: Json) -> None:
    name, server_id, status = server["name"], server["id"], server.get("status")
    if status in _RUNNING:
        return
    todo = {
        "BUILD": "It is being built: wait for it with minova server show.",
        "REBUILD": "Its disks are being made anew: wait for it with minova server show.",
        "RESIZE": "Its size is being changed: wait for it with minova server show.",
        "REVERT_RESIZE": "It gets its former size back: wait for it with minova server show.",
        "SHUTOFF": f"Start it: minova server start {server_id}",
        "PAUSED": f"Let it go on: minova server unpause {server_id}",
        "SUSPENDED": f"Let it go on: minova server resume {server_id}",
        "SHELVED": f"Bring it back: minova server unshelve {server_id}",
        "SHELVED_OFFLOADED": f"Bring it back: minova server unshelve {server_id}",
    }
    raise CliError(
        f"Server {name} is {status}, and does not run. {todo.get(str(status), f'Why: minova server show {server_id}')}"
    )


# -- where -------------------------------------------------------------------------------------------------------------


def address_of(server: Json, type_or_network: str | None, version: int | None) -> str:
    """Returns an address of the server, IPv4 first. `type_or_network` is a type or the name of a network; None: a public
    address, or else any. Raises CliError if there is none.
    """
    addresses = [address for address in _addresses(server) if version in {None, address.version}]
    if type_or_network is None:
        chosen = [address for address in addresses if address.kind == TYPES[PUBLIC]] or addresses
    else:
        chosen = [address for address in addresses if type_or_network == address.network] or [
            address for address in addresses if address.kind == TYPES.get(type_or_network, type_or_network)
        ]
    if chosen:
        return min(chosen, key=lambda address: address.version).text
    what = " ".join(word for word in (type_or_network, "" if version is None else f"IPv{version}") if word)
    have = ", ".join(f"{address.text} ({address.kind}, on {address.network})" for address in _addresses(server))
    if have:
        raise CliError(f"Server {server['name']} has no {what} address. It has {have}.")
    raise CliError(
        f"Server {server['name']} has no address, because it is on no network. Create one on a network "
        "(minova server create --network NETWORK ...), or use its console: minova server console connect."
    )


class _Address:
    def __init__(self, network: str, entry: Json) -> None:
        self.network = network
        # Only a valid address may get from the server's data into ssh's command line.
        parsed = ipaddress.ip_address(str(entry["addr"]))
        self.text, self.version = str(parsed), parsed.version
        self.kind = str(entry.get("OS-EXT-IPS:type", "fixed"))


def _addresses(server: Json) -> list[_Address]:
    every = (server.get("addresses") or {}).items()
    addresses = [_Address(network, entry) for network, entries in every for entry in entries]
    for field in ("accessIPv4", "accessIPv6"):
        if server.get(field) and server[field] not in {address.text for address in addresses}:
            addresses.insert(0, _Address(field, {"addr": server[field], "OS-EXT-IPS:type": TYPES[PUBLIC]}))
    return addresses


# -- login user --------------------------------------------------------------------------------------------------------


def user_of(client: Client, server: Json) -> str:
    """Returns the image's `os_admin_user`, or the usual user of its `os_distro`. Raises CliError if neither is
    known.
    """
    image = _image_of(client, server)
    user = image.get("os_admin_user") or USERS.get(str(image.get("os_distro", "")).lower())
    if user and not str(user).startswith("-"):
        return str(user)
    of_image = f" of image {image['name']}" if image.get("name") else ""
    raise CliError(
        f"Which user logs in to server {server['name']} is not known. Name one with --login, or set a property{of_image} when it is "
        "created: --property os_admin_user=USER, or --property os_distro=debian"
    )


def _image_of(client: Client, server: Json) -> Json:
    identity = (server.get("image") or {}).get("id")
    if not identity:
        return {}
    try:
        return dict(client.get(f"{IMAGE}/images/{part(identity)}"))
    except ApiError:  # deleted since
        return {}


# -- with which key ----------------------------------------------------------------------------------------------------


def identity_of(client: Client, server: Json, given: str | None) -> list[str]:
    """Returns options of ssh; if empty, ssh tries the keys of its agent and its own. Raises CliError if the given file
    does not exist.
    """
    if given is not None:
        if not Path(given).is_file():
            raise CliError(f"There is no file {given}. Name the private key of the server with --identity.")
        return ["-i", given]
    name = server.get("key_name")
    path = _saved_key(client, str(name)) if name else None
    return [] if path is None else ["-i", str(path), "-o", "IdentitiesOnly=yes"]


def _saved_key(client: Client, name: str) -> Path | None:
    """Returns the private key in ~/.ssh whose public key is that of the key pair, or whose file has the name of the key
    pair.
    """
    folder = Path.home() / ".ssh"
    public_key = _public_key(client, name)
    for public in sorted(folder.glob("*.pub")) if public_key else ():
        if _blob(_read(public)) == public_key and public.with_suffix("").is_file():
            return public.with_suffix("")
    if os.sep in name or name.startswith("."):
        return None
    return next((path for path in (folder / name, folder / f"{name}.pem") if path.is_file()), None)


def _public_key(client: Client, name: str) -> str | None:
    """Returns the key itself, without its type and comment; None if the key pair is gone, or belongs to another
    user.
    """
    try:
        return _blob(client.get(f"{COMPUTE}/os-keypairs/{part(name)}")["keypair"]["public_key"])
    except ApiError:
        return None


def _blob(text: str) -> str | None:
    words = text.split()
    return words[1] if len(words) > 1 else None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


# -- ssh ---------------------------------------------------------------------------------------------------------------


def _run(command: Sequence[str]) -> int:
    """Runs ssh and returns its exit code. Only ssh reacts to Ctrl-C."""
    with _ignored_interrupts():
        code = subprocess.run(command, check=False).returncode
    return code if code >= 0 else 128 - code


@contextmanager
def _ignored_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Not SIG_IGN, which ssh would inherit.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _HostKeys(NamedTuple):
    """What ssh knows of the host key of a server.

    `file`: in which it has one; None: in no file.
    `refuses_unknown`: it ends without a question if it has none.
    """

    file: str | None
    refuses_unknown: bool


def _host_keys(alias: str, words: Sequence[str]) -> _HostKeys:
    """`words`: those that ssh was given."""
    listed = subprocess.run(["ssh", "-G", *words], capture_output=True, text=True, check=False).stdout
    settings = dict(line.split(" ", 1) for line in listed.splitlines() if " " in line)
    asks = settings.get("batchmode", "no") == "no" and _has_terminal()
    policy = settings.get("stricthostkeychecking", "ask")
    refuses_unknown = policy in {"true", "yes"} or (policy == "ask" and not asks)
    keygen = shutil.which("ssh-keygen")
    if keygen is None:
        return _HostKeys(None, False)
    files = settings.get("userknownhostsfile", _KNOWN_HOSTS).split() + settings.get("globalknownhostsfile", "").split()
    commands = ([keygen, "-F", alias, "-f", str(Path(file).expanduser())] for file in files)
    has_key = (subprocess.run(command, capture_output=True, check=False).returncode == 0 for command in commands)
    return _HostKeys(
        next((file for file, is_there in zip(files, has_key, strict=True) if is_there), None), refuses_unknown
    )


def _has_terminal() -> bool:
    """Whether ssh can ask something, which it does on the terminal of the process whatever its standard input is."""
    try:
        with Path("/dev/tty").open("rb"):
            return True
    except OSError:
        return False


def _same_command(server_id: str, parsed_args: argparse.Namespace, *ssh_options: str) -> list[str]:
    """Returns the words of this command with more options of ssh."""
    own = {
        "--login": parsed_args.login,
        "--identity": parsed_args.identity,
        "--port": parsed_args.port,
        "--address-type": parsed_args.address_type,
    }
    options = [word for option, value in own.items() if value is not None for word in (option, str(value))]
    if parsed_args.version is not None:
        options.append(f"-{parsed_args.version}")
    return ["minova", "server", "ssh", server_id, *options, "--", *ssh_options, *parsed_args.ssh_args]


def _hint(server: Json, address: str, host_keys: _HostKeys, parsed_args: argparse.Namespace) -> str:
    """Commands have the ID: a name is a user's own text, which a shell may read in its own way, and two servers may have it."""
    name, server_id = server["name"], server["id"]
    failed = f"minova: ssh did not log in to {address}."
    if server.get("OS-EXT-STS:power_state") in _STANDING:
        why = str((server.get("fault") or {}).get("message") or "Its guest stands still.")
        return f"{failed} {why} Let it go on: minova server unpause {server_id}\n"
    if host_keys.file is not None:
        return (
            f"{failed} If it says that the host key has changed: a rebuild gives server {name} a "
            f"new key, and a rescue another one. Accept it by: ssh-keygen -R {server_id} -f {host_keys.file}\n"
        )
    if host_keys.refuses_unknown:
        accept = shlex.join(_same_command(server_id, parsed_args, "-o", "StrictHostKeyChecking=accept-new"))
        failed = (
            f"{failed} The host key of server {name} is not known here yet, and ssh does not ask about it here (no terminal, "
            f"BatchMode or StrictHostKeyChecking=yes). Accept it by: {accept}\nIf ssh says that it could not connect:"
        )
    host = server.get("OS-EXT-SRV-ATTR:host")
    where = f" ({host})" if host else ""
    return (
        f"{failed} Has the guest booted (minova server console log {server_id})? On a network of the "
        f"kind `local` only its host{where} reaches it: root there, users who may open {HELPER}, and everyone if the network is "
        "reachable (minova network set --reachable NETWORK, for administrators). On others a security group must let ssh in: "
        "minova security group rule create --protocol tcp --dst-port 22 GROUP\n"
    )
