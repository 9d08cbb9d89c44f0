"""A rebuild whose disks could not be made left the new image in the row of the former disks, and a secret that opens nothing."""

import pytest

from minova.objects.guests.guest_secrets import MAX_FORMER
from minova.objects.servers.chosen_hardware import ChosenHardware
from tests.functional.conductor.actions.engine.test_requests import report
from tests.functional.conductor.actions.kinds import test_rebuild
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.tokens.test_guest_secrets import BOTH, asked, rows


@pytest.mark.parametrize("kept", [True, False])
def test_the_row_is_that_of_the_disks(with_key: ConductorHarness, kept: bool) -> None:
    uuid, chosen = with_key.active(), ChosenHardware(machine_type="pc-q35-7.2")
    with_key.conductor.record_hardware(CTX, host="a", chosen={uuid: chosen})
    asked(with_key, uuid)
    shown, secrets = test_rebuild.shown(with_key, uuid), rows(with_key)
    again = report(with_key, uuid, test_rebuild.ask(with_key, uuid))
    with_key.conductor.begin_action(CTX, **again)
    with_key.conductor.begin_action(CTX, **again, again=True)
    asked(with_key, uuid)
    for _ in range(2):  # a report comes twice
        with_key.conductor.action_failed(CTX, **again, reason="no space left", kept_disks=kept)
    assert with_key.state(uuid) == "error/None on a"
    assert (test_rebuild.shown(with_key, uuid) == shown) is kept
    assert (chosen.recorded.items() <= with_key.instance(uuid).system_metadata.items()) is kept
    assert (rows(with_key) == secrets) is kept


def test_rebuilds_that_replace_nothing_take_no_place(with_key: ConductorHarness) -> None:
    """Also those that end before their host asks for secrets, and after one whose replacements are unknown."""
    uuid = with_key.active()
    asked(with_key, uuid)
    for number in range(MAX_FORMER + 2):
        again = report(with_key, uuid, test_rebuild.ask(with_key, uuid))
        before = rows(with_key)
        with_key.conductor.begin_action(CTX, **again)
        with_key.conductor.begin_action(CTX, **again, again=True)
        if number % 3:
            asked(with_key, uuid)
        kept = number != 2
        with_key.conductor.action_failed(CTX, **again, reason="no space left", kept_disks=kept)
        assert (rows(with_key) == before) is kept
    answer = with_key.conductor.guest_secrets(CTX, host="a", instance_uuid=uuid, kinds=BOTH, make=False)
    assert {len(former) for former in answer.former.values()} == {1}


def test_a_failure_before_the_disks_puts_no_secret_back(with_key: ConductorHarness) -> None:
    uuid = with_key.active()
    asked(with_key, uuid)
    secrets = rows(with_key)
    again = report(with_key, uuid, test_rebuild.ask(with_key, uuid))
    with_key.conductor.begin_action(CTX, **again)
    with_key.conductor.action_failed(CTX, **again, reason="no image", untouched=True, kept_disks=True)
    assert rows(with_key) == secrets
