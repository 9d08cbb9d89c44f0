"""Secrets of the guests of a host."""

from typing import Annotated, Protocol

from msgspec import Meta

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_COMPUTES
from minova.objects.guests.guest_secrets import GuestSecrets, SecretKind, TpmState
from minova.objects.hosts.bounds import Line


@BY_COMPUTES
class GuestSecretsApi(Protocol):
    @call(since="1.9")
    def guest_secrets(
        self,
        ctx: RequestContext,
        *,
        host: Line,
        instance_uuid: Line,
        kinds: Annotated[tuple[SecretKind, ...], Meta(max_length=len(SecretKind))],
        make: bool = False,
    ) -> GuestSecrets:
        """Returns the passphrases of these kinds; with that of a TPM, the state that `keep_tpm_state` has kept. A passphrase stays that
        of the server until its rebuild or deletion. `make`: the host is about to make what they encrypt, and missing ones are made.
        Without `make` the answer lacks those that are not in the database.

        Raises StaleAttempt unless the instance is on this host, or is being built or moved there. Raises SecretsNotConfigured if the
        conductor lacks the key of the secrets, and Conflict if they are not those of this server.
        """
        ...

    @call(since="1.9")
    def keep_tpm_state(
        self, ctx: RequestContext, *, host: Line, instance_uuid: Line, state: TpmState | None = None
    ) -> None:
        """Keeps the state of the TPM of a server whose host is about to remove it (see `GuestSecrets`), in place of an earlier one.
        None: it has no state.

        Raises StaleAttempt unless the instance is on this host. Raises SecretsNotConfigured as `guest_secrets`.
        """
        ...
