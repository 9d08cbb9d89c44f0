"""Secrets of guests, as conductors keep them for all hosts."""

import secrets
from collections.abc import Collection

from minova.objects.guests.guest_secrets import GuestSecrets, SecretKind


class KeptSecrets:
    """`asked`: what was asked for so far."""

    def __init__(self) -> None:
        self.made: dict[tuple[str, SecretKind], str] = {}
        self.tpm_states: dict[str, str] = {}
        self.asked: list[SecretKind] = []

    def secrets_of(self, instance_uuid: str, kinds: Collection[SecretKind]) -> GuestSecrets:
        self.asked += kinds
        found = {kind: self.made.setdefault((instance_uuid, kind), secrets.token_hex(32)) for kind in kinds}
        return GuestSecrets(passphrases=found, tpm_state=self.tpm_states.get(instance_uuid))
