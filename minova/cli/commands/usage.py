"""`minova usage list|show`: the usage of servers, CPUs, memory and disk by projects over time."""

import argparse
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from cliff.columns import FormattableColumn

from minova.cli.base import Lister, ShowOne
from minova.cli.client import COMPUTE, Json, part
from minova.cli.error_text import next_marker
from minova.cli.errors import UsageError
from minova.cli.parser import add_owner

USAGES = f"{COMPUTE}/os-simple-tenant-usage"
PAGED = "2.40"  # microversion since which the listing has pages
COLUMNS = ("Project", "Servers", "RAM MB-Hours", "CPU Hours", "Disk GB-Hours")
TOTALS = ("total_memory_mb_usage", "total_vcpus_usage", "total_local_gb_usage")
BEFORE = timedelta(weeks=4)
AFTER = timedelta(days=1)
Shown = tuple[Sequence[str], Iterable[Any]]


class Count(FormattableColumn[list[Any]]):
    """How many there are for people, all of them for programs."""

    def human_readable(self) -> str:
        return str(len(self._value))


class Hours(FormattableColumn[float]):
    """Two decimals for people, all for programs."""

    def human_readable(self) -> str:
        return f"{self._value:.2f}"


class UsageList(Lister):
    """List what each project has used (administrators)."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_period(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        pages = self.client.at(PAGED).pages(USAGES, "tenant_usages", detailed=1, **_period(parsed_args))
        return COLUMNS, [_row(project, total) for project, total in _totals(pages).items()]


class UsageShow(ShowOne):
    """Show what a project has used."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = _with_period(super().get_parser(prog_name))
        add_owner(parser, "project", "default: the own one")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        if parsed_args.project:
            project = self.client.owner("project", parsed_args.project, parsed_args.project_domain)
        else:
            project = self.client.own_project()
        totals = _totals(self._pages(f"{USAGES}/{part(project)}", _period(parsed_args)))
        return COLUMNS, _row(project, totals.get(project, {}))

    def _pages(self, path: str, query: Json) -> Iterable[Json]:
        """Yields the pages of one project: its listing is an object in each page, not a list."""
        client = self.client.at(PAGED)
        marker: str | None = None
        while True:
            page = client.get(path, **query, marker=marker)
            if page["tenant_usage"]:
                yield page["tenant_usage"]
            marker = next_marker(page, "tenant_usage")
            if marker is None:
                return


def _with_period(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("--start", type=day, metavar="YYYY-MM-DD", help="the first day (default: four weeks ago)")
    parser.add_argument(
        "--end", type=day, metavar="YYYY-MM-DD", help="the day at whose begin it ends (default: tomorrow)"
    )
    return parser


def day(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d")  # noqa: DTZ007 - the API's times are UTC without a zone
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a day such as 2026-01-20") from None


def _period(parsed_args: argparse.Namespace) -> Json:
    now = datetime.now(UTC).replace(tzinfo=None)
    start, end = parsed_args.start or now - BEFORE, parsed_args.end or now + AFTER
    if start >= end:
        raise UsageError("--start is not before --end.")
    return {"start": start.isoformat(), "end": end.isoformat()}


def _totals(pages: Iterable[Json]) -> dict[str, Json]:
    """Returns the totals by project: a project may be on several pages."""
    totals: dict[str, Json] = {}
    for usage in pages:
        total = totals.setdefault(usage["tenant_id"], {"server_usages": [], **dict.fromkeys(TOTALS, 0.0)})
        total["server_usages"] += usage.get("server_usages", [])
        for name in TOTALS:
            total[name] += usage[name]
    return totals


def _row(project: str, total: Json) -> tuple[Any, ...]:
    return (project, Count(total.get("server_usages", [])), *(Hours(total.get(name, 0.0)) for name in TOTALS))
