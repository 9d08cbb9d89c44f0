"""Keeps the passphrases of guests' disks and TPMs, and gives them to the host of the server alone."""

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.codecs import Decoder
from minova.conductor.tasks.worker import TaskWorker
from minova.conductor.tokens.sealing import Sealing, new_passphrase
from minova.context import RequestContext
from minova.contracts.conductor.computes.secrets import GuestSecretsApi
from minova.db.servers import guest_secrets, instances
from minova.objects.guests.guest_secrets import GuestSecrets, SecretKind, TpmState

_STATE = Decoder(TpmState)


class GuestSecretKeeper(GuestSecretsApi):
    def __init__(self, worker: TaskWorker, sealing: Sealing) -> None:
        self._worker = worker
        self._sealing = sealing

    def guest_secrets(
        self, ctx: RequestContext, host: str, instance_uuid: str, kinds: tuple[SecretKind, ...], make: bool = False
    ) -> GuestSecrets:
        return self._worker.run(lambda session: self._secrets(session, host, instance_uuid, kinds, make=make))

    def _secrets(
        self, session: Session, host: str, uuid: str, kinds: Sequence[SecretKind], *, make: bool
    ) -> GuestSecrets:
        # Two hosts of a move, or two messages, must get the same passphrase: the lock lets one of them make it.
        _lock(session, uuid)
        if not instances.works_on(session, uuid, host):
            raise errors.StaleAttempt(f"Host {host} has no instance {uuid}")
        stored_secrets = guest_secrets.of_instance(session, uuid)
        new_passphrases = {kind: new_passphrase() for kind in kinds if make and kind not in stored_secrets}
        sealed = {str(kind): self._sealing.seal(uuid, kind, value) for kind, value in new_passphrases.items()}
        guest_secrets.write(session, uuid, sealed, self._worker.at())
        former = {kind: self._former_secrets(uuid, kind, stored_secrets) for kind in kinds}
        passphrases = {
            kind: self._sealing.unseal(uuid, kind, stored_secrets[kind]) for kind in kinds if kind in stored_secrets
        }
        # A rebuild that failed before it asked for new secrets has left what the last former ones encrypt.
        last = {kind: texts[0] for kind, texts in former.items() if texts}
        state = stored_secrets.get(guest_secrets.TPM_STATE) if SecretKind.TPM in kinds else None
        return GuestSecrets(
            passphrases={**last, **passphrases, **new_passphrases},
            former={kind: texts for kind, texts in former.items() if texts},
            tpm_state=None
            if state is None
            else _STATE.from_json(self._sealing.unseal(uuid, guest_secrets.TPM_STATE, state)),
        )

    def _former_secrets(self, uuid: str, kind: SecretKind, sealed: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(
            self._sealing.unseal(uuid, kind, sealed[name]) for name in guest_secrets.former_kinds(sealed, kind)
        )

    def keep_tpm_state(self, ctx: RequestContext, host: str, instance_uuid: str, state: TpmState | None = None) -> None:
        def keep(session: Session) -> None:
            if _lock(session, instance_uuid) != host:
                raise errors.StaleAttempt(f"Host {host} has no instance {instance_uuid}")
            guest_secrets.remove_tpm_states(session, [instance_uuid])
            if state is not None:
                sealed = self._sealing.seal(instance_uuid, guest_secrets.TPM_STATE, msgspec.json.encode(state).decode())
                guest_secrets.write(session, instance_uuid, {guest_secrets.TPM_STATE: sealed}, self._worker.at())

        self._worker.run(keep)


def _lock(session: Session, uuid: str) -> str | None:
    """Returns the host in the instance's row. Raises StaleAttempt if there is no such instance."""
    locked = instances.lock(session, [uuid]).get(uuid)
    if locked is None or locked.deleted:
        raise errors.StaleAttempt(f"There is no instance {uuid}")
    return locked.host
