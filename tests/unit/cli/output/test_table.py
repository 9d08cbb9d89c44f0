"""How a list fits a narrow terminal."""

from typing import Any

import pytest

from minova.cli.base import Lister
from minova.cli.commands import hypervisor, service
from minova.cli.commands.server import event, hosts, migration, show
from minova.cli.output import servers
from minova.cli.output.table import fit

ID = "6b53879a-c509-47f4-b83b-215754a8c297"


@pytest.mark.parametrize(
    ("width", "names", "row", "left_out"),
    [
        (80, ["ID", "Name", "Reason"], [ID, "web", "the disk is full"], []),
        (60, ["ID", "Name", "Reason"], [ID, "web", "the disk\nis full"], []),
        (52, ["ID", "Name"], [ID, "web"], ["Reason"]),
        (20, ["ID"], [ID], ["Name", "Reason"]),
    ],
)
def test_words_and_ids_stay_whole(width: int, names: list[str], row: list[Any], left_out: list[str]) -> None:
    fitted_table = fit(["ID", "Name", "Reason"], [[ID, "web", "the disk is full"]], width)
    assert fitted_table == (names, [row], left_out)


def test_numbers_stay_numbers_and_an_empty_list_is_one() -> None:
    assert fit(["ID", "RAM"], [[1, 512]], 80) == (["ID", "RAM"], [[1, 512]], [])
    assert fit(["ID", "RAM"], [], 80) == (["ID", "RAM"], [], [])


def test_bug_reason_of_a_disabled_service_gave_way_to_the_time_of_its_report() -> None:
    names = ["ID", "Binary", "Host", "Zone", "Status", "State", "Updated At", "Disabled Reason", "Forced Down"]
    row = [1, "minova-compute", "hv1", "nova", "disabled", "up", "2026-11-27T11:26:04.000000", "is removed", "False"]
    assert fit(names, [row], 80)[2] == ["Updated At", "Forced Down"]


def test_columns_without_a_value_are_left_out_first() -> None:
    names = ["ID", "Name", "Task State", "Networks"]
    rows = [[ID, "web", None, "a=10.0.0.2"], [ID, "db", None, "a=10.0.0.3"]]
    assert fit(names, rows, 70)[2] == ["Task State"]
    rows[1][2] = "deleting"
    assert fit(names, rows, 70)[2] == ["Networks"]
    assert fit(names, rows, 80)[2] == []


TIME = "2026-11-27T11:26:04"
REASON = "Its disk /dev/disk/by-id/ata-ST8000NM0055-1RM112 reports errors, ticket 4711; do not enable it before Monday"
REFUSED = "NoValidHost: no host has the room for this flavor, see minova server explain"
SERVICE = [ID, "minova-compute", "rack12-hv07", "nova", "disabled", "down", TIME, REASON, False]
EVENT = ["req-" + ID, ID, "migrate", TIME, ID.replace("-", ""), "Error", TIME, ID.replace("-", ""), REFUSED]
MIGRATION = [4711, ID, ID, "live-migration", "error", "rack12-hv07", "rack12-hv08", TIME, TIME]
NODE = [ID, "rack12-hv07", "up", "disabled", "12/32", "2048/65536", "20/800", 7, "QEMU", "192.0.2.17"]
NODE += [63488, 780, 700, 0, 7002000, "rack12-hv07", REASON, TIME, 3, 0]
SERVER: list[Any] = [
    ID,
    "web",
    "ACTIVE",
    "migrating",
    "a=10.0.0.2, fd00::f816:3eff:fe8f:1459",
    "rack12-hv07",
    "debian",
    "m1.small",
]
SERVER += ["Paused", "nova", "rack12-hv07", TIME, "", False]


@pytest.mark.parametrize(
    ("command", "names", "row", "width", "needed"),
    [
        (service.ServiceList, service.COLUMNS, SERVICE[:7], 80, {"Host", "Binary", "State", "ID"}),
        (service.ServiceList, service.LONG_COLUMNS, SERVICE, 80, {"Host", "Disabled Reason"}),
        (service.ServiceList, service.LONG_COLUMNS, SERVICE, 100, {"Host", "Binary", "State", "Disabled Reason"}),
        (event.ServerEventList, event.COLUMNS, EVENT[:6], 80, {"Request ID", "Action", "Result"}),
        (
            event.ServerEventList,
            event.COLUMNS + event.LONG_COLUMNS,
            EVENT,
            100,
            {"Request ID", "Action", "Result", "Message"},
        ),
        (migration.MigrationList, migration.COLUMNS, MIGRATION, 80, {"Id", "Status", "Server UUID"}),
        (hypervisor.HypervisorList, hypervisor.COLUMNS + hypervisor.LONG, NODE, 100, {"Disabled Reason", "Last Audit"}),
        (hosts.HostMove, hosts.COLUMNS, [*SERVER[:3], "rack12-hv07", REFUSED], 60, {"Outcome", "Name"}),
        (show.ServerList, servers.COLUMNS + servers.LONG_COLUMNS, SERVER, 80, {"ID", "Name", "Status", "Power State"}),
    ],
)
def test_bug_column_for_which_operators_look_was_left_out(
    command: type[Lister], names: tuple[str, ...], row: list[Any], width: int, needed: set[str]
) -> None:
    shown, fitted, _ = fit(names, [row], width, command.first_columns)
    assert needed <= {*shown}
    assert max(map(len, str(fitted[0][0]).splitlines())) <= width
