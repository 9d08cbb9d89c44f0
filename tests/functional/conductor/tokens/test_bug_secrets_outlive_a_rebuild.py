"""A rebuild, the remedy after a stolen host or key, kept the passphrases; the state of a TPM came back into the system after it; and a
guest whose secrets were in a newer backup silently got others.
"""

import pytest

from minova import errors
from minova.objects.guests.guest_secrets import GuestSecrets, SecretKind, TpmState
from tests.functional.conductor.actions.engine.test_requests import report, succeed
from tests.functional.conductor.actions.kinds import test_rebuild
from tests.functional.conductor.actions.kinds.test_shelving import offload, shelve, unshelve
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.tokens.test_guest_secrets import BOTH, asked, rows

STATE = TpmState(version="2.0", state="Zmlyc3Q=")


def found(harness: ConductorHarness, uuid: str, host: str = "a") -> GuestSecrets:
    """What is in the database, as for a start."""
    return harness.conductor.guest_secrets(CTX, host=host, instance_uuid=uuid, kinds=BOTH, make=False)


def kinds(harness: ConductorHarness) -> set[str]:
    return {kind for _, kind in rows(harness)}


def test_a_rebuild_gives_new_disks_new_secrets(with_key: ConductorHarness) -> None:
    uuid = with_key.active()
    before = asked(with_key, uuid)
    again = report(with_key, uuid, test_rebuild.ask(with_key, uuid))
    with_key.conductor.begin_action(CTX, **again)
    # The former disks are still there.
    assert asked(with_key, uuid) == before
    with_key.conductor.begin_action(CTX, **again, again=True)
    # Nor has the host replaced them yet: it starts the guest with what they have, if it has no room for others.
    assert found(with_key, uuid).passphrases == before.passphrases
    after = asked(with_key, uuid)
    assert {*after.passphrases.values()}.isdisjoint(before.passphrases.values())
    # Late messages change nothing, nor does a host that begins anew.
    with_key.conductor.begin_action(CTX, **again, again=True)
    assert asked(with_key, uuid) == found(with_key, uuid) == after
    succeed(with_key, uuid, again["action_id"])
    assert found(with_key, uuid) == GuestSecrets(passphrases=after.passphrases)
    assert kinds(with_key) == {"disks", "tpm"}


def test_a_rebuild_that_fails_early_keeps_the_secrets_of_its_disks(with_key: ConductorHarness) -> None:
    uuid = with_key.active()
    before = asked(with_key, uuid)
    for _ in range(2):
        again = report(with_key, uuid, test_rebuild.ask(with_key, uuid))
        with_key.conductor.begin_action(CTX, **again)
        with_key.conductor.begin_action(CTX, **again, again=True)
        with_key.conductor.action_failed(CTX, **again, reason="no room")
        assert found(with_key, uuid).passphrases == before.passphrases
    asked(with_key, uuid)
    with_key.delete(uuid)
    with_key.settle()
    with_key.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    with_key.settle()
    assert kinds(with_key) == set()


@pytest.mark.parametrize("leaves_host", [True, False])
def test_a_kept_tpm_ends_with_the_unshelve(with_key: ConductorHarness, leaves_host: bool) -> None:
    with_key.options["shelved_offload_time"] = 0 if leaves_host else -1
    with_key.conductor = with_key.start("one")
    uuid = with_key.active()
    secrets = asked(with_key, uuid).passphrases
    with_key.conductor.keep_tpm_state(CTX, host="a", instance_uuid=uuid, state=STATE)
    if leaves_host:
        offload(with_key, uuid)
        with_key.scheduler.order = ["b"]
        unshelve(with_key, uuid)
        with_key.claim("b", uuid, attempt=2)
        assert found(with_key, uuid, "b") == GuestSecrets(passphrases=secrets, tpm_state=STATE)
        with_key.succeed("b", uuid, attempt=2)
    else:
        shelve(with_key, uuid)
        with_key.acted(uuid, "unshelve")
    assert found(with_key, uuid, "b" if leaves_host else "a") == GuestSecrets(passphrases=secrets)
    assert kinds(with_key) == {"disks", "tpm"}


def test_only_new_disks_and_tpms_get_new_secrets(with_key: ConductorHarness) -> None:
    """The rest of them may be in a newer backup, from which an operator may still bring them back."""
    uuid = with_key.active()
    assert found(with_key, uuid) == GuestSecrets()
    assert rows(with_key) == {}
    asked(with_key, uuid, kinds=(SecretKind.DISKS,))
    assert found(with_key, uuid).passphrases.keys() == {SecretKind.DISKS}


def test_another_conductor_is_asked_if_one_has_no_key(with_key: ConductorHarness) -> None:
    uuid = with_key.active()
    secrets = asked(with_key, uuid)
    file = with_key.options.pop("guest_secrets__key_file")
    without = with_key.start("two")
    with pytest.raises(errors.ServiceUnavailable, match="key_file"):
        without.guest_secrets(CTX, host="a", instance_uuid=uuid, kinds=BOTH, make=False)
    with_key.options["guest_secrets__key_file"] = file
    assert with_key.start("three").guest_secrets(CTX, host="a", instance_uuid=uuid, kinds=BOTH, make=False) == secrets
