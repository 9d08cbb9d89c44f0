"""Secrets of this host's guests: fetched from a conductor each time, and kept nowhere."""

from collections.abc import Collection

from minova.compute.conductor_retry import ConductorRetry
from minova.context import RequestContext, service_context
from minova.contracts.conductor import ConductorApi
from minova.hardware.guest.features import guest_features
from minova.objects.guests.guest_secrets import GuestSecrets, SecretKind
from minova.objects.servers.instance import Instance
from minova.virt.driver import ComputeDriver


class HostSecrets:
    """Implements `virt.driver.secrets.SecretSource`."""

    def __init__(self, host: str, conductor: ConductorApi, repeat: ConductorRetry) -> None:
        self._host = host
        self._conductor = conductor
        self._repeat = repeat

    def secrets_of(self, instance_uuid: str, kinds: Collection[SecretKind], *, make: bool = False) -> GuestSecrets:
        ask = lambda: self._conductor.guest_secrets(  # noqa: E731
            service_context(), host=self._host, instance_uuid=instance_uuid, kinds=tuple(kinds), make=make
        )
        return self._repeat(f"Secrets of instance {instance_uuid}", ask)

    def keep_tpm(self, ctx: RequestContext, driver: ComputeDriver, instance: Instance) -> None:
        """Keeps the state of the guest's TPM with a conductor, before this host removes it. Raises the errors of both.

        A TPM without a state has none that was kept, either. Without a domain, an earlier call has kept the state.
        """
        properties = instance.image.properties if instance.image is not None else {}
        if guest_features(instance.flavor, properties).tpm_version is None or driver.power_state(instance.uuid) is None:
            return
        state = driver.tpm_state(instance)
        keep = lambda: self._conductor.keep_tpm_state(  # noqa: E731
            ctx, host=self._host, instance_uuid=instance.uuid, state=state
        )
        self._repeat(f"The TPM of instance {instance.uuid}", keep)
