"""A guest as its host keeps it."""

import pytest

from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.instance import Instance
from minova.objects.unexpected.guest_record import MAX_ACTIONS, EndedAction, GuestRecord

INSTANCE = Instance(
    uuid="vm", display_name="vm", flavor=Flavor(flavorid="f", name="f", vcpus=1, memory_mb=1, root_gb=1)
)
SHELVED = EndedAction(id=1, request_id="r", kind="shelve", vm_state="suspended")
STOPPED = EndedAction(id=2, request_id="r", kind="stop", vm_state="active")
FAILED = EndedAction(id=3, request_id="r", kind="start", vm_state="shelved", reason="why")


def record(*actions: EndedAction) -> GuestRecord:
    return GuestRecord(instance=INSTANCE, attempt=1, node="n", actions=actions)


@pytest.mark.parametrize(
    ("actions", "was"),
    [
        ((), False),
        ((SHELVED,), True),
        ((STOPPED, SHELVED, FAILED), True),
        ((SHELVED, STOPPED), False),
        ((FAILED,), False),
        ((EndedAction(id=1, request_id="r", kind="shelve", vm_state="active"),), False),
        ((EndedAction(id=1, request_id="r", kind="shelve", vm_state="suspended", reason="why"),), False),
    ],
)
def test_whether_a_server_was_suspended_when_it_was_shelved(actions: tuple[EndedAction, ...], was: bool) -> None:
    assert record(*actions).was_shelved_suspended is was


def test_an_action_is_known_by_its_id_and_its_request() -> None:
    again = EndedAction(id=2, request_id="r", kind="start")
    ended = record(SHELVED, STOPPED, again)
    assert ended.action(1, "r") is SHELVED
    assert ended.action(2, "r") is again
    assert ended.action(1, "other") is None
    assert ended.action(9, "r") is None


def test_a_host_remembers_so_many_actions_of_a_guest() -> None:
    assert MAX_ACTIONS == 64
