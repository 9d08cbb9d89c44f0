"""`minova server migration list|show|abort|force complete`: the moves of servers."""

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import COMPUTE, Client, Json, part
from minova.cli.errors import CliError
from minova.cli.parser import add_owner, add_paging

MIGRATIONS = f"{COMPUTE}/os-migrations"
# The first one in which migrations that wait can be aborted, too.
VERSION = "2.65"
ENDED = frozenset({"completed", "confirmed", "reverted", "error", "failed", "cancelled", "done", "deleted"})
BAR = 20
# The beginnings of the fields of the progress.
_SHOWN = ("memory_", "disk_", "phase", "bytes_", "seconds", "downtime_")
COLUMNS = ("Id", "UUID", "Server UUID", "Type", "Status", "Source Compute", "Dest Compute", "Created At", "Updated At")
_KEYS = (
    "id",
    "uuid",
    "instance_uuid",
    "migration_type",
    "status",
    "source_compute",
    "dest_compute",
    "created_at",
    "updated_at",
)


class MigrationList(Lister):
    """List moves of servers, the newest first (for administrators and managers)."""

    first_columns = ("Id", "Status", "Server UUID", "Source Compute", "Dest Compute", "Type")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--server", metavar="SERVER", help="only those of this server: name or ID")
        parser.add_argument("--host", help="only those from or to this host")
        parser.add_argument("--status", help="only those with this status, such as finished")
        parser.add_argument(
            "--type", choices=["evacuation", "live-migration", "migration", "resize"], help="only those of this type"
        )
        add_owner(parser, "project", "only those of its servers")
        add_owner(parser, "user", "only those of the user's servers")
        parser.add_argument(
            "--changes-since", metavar="TIME", help="only what has changed at this time (ISO 8601) or later"
        )
        parser.add_argument("--changes-before", metavar="TIME", help="only what has changed at this time or earlier")
        add_paging(parser, "those after the migration with this UUID", "UUID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        server = find.server(self.client, parsed_args.server, every=True)["id"] if parsed_args.server else None
        query = {
            "instance_uuid": server,
            "host": parsed_args.host,
            "status": parsed_args.status,
            "migration_type": parsed_args.type,
            "project_id": find.owner(self.client, parsed_args),
            "user_id": find.owner(self.client, parsed_args, "user"),
            "changes-since": parsed_args.changes_since,
            "changes-before": parsed_args.changes_before,
            "marker": parsed_args.marker,
        }
        listed = self.client.pages(MIGRATIONS, "migrations", limit=parsed_args.limit, **query)
        return COLUMNS, [tuple(migration[key] for key in _KEYS) for migration in listed]


class MigrationShow(ShowOne):
    """Show a move of a server (for administrators). A live migration in progress also shows its progress."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = _of_server(super().get_parser(prog_name))
        parser.add_argument("--watch", action="store_true", help="show the progress until the move has ended")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        client = self.client.at(VERSION)
        server, migration = _find(client, parsed_args)
        if parsed_args.watch:
            migration = _watched(client, server, migration)
        fields = _without_links(migration) | (_progress(client, server, migration) or {})
        return self.dict2columns(fields)


class MigrationAbort(Command):
    """Abort a live migration: the server stays on its host. Also cancels a resize or a migration that has not ended yet."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _of_server(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client = self.client.at(VERSION)
        server, migration = _find(client, parsed_args)
        client.delete(_path(server, migration))


class MigrationForceComplete(Command):
    """Let a live migration end soon: its guest stands still, or runs at its destination before its memory is there."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _of_server(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client = self.client.at(VERSION)
        server, migration = _find(client, parsed_args)
        client.post(f"{_path(server, migration)}/action", {"force_complete": None})


def _of_server(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("server", metavar="SERVER", help="name or ID")
    parser.add_argument("migration", metavar="MIGRATION", help="ID or UUID, as migration list shows it")
    return parser


def _find(client: Client, parsed_args: argparse.Namespace) -> tuple[Json, Json]:
    """Returns the server and its migration."""
    server = find.server(client, parsed_args.server, every=True)
    for migration in client.pages(MIGRATIONS, "migrations", limit=None, instance_uuid=server["id"]):
        if parsed_args.migration in (str(migration["id"]), migration["uuid"]):
            return server, migration
    raise CliError(f"Server {server['name']} has no migration {parsed_args.migration}.")


def _path(server: Json, migration: Json) -> str:
    return f"{COMPUTE}/servers/{part(server['id'])}/migrations/{migration['id']}"


def _progress(client: Client, server: Json, migration: Json) -> Json | None:
    """Returns how far a live migration in progress is; None: it is not in progress."""
    if migration["migration_type"] != "live-migration" or migration["status"] in ENDED:
        return None
    for in_progress in client.get(f"{COMPUTE}/servers/{part(server['id'])}/migrations")["migrations"]:
        if in_progress["id"] == migration["id"]:
            return {key: value for key, value in in_progress.items() if key.startswith(_SHOWN)}
    return None


def _watched(client: Client, server: Json, migration: Json) -> Json:
    """Shows the progress until the migration has ended, and returns it then."""
    shows_bar, last = sys.stderr.isatty(), ""
    while migration["status"] not in ENDED | {"finished"}:
        line = progress_line(migration["status"], _progress(client, server, migration) or {})
        if shows_bar:
            print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)
        elif line != last:
            print(line, file=sys.stderr, flush=True)
        last = line
        time.sleep(1.0)
        listed = client.pages(MIGRATIONS, "migrations", limit=None, instance_uuid=server["id"])
        migration = next(
            (record for record in listed if record["id"] == migration["id"]), migration | {"status": "deleted"}
        )
    if shows_bar and last:
        print(file=sys.stderr)
    return migration


def progress_line(status: str, progress: Json) -> str:
    """Returns one line: a bar, what remains, the speed, and the time for which the guest stands still."""
    total = (progress.get("memory_total_bytes") or 0) + (progress.get("disk_total_bytes") or 0)
    if not total:
        return status
    remaining_bytes = progress["memory_remaining_bytes"] + progress["disk_remaining_bytes"]
    done = max(total - remaining_bytes, 0) / total
    words = [
        f"{status}  [{'#' * round(done * BAR):.<{BAR}}] {done:4.0%}",
        f"memory {progress['memory_remaining_bytes'] >> 20} MiB left",
        f"{(progress.get('bytes_per_second') or 0) >> 20} MiB/s",
    ]
    if progress["disk_total_bytes"]:
        words.insert(1, f"disks {progress['disk_remaining_bytes'] >> 20} MiB left")
    if progress.get("downtime_ms") is not None:
        words.append(f"downtime {progress['downtime_ms']} ms")
    return "  ".join(words)


def _without_links(migration: Json) -> Json:
    return {key: value for key, value in migration.items() if key != "links"}
