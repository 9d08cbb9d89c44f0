"""`minova server migration list|show`: the moves of servers."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Lister, ShowOne
from minova.cli.client import COMPUTE, Json
from minova.cli.errors import CliError
from minova.cli.parser import add_paging

MIGRATIONS = f"{COMPUTE}/os-migrations"
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

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--server", metavar="SERVER", help="only those of this server: name or ID")
        parser.add_argument("--host", help="only those from or to this host")
        parser.add_argument("--status", help="only those with this status, such as finished")
        parser.add_argument(
            "--type", choices=["evacuation", "live-migration", "migration", "resize"], help="only those of this type"
        )
        parser.add_argument("--project", metavar="ID", help="only those of servers of this project")
        parser.add_argument("--user", metavar="ID", help="only those of servers of this user")
        parser.add_argument(
            "--changes-since", metavar="TIME", help="only what has changed at this time (ISO 8601) or later"
        )
        parser.add_argument("--changes-before", metavar="TIME", help="only what has changed at this time or earlier")
        add_paging(parser, "those after the migration with this UUID", "UUID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        server = find.server(self.client, parsed_args.server, every=True)["id"] if parsed_args.server else None
        asked = {
            "instance_uuid": server,
            "host": parsed_args.host,
            "status": parsed_args.status,
            "migration_type": parsed_args.type,
            "project_id": parsed_args.project,
            "user_id": parsed_args.user,
            "changes-since": parsed_args.changes_since,
            "changes-before": parsed_args.changes_before,
            "marker": parsed_args.marker,
        }
        listed = self.client.pages(MIGRATIONS, "migrations", limit=parsed_args.limit, **asked)
        return COLUMNS, [tuple(migration[key] for key in _KEYS) for migration in listed]


class MigrationShow(ShowOne):
    """Show a move of a server (for administrators)."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="SERVER", help="name or ID")
        parser.add_argument("migration", metavar="MIGRATION", help="ID or UUID, as migration list shows it")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        server = find.server(self.client, parsed_args.server, every=True)
        for migration in self.client.pages(MIGRATIONS, "migrations", limit=None, instance_uuid=server["id"]):
            if parsed_args.migration in (str(migration["id"]), migration["uuid"]):
                return self.dict2columns(_without_links(migration))
        raise CliError(f"Server {server['name']} has no migration {parsed_args.migration}.")


def _without_links(migration: Json) -> Json:
    return {key: value for key, value in migration.items() if key != "links"}
