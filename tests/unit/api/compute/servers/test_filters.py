"""Filters of the server listing, from query to what the database is asked."""

from datetime import datetime
from typing import Any

import pytest

from minova import errors
from minova.api.compute.servers.filters import ListingRights, ServersQuery, check_names, instance_filter, order
from minova.api.http.structs import to_struct
from minova.codecs import Decoder
from minova.db.api_queries.instances import InstanceFilter
from minova.db.api_queries.patterns import Pattern

QUERY = Decoder(ServersQuery, strict=False)

ADMIN = ListingRights(is_admin=True, all_filters=True)
USER = ListingRights(is_admin=False, all_filters=False, refusal="no")


def ask(query: dict[str, str], *, is_admin: bool = True) -> InstanceFilter | None:
    pairs = [(key.replace("changes_since", "changes-since"), value) for key, value in query.items()]
    return instance_filter(to_struct(pairs, QUERY), "mine", ADMIN if is_admin else USER)


MEANINGS: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({}, {"project_id": "mine", "deleted": False}),
    ({"all_tenants": "1"}, {"project_id": None}),
    ({"all_tenants": ""}, {"project_id": None}),
    ({"all_tenants": "0"}, {"project_id": "mine"}),
    ({"project_id": "other"}, {"project_id": "mine"}),
    ({"tenant_id": "other"}, {"project_id": "mine"}),
    ({"all_tenants": "True", "tenant_id": "other"}, {"project_id": "other"}),
    ({"deleted": "true"}, {"deleted": True}),
    ({"status": "active"}, {"vm_states": ("active",)}),
    ({"status": "SHUTOFF"}, {"vm_states": ("stopped",)}),
    ({"status": "DELETED"}, {"vm_states": ("deleted",), "task_states": None, "deleted": True}),
    ({"status": "DELETED", "deleted": "0"}, {"deleted": True}),
    ({"status": "PASSWORD"}, {"vm_states": ("active",), "task_states": ("updating_password",), "deleted": False}),
    ({"status": "ACTIVE", "task_state": "rebooting"}, {"vm_states": ("active",), "task_states": ("rebooting",)}),
    ({"status": "MIGRATING", "task_state": "x"}, {"vm_states": ("active", "paused"), "task_states": ("migrating",)}),
    ({"status": "ACTIVE", "vm_state": "error"}, {"vm_states": ("active",)}),
    ({"task_state": "rebooting"}, {"vm_states": None, "task_states": ("rebooting",)}),
    ({"vm_state": "error"}, {"vm_states": ("error",)}),
    ({"name": "^a"}, {"patterns": (("display_name", Pattern("^a", "a%")),)}),
    ({"key_name": "k+"}, {"patterns": (("key_name", Pattern("k+", None)),)}),
    ({"description": "d"}, {"patterns": (("display_description", Pattern("d", "%d%")),)}),
    ({"config_drive": "no"}, {"config_drive": False}),
    ({"image_ref": "i", "image": "i"}, {"image_ref": "i"}),
    ({"kernel_id": "^$", "root_device_name": "vda"}, {"patterns": (("kernel_id", Pattern("^$", "")),)}),
    ({"auto_disk_config": "1"}, {"patterns": (("auto_disk_config", Pattern("1", "%1%")),)}),
    ({"deleted": "perhaps"}, {"deleted": False}),
    ({"flavor": "1", "image": "i", "host": "h"}, {"flavorid": "1", "image_ref": "i", "host": "h"}),
    (
        {"changes_since": "2026-01-31T12:00:00+02:00"},
        {"changed_since": datetime(2026, 1, 31, 10), "deleted": None},  # noqa: DTZ001
    ),
]


@pytest.mark.parametrize(("query", "meaning"), MEANINGS)
def test_what_a_query_means(query: dict[str, str], meaning: dict[str, Any]) -> None:
    server_filter = ask(query)
    assert {key: getattr(server_filter, key) for key in meaning} == meaning


NOTHING = [
    {"status": "HAPPY"},
    {"status": "HAPPY", "vm_state": "error"},
    {"root_device_name": "/dev/sda"},
    {"image": "a", "image_ref": "b"},
]


@pytest.mark.parametrize("is_admin", [True, False])
@pytest.mark.parametrize("query", NOTHING)
def test_a_filter_on_what_no_server_has_matches_nothing(query: dict[str, str], is_admin: bool) -> None:
    assert ask(query, is_admin=is_admin) is None


@pytest.mark.parametrize("name", ["metadata", "system_metadata", "pci_devices", "security_groups", "_sa_instance"])
def test_nova_refuses_to_filter_by_tables(name: str) -> None:
    with pytest.raises(errors.BadRequest, match=f"Invalid filter field: {name}."):
        check_names([name])


def test_unknown_parameters_are_ignored() -> None:
    check_names(["unknown", "tags", "limit"])


@pytest.mark.parametrize("query", [{"host": "h"}, {"project_id": "other"}, {"deleted": "1"}, {"node": "n"}])
def test_what_is_for_administrators_is_ignored_for_others(query: dict[str, str]) -> None:
    assert ask(query, is_admin=False) == ask({}, is_admin=False)


@pytest.mark.parametrize("query", [{"all_tenants": "1"}, {"status": "deleted"}])
def test_what_would_show_others_servers_is_forbidden(query: dict[str, str]) -> None:
    with pytest.raises(errors.Forbidden):
        ask(query, is_admin=False)


@pytest.mark.parametrize(
    "query",
    [
        {"all_tenants": "perhaps"},
        {"changes_since": "yesterday"},
        {"power_state": "("},
        {"limit": "1.5"},
        {"name": ""},
        {"ip": ""},
        {"flavor": ""},
        {"availability_zone": ""},
        {"config_drive": ""},
        {"config_drive": "perhaps"},
    ],
)
def test_a_value_that_means_nothing_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(errors.BadRequest):
        ask(query)


ORDERS = {
    (): [("created_at", True)],
    (("sort_dir", "asc"),): [("created_at", False)],
    (("sort_key", "display_name"),): [("display_name", True)],
    (("sort_key", "display_name"), ("sort_key", "uuid"), ("sort_dir", "asc")): [
        ("display_name", False),
        ("uuid", True),
    ],
    (("sort_key", "memory_mb"), ("sort_key", "uuid"), ("sort_dir", "asc"), ("sort_dir", "desc")): [("uuid", True)],
    (("sort_key", "locked"),): [("created_at", True)],
    (("sort_key", "root_device_name"), ("sort_key", "uuid"), ("sort_dir", "desc"), ("sort_dir", "asc")): [
        ("uuid", False)
    ],
    (("sort_key", "kernel_id"), ("sort_key", "ramdisk_id")): [("kernel_id", True), ("ramdisk_id", True)],
    (("sort_key", "image_ref"), ("sort_key", "instance_type_id")): [("image_ref", True), ("instance_type_id", True)],
}


@pytest.mark.parametrize(("pairs", "expected"), ORDERS.items())
def test_the_newest_come_first_unless_asked_otherwise(
    pairs: tuple[tuple[str, str], ...], expected: list[tuple[str, bool]]
) -> None:
    assert order(to_struct(list(pairs), QUERY)) == expected


@pytest.mark.parametrize("pairs", [[("sort_key", "password")], [("sort_key", "uuid"), ("sort_dir", "up")]])
def test_an_unknown_order_is_refused(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(errors.BadRequest):
        order(to_struct(pairs, QUERY))


@pytest.mark.parametrize("key", ["host", "node"])
def test_only_administrators_sort_by_hosts(key: str) -> None:
    query = to_struct([("sort_key", key)], QUERY)
    assert order(query) == [(key, True)]
    with pytest.raises(errors.Forbidden, match=f"Only administrators can sort servers by {key}"):
        order(query, is_admin=False)
