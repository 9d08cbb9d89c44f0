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
    ) -> GuestSecrets:
        """Returns the passphrases of these kinds, which are made at the first call and stay those of the server until its deletion;
        with that of a TPM, the state that `keep_tpm_state` has kept.

        Raises StaleAttempt unless the instance is on this host, or is being built or moved there. Raises Conflict if the conductors
        lack the key of the secrets.
        """
        ...

    @call(since="1.9")
    def keep_tpm_state(self, ctx: RequestContext, *, host: Line, instance_uuid: Line, state: TpmState) -> None:
        """Keeps the state of the TPM of a server whose host is about to remove it (see `GuestSecrets`), in place of an earlier one.

        Raises StaleAttempt unless the instance is on this host. Raises Conflict as `guest_secrets`.
        """
        ...
