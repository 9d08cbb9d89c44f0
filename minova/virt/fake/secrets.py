"""Secrets of fake guests: asked for, as a real host does, and not used."""

from minova.objects.guests.guest_secrets import TpmState
from minova.objects.servers.instance import Instance
from minova.virt.driver.secrets import SecretSource


class FakeSecrets:
    def use_secrets(self, source: SecretSource) -> None:
        """Does nothing: there is nothing to encrypt."""

    def tpm_state(self, instance: Instance) -> TpmState | None:
        return None
