"""Guests whose disks or TPMs are encrypted: the driver fetches their secrets when it needs them, and keeps none."""

from collections.abc import Collection
from typing import Protocol

from minova.objects.guests.guest_secrets import GuestSecrets, SecretKind
from minova.objects.servers.instance import Instance


class SecretSource(Protocol):
    def secrets_of(self, instance_uuid: str, kinds: Collection[SecretKind]) -> GuestSecrets:
        """Raises StaleAttempt if the instance is not this host's, Conflict or ServiceUnavailable if its secrets cannot be had."""
        ...


class SecretDriver(Protocol):
    def use_secrets(self, source: SecretSource) -> None:
        """Call this before any other method that concerns a guest. Methods that make, start or move a guest raise the errors of the
        source.
        """
        ...

    def tpm_state(self, instance: Instance) -> str | None:
        """Returns the state of the TPM of a guest that is off, in base64 and encrypted with its passphrase; None if it has no TPM, or
        one that was never started. `prepare` gives a guest the state that the source knows.
        """
        ...
