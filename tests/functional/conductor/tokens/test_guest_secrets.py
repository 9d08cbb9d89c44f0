"""Conductors make the secrets of guests, and give them to the server's host alone."""

import base64
import secrets
from pathlib import Path

import pytest
from sqlalchemy import select

from minova import errors
from minova.conductor.tokens.sealing import Sealing
from minova.db.models import GuestSecret, ProviderTrait
from minova.db.servers import guest_secrets
from minova.hardware.guest.features import NEED_SECRETS
from minova.objects.guests.guest_secrets import MAX_FORMER, GuestSecrets, SecretKind, TpmState
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, inventories_of
from tests.functional.scheduler.cloud import named

BOTH = (SecretKind.DISKS, SecretKind.TPM)
SECOND = TpmState(version="2.0", state="c2Vjb25k")


def asked(harness: ConductorHarness, uuid: str, host: str = "a", kinds: tuple[SecretKind, ...] = BOTH) -> GuestSecrets:
    return harness.conductor.guest_secrets(CTX, host=host, instance_uuid=uuid, kinds=kinds, make=True)


def rows(harness: ConductorHarness) -> dict[tuple[str, str], str]:
    with harness.db.read() as session:
        return {(row.instance_uuid, row.kind): row.value for row in session.scalars(select(GuestSecret))}


def test_a_secret_stays_the_same_until_the_server_is_deleted(with_key: ConductorHarness) -> None:
    with_key.scheduler.order = ["a"]
    (uuid,) = with_key.create()
    first = asked(with_key, uuid)  # already while it is being built
    with_key.build("a", uuid)
    other = with_key.start("two")
    again = other.guest_secrets(CTX, host="a", instance_uuid=uuid, kinds=BOTH, make=False)
    assert again == first
    assert len({*first.passphrases.values()}) == 2
    assert {kind for _, kind in rows(with_key)} == {"disks", "tpm"}
    assert not any(value in "".join(rows(with_key).values()) for value in first.passphrases.values())
    assert "disks" in repr(first)
    assert first.passphrases[SecretKind.DISKS] not in repr(first)

    with_key.conductor.delete_server(CTX, instance_uuid=uuid)
    with_key.settle()
    with_key.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    with_key.settle()
    assert rows(with_key) == {}
    with pytest.raises(errors.StaleAttempt):
        asked(with_key, uuid)
    assert rows(with_key) == {}


def test_a_host_gets_no_secret_of_what_is_not_its_own(with_key: ConductorHarness) -> None:
    with_key.scheduler.order = ["a"]
    (building,) = with_key.create()
    for uuid in (building, with_key.active(), named("no instance")):
        with pytest.raises(errors.StaleAttempt):
            asked(with_key, uuid, host="b")
        with pytest.raises(errors.StaleAttempt):
            with_key.conductor.keep_tpm_state(CTX, host="b", instance_uuid=uuid, state=SECOND)
    assert rows(with_key) == {}


def test_the_state_of_a_tpm_is_kept_for_the_next_host(with_key: ConductorHarness) -> None:
    uuid = with_key.active()
    assert asked(with_key, uuid).tpm_state is None
    for state in (TpmState(version="2.0", state="Zmlyc3Q="), SECOND):
        with_key.conductor.keep_tpm_state(CTX, host="a", instance_uuid=uuid, state=state)
    assert asked(with_key, uuid).tpm_state == SECOND
    assert asked(with_key, uuid, kinds=(SecretKind.DISKS,)).tpm_state is None
    assert SECOND.state not in "".join(rows(with_key).values()) + repr(asked(with_key, uuid))
    with_key.conductor.keep_tpm_state(CTX, host="a", instance_uuid=uuid, state=None)
    assert asked(with_key, uuid).tpm_state is None


def test_without_a_key_hosts_offer_nothing_that_needs_secrets(
    harness: ConductorHarness, with_key: ConductorHarness
) -> None:
    clouds: list[tuple[ConductorHarness, frozenset[str]]] = [(harness, frozenset()), (with_key, NEED_SECRETS)]
    for cloud, offered in clouds:
        node = cloud.audit("a")
        traits = (*sorted(NEED_SECRETS), "HW_CPU_X86_AVX2")
        cloud.conductor.finish_audit(CTX, node=node, inventories=inventories_of(node), traits=traits)
        with cloud.db.read() as session:
            names = set(session.scalars(select(ProviderTrait.trait)))
        assert names & {*traits} == {*offered, "HW_CPU_X86_AVX2"}
    with pytest.raises(errors.SecretsNotConfigured, match="key_file"):
        asked(harness, harness.active())


def test_former_secrets_stay_until_a_rebuild_succeeds(with_key: ConductorHarness) -> None:
    """However often it fails: the host knows which of them opens the disks that are there."""
    uuid = with_key.active()
    passphrases = []
    for _ in range(MAX_FORMER):
        passphrases.append(asked(with_key, uuid).passphrases[SecretKind.DISKS])
        with with_key.db.write() as session:
            guest_secrets.set_aside(session, uuid)
        # Before the host asks for new ones, the last former ones are those of the disks.
        again = with_key.conductor.guest_secrets(CTX, host="a", instance_uuid=uuid, kinds=BOTH, make=False)
        assert again.passphrases[SecretKind.DISKS] == passphrases[-1]
    answer = asked(with_key, uuid)
    assert answer.former[SecretKind.DISKS] == tuple(reversed(passphrases))
    assert len({*answer.former[SecretKind.TPM], *passphrases, *answer.passphrases.values()}) == 2 * MAX_FORMER + 2
    with with_key.db.write() as session:
        guest_secrets.remove_former(session, uuid)
    assert asked(with_key, uuid) == GuestSecrets(passphrases=answer.passphrases)


def test_a_conductor_with_other_keys_says_so_when_it_starts(
    with_key: ConductorHarness, caplog: pytest.LogCaptureFixture
) -> None:
    def warned() -> list[str]:
        words = [record.getMessage() for record in caplog.records if "other keys for secrets" in record.getMessage()]
        caplog.clear()
        return words

    with_key.beat()
    with_key.tick(with_key.start("same"))
    assert warned() == []
    file = Path(with_key.conf().guest_secrets.key_file)
    mine = Sealing.of_file(str(file)).shown_ids
    file.write_text(base64.b64encode(secrets.token_bytes(32)).decode())
    with_key.tick(with_key.start("other"))
    said = warned()
    assert len(said) == 2
    assert all(f"({mine})" in line and str(file) not in line for line in said)
