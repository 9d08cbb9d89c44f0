"""On a full disk nothing new is written for people, by whichever method; what removes, and what runs already, goes on.

A new method of the API is refused unless it is named here.
"""

from typing import Any

import pytest

from minova import errors
from minova.contracts.base import Role, methods_of
from minova.contracts.conductor import ConductorApi
from minova.db.connections.ballast import Ballast
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.security.broker_cloud import Facts, arguments_of
from tests.tables import make_tables

# Reads.
READS = {"preview_servers", "preview_evacuation", "preview_move", "capacity", "cache_images"}
# Changes to what is there, without which a full disk could not be emptied, or the cloud not be run meanwhile. An upload that the
# image store has no room for says by `change_image` that it has ended.
GOES_ON = {
    "reset_server_state",
    "start_action",
    "evacuate_server",
    "cancel_move",
    "force_complete_migration",
    "change_image",
    "update_image",
    "update_service",
    "network_changed",
}
# What an API says of itself and of its image store: an empty report removes rows, and new rows need room of their own.
OF_THE_API = {"api_has_seen", "report_images"}
REMOVES = ("clear_", "delete_", "remove_")
ABSENT = "5d3c4f3c-0000-4000-8000-000000000001"
FACTS = Facts("a", {"instance_uuid": ABSENT, "uuid": ABSENT, "id": 1, "attempt": 1})
METHODS = [method for method in methods_of(ConductorApi).values() if Role.API in method.audience.roles]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> ConductorHarness:
    folder = tmp_path_factory.mktemp("cloud")
    url = f"sqlite:///{folder / 'minova.sqlite'}"
    make_tables(url)
    harness = ConductorHarness(url, hosts=("a",))
    # No space can be kept there: the same as on a full disk.
    harness.db._ballast = Ballast(folder / "absent" / "minova.sqlite")
    return harness


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_what_writes_something_new_is_refused_on_a_full_disk(full: ConductorHarness, method: Any) -> None:
    arguments = method.arguments.from_builtins(arguments_of(method, FACTS))
    values = {name: getattr(arguments, name) for name in arguments.__struct_fields__}
    refused = None
    try:
        getattr(full.conductor, method.name)(CTX, **values)
    except errors.MinovaError as error:
        refused = error
    goes_on = method.name.startswith(REMOVES) or method.name in READS | GOES_ON | OF_THE_API
    assert isinstance(refused, errors.DiskFull) != goes_on, (method.name, refused)
