"""Secrets of guests, and the states of their TPMs."""

import base64

import libvirt

from minova.hardware.guest.features import guest_features
from minova.objects.guests.guest_secrets import SecretKind, TpmState
from minova.objects.servers.instance import Instance
from minova.virt.driver.secrets import SecretSource
from minova.virt.libvirt.driver.base import LibvirtBase
from minova.virt.libvirt.guest_files import tpm_files
from minova.virt.libvirt.host import lookup
from minova.virt.libvirt.xml.guest import properties_of
from minova.virt.libvirt.xml.mark import domain_name
from minova.virt.libvirt.xml.secrets_xml import tpm_version_of


class LibvirtGuestSecrets(LibvirtBase):
    def use_secrets(self, source: SecretSource) -> None:
        self._secrets.use(source)

    def tpm_state(self, instance: Instance) -> TpmState | None:
        with self._host.connection("Reading the TPM", domain_name(instance.uuid)) as connection:
            domain = lookup(connection, instance.uuid)
            xml = None if domain is None else domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
            version = None if xml is None else tpm_version_now(instance, xml)
            state = None if version is None else tpm_files.read(connection, instance.uuid, version)
            if version is None or state is None:
                return None
            mark = self._secrets.marks(instance.uuid, [SecretKind.TPM]).get(SecretKind.TPM, "")
            return TpmState(version=version, state=base64.b64encode(state).decode(), mark=mark)


def tpm_version_now(instance: Instance, xml: str) -> str | None:
    """Returns the version of the TPM whose state the guest may have: that of its domain, or else of its row, which a failed rebuild may
    have left with the domain of another image.
    """
    return tpm_version_of(xml) or guest_features(instance.flavor, properties_of(instance)).tpm_version
