"""Secrets of guests, as conductors keep them for all hosts."""

import secrets
from collections.abc import Collection

from minova.objects.guests.guest_secrets import GuestSecrets, SecretKind, TpmState


class KeptSecrets:
    """`asked`: what was asked for so far. `fault`: raised instead of an answer."""

    def __init__(self) -> None:
        self.made: dict[tuple[str, SecretKind], str] = {}
        self.former: dict[tuple[str, SecretKind], tuple[str, ...]] = {}
        self.tpm_states: dict[str, TpmState] = {}
        self.asked: list[SecretKind] = []
        self.fault: Exception | None = None

    def secrets_of(self, instance_uuid: str, kinds: Collection[SecretKind], *, make: bool = False) -> GuestSecrets:
        self.asked += kinds
        if self.fault is not None:
            raise self.fault
        if make:
            for kind in kinds:
                self.made.setdefault((instance_uuid, kind), secrets.token_hex(32))
        kept_passphrases = {
            kind: self.made[instance_uuid, kind] for kind in kinds if (instance_uuid, kind) in self.made
        }
        former = {kind: self.former[instance_uuid, kind] for kind in kinds if (instance_uuid, kind) in self.former}
        last = {kind: passphrases[0] for kind, passphrases in former.items()}
        return GuestSecrets(
            passphrases={**last, **kept_passphrases}, former=former, tpm_state=self.tpm_states.get(instance_uuid)
        )

    def set_aside(self) -> None:
        """A rebuild begins."""
        for key, passphrase in self.made.items():
            self.former[key] = (passphrase, *self.former.get(key, ()))
        self.made.clear()
