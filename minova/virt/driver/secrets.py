"""Guests whose disks or TPMs are encrypted: the driver fetches their secrets when it needs them, and keeps none."""

from collections.abc import Collection
from typing import Protocol

from minova.objects.guests.guest_secrets import GuestSecrets, SecretKind, TpmState
from minova.objects.servers.instance import Instance


class SecretSource(Protocol):
    def secrets_of(self, instance_uuid: str, kinds: Collection[SecretKind], *, make: bool = False) -> GuestSecrets:
        """`make`: missing ones are made, for disks or a TPM that do not exist yet; otherwise the answer lacks them.

        Raises StaleAttempt if the instance is not this host's, Conflict or ServiceUnavailable if its secrets cannot be had.
        """
        ...


class SecretDriver(Protocol):
    def use_secrets(self, source: SecretSource) -> None:
        """Call this before any other method that concerns a guest. Methods that make, start or move a guest raise the errors of the
        source.
        """
        ...

    def tpm_state(self, instance: Instance) -> TpmState | None:
        """Returns the state of the TPM of a guest that is off; None if it has no TPM, or one that was never started. `prepare` gives a
        guest the state that the source knows, and raises ImageUnacceptable if it is of another version.
        """
        ...
