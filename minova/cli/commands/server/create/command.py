"""`minova server create`."""

import argparse
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from cliff.formatters.shell import ShellFormatter

from minova.cli.base import Formatters, Lister
from minova.cli.client import COMPUTE, Client, Json
from minova.cli.commands.server.create.disks import add_disk_options, disks_of
from minova.cli.commands.server.create.networks import (
    add_group_option,
    add_network_options,
    networks_of,
    version_of,
)
from minova.cli.commands.server.create.options import add_request_options, request_body
from minova.cli.errors import CliError, UsageError
from minova.cli.output import diagnosis
from minova.cli.output.report import show
from minova.cli.output.servers import COLUMNS, Names, OneServer, fields, row
from minova.cli.parser import add_wait, key_value, positive
from minova.cli.wait import Ask, Progress, ServerGone, TimedOut, failures, one_server, wait_for_builds

REQUEST_UUID = "X-Minova-Request-UUID"
USER_DATA_LIMIT = 65535  # bytes of base64, as in Nova
_WORDS = ("key_name", "description", "hostname", "tags", "trusted_image_certificates")  # options that are fields
FEW = 3  # servers whose IDs fit into a sentence
Columns = tuple[Sequence[str], Iterable[Any]]


class ServerCreate(Lister):
    """Create one server, or several of the same kind."""

    _failed: Sequence[str] = ()
    _description = """Create one server, or several of the same kind. Shows the server; with --min or --max a list.
With --wait it ends when every server is ACTIVE (exit code 0) or one has failed (exit code 1, with the reason).
With --dry-run nothing is made: it shows where they would go (exit code 0), or why nowhere (1)."""

    def _load_formatter_plugins(self) -> Any:
        return Formatters(**super()._load_formatter_plugins().each(), shell=ShellFormatter())

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME", help="the server's name; of several: NAME-1, NAME-2 ...")
        add_request_options(parser)
        parser.add_argument("--min", type=positive, metavar="N", help="at least N servers, or none")
        parser.add_argument("--max", type=positive, metavar="N", help="at most N servers")
        parser.add_argument(
            "--key-name", metavar="NAME", help="a key pair of yours, whose public key the guest is given"
        )
        parser.add_argument("--description", help="what it is for")
        parser.add_argument("--hostname", help="its name inside (default: made of NAME)")
        parser.add_argument(
            "--tag", action="append", default=[], metavar="TAG", dest="tags", help="a word of its own; may be repeated"
        )
        add_network_options(parser)
        add_group_option(parser)
        add_disk_options(parser)
        parser.add_argument("--user-data", metavar="FILE", help="a script or cloud-config that the guest runs")
        parser.add_argument(
            "--password", help="the administrator's in the guest, with --config-drive (default: a new one)"
        )
        parser.add_argument(
            "--file",
            type=key_value,
            action="append",
            default=[],
            metavar="PATH=FILE",
            help="a file that the guest finds as PATH, with --config-drive; may be repeated",
        )
        drives = parser.add_mutually_exclusive_group()
        drives.add_argument(
            "--config-drive",
            "--use-config-drive",
            action="store_true",
            default=None,
            help="give user data and metadata on a disk, too",
        )
        drives.add_argument(
            "--no-config-drive",
            dest="config_drive",
            action="store_false",
            help="not on a disk, unless the image or the host wants one",
        )
        parser.add_argument(
            "--trusted-image-cert",
            dest="trusted_image_certificates",
            action="append",
            metavar="ID",
            help="a certificate that has to have signed the image: clouds of minova cannot tell, and refuse it",
        )
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="only show where it would go, and why; exit code 1 if nowhere",
        )
        add_wait(parser, "until it is built, with progress on stderr", 600.0)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        several = parsed_args.min is not None or parsed_args.max is not None
        if parsed_args.formatter == "shell" and (several or parsed_args.dry_run):
            raise UsageError("-f shell is for one server, which is made.")
        if not parsed_args.dry_run:
            return super().run(parsed_args)
        answer = _dry_run(self.client, self._body(parsed_args))
        headline, parts = dry_run_headline(answer), diagnosis.parts(answer["diagnosis"])
        show(self._formatter_plugins, self.app.stdout, parsed_args, answer, headline, parts)
        return 0 if answer["fits"] else 1

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        body = self._body(parsed_args)
        several = parsed_args.min is not None or parsed_args.max is not None
        created = _create(self.client, body)
        try:
            servers = _asking(self.client, created)()
            if len(servers) < body["server"]["max_count"]:
                most = f"{len(servers)} of at most {body['server']['max_count']} servers"
                print(f"minova: {most}: the quota allows no more ('minova quota list').", file=sys.stderr)
            if parsed_args.wait:
                servers = self._wait(_asking(self.client.without_retries(), created), servers, parsed_args.timeout)
        except ServerGone as gone:
            raise CliError(f"Server {gone} was deleted while it was being built.") from None
        if several:
            names = Names(self.client)
            return COLUMNS, [row(server, names, long=False) for server in servers]
        fields_of_server = fields(servers[0], OneServer(self.client))
        if "adminPass" in created.get("server", {}):
            fields_of_server["adminPass"] = created["server"]["adminPass"]
        return tuple(fields_of_server), [tuple(fields_of_server.values())]

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any) -> int:
        """Prints one server in the form of `show`; the reasons of failed builds follow the table."""
        if parsed_args.min is None and parsed_args.max is None and parsed_args.formatter != "csv":
            chosen, selector = self._generate_columns_and_selector(parsed_args, column_names)
            (values,) = data
            selected = list(self._compress_iterable(values, selector)) if selector else values
            self.formatter.emit_one(chosen, selected, self.app.stdout, parsed_args)  # type: ignore[attr-defined]
        else:
            super().produce_output(parsed_args, column_names, data)
        if self._failed:
            self.app.stdout.flush()
            raise CliError("\n".join(self._failed))
        return 0

    def _body(self, parsed_args: argparse.Namespace) -> Json:
        minimum, maximum = parsed_args.min or 1, parsed_args.max or parsed_args.min or 1
        if minimum > maximum:
            raise UsageError(f"--min {minimum} is above --max {maximum}.")
        more: Json = {"name": parsed_args.name, "min_count": minimum, "max_count": maximum}
        words = {key: getattr(parsed_args, key) for key in _WORDS}
        more |= {key: value for key, value in words.items() if value}
        more |= disks_of(parsed_args)
        networks = networks_of(self.client, parsed_args)
        if networks is not None:
            more["networks"] = networks
        if parsed_args.security_groups is not None:
            more["security_groups"] = [{"name": name} for name in parsed_args.security_groups]
        if parsed_args.user_data:
            more["user_data"] = user_data(parsed_args.user_data)
        if parsed_args.config_drive is not None:
            more["config_drive"] = parsed_args.config_drive
        if parsed_args.password:
            more["adminPass"] = parsed_args.password
        if parsed_args.file:
            files = [{"path": path, "contents": _base64_of("file", file)} for path, file in parsed_args.file]
            more["personality"] = files
        if maximum > 1:
            more["return_reservation_id"] = True
        body = request_body(self.client, parsed_args)
        body["server"].update(more)
        return body

    def _wait(self, ask: Ask, servers: list[Json], timeout: float) -> list[Json]:
        ids = [server["id"] for server in servers]
        look = f"'minova server show {ids[0]}'" if len(ids) == 1 else "'minova server list'"
        try:
            built = wait_for_builds(ask, servers, Progress.on(sys.stderr), timeout)
        except KeyboardInterrupt:
            undo = f", or undo with 'minova server delete {' '.join(ids)}'" if len(ids) <= FEW else ""
            print(f"\nStopped waiting: {_them(ids)} still being built. Look with {look}{undo}.", file=sys.stderr)
            raise
        except TimedOut as late:
            raise CliError(f"Waited {timeout:g} s: {late}; {_them(ids)} still being built. Look with {look}.") from None
        self._failed = failures(built)
        return built


def _create(client: Client, body: Json) -> Json:
    """Sends the POST with a UUID, so that a retry after a lost response creates no second server."""
    try:
        return _client_for(client, body).post(f"{COMPUTE}/servers", body, {REQUEST_UUID: str(uuid4())}, repeat=True)
    except KeyboardInterrupt:
        print("\nStopped; it may have been asked for already. 'minova server list' shows whether.", file=sys.stderr)
        raise


def _client_for(client: Client, body: Json) -> Client:
    """Returns the client with the microversion that the form of the networks needs."""
    version = version_of(body["server"].get("networks"))
    return client if version is None else client.at(version)


def _asking(client: Client, answer: Json) -> Ask:
    """Returns a function that polls the servers of a POST's response, in the order in which they were created."""
    if "reservation_id" not in answer:
        return one_server(client, answer["server"]["id"])

    def ask() -> list[Json]:
        servers = client.pages(f"{COMPUTE}/servers/detail", "servers", reservation_id=answer["reservation_id"])
        return sorted(servers, key=_launch_order)

    return ask


def _launch_order(server: Json) -> tuple[str, int, str]:
    stem, _, number = server["name"].rpartition("-")
    return (stem, int(number), "") if number.isdigit() else (server["name"], 0, server["id"])


def _them(ids: list[str]) -> str:
    return f"server {ids[0]} is" if len(ids) == 1 else f"{len(ids)} servers are"


def _base64_of(what: str, path: str) -> str:
    try:
        return b64encode(Path(path).read_bytes()).decode()
    except OSError as error:
        raise CliError(f"Cannot read the {what} {path}: {error.strerror}.") from None


def user_data(path: str) -> str:
    encoded = _base64_of("user data", path)
    if len(encoded) > USER_DATA_LIMIT:
        raise CliError(f"The user data {path} are too long: {len(encoded)} bytes in base64, at most {USER_DATA_LIMIT}.")
    return encoded


def _dry_run(client: Client, body: Json) -> Json:
    body["server"].pop("return_reservation_id", None)
    return dict(_client_for(client, body).post(f"{COMPUTE}/servers/dry-run", body)["dry_run"])


def dry_run_headline(answer: Json) -> str:
    """Returns the result in one line. Only administrators see the hosts."""
    count, decision = answer["count"], answer["diagnosis"]
    if not answer["fits"]:
        return f"{'It would not fit' if count == 1 else f'Not all {count} would fit'}. {answer['reason']}"
    them = "It" if count == 1 else f"All {count}"
    counts = Counter(diagnosis.place(host, node) for host, node in decision["selected"])
    where = ", ".join(place if count == 1 else f"{place}: {many}" for place, many in counts.items())
    return f"{them} would fit{f', on {where}' if where else ''}."
