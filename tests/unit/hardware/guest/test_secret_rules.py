"""What servers with encrypted disks or a TPM cannot have."""

import msgspec
import pytest

from minova import errors
from minova.hardware.guest.secret_rules import require_evacuable, require_image_allowed, require_same_encryption
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.instance import Instance

PLAIN = Flavor(flavorid="1", name="plain", vcpus=1, memory_mb=64, root_gb=1)
ENCRYPTED = msgspec.structs.replace(PLAIN, name="encrypted", extra_specs={"hw:ephemeral_encryption": "true"})
WITH_TPM = msgspec.structs.replace(PLAIN, name="tpm", extra_specs={"hw:tpm_version": "2.0"})


def server(flavor: Flavor) -> Instance:
    return Instance(uuid="i", display_name="vm", flavor=flavor)


def test_no_image_is_made_of_encrypted_disks() -> None:
    require_image_allowed(server(PLAIN))
    with pytest.raises(errors.Conflict, match="its disks are encrypted"):
        require_image_allowed(server(ENCRYPTED))


def test_a_server_with_a_tpm_is_not_evacuated() -> None:
    require_evacuable(server(ENCRYPTED))
    with pytest.raises(errors.Conflict, match="vTPM-enabled instance"):
        require_evacuable(server(WITH_TPM))


def test_a_resize_keeps_disks_encrypted_or_plain() -> None:
    for flavor, other in ((PLAIN, ENCRYPTED), (ENCRYPTED, PLAIN)):
        require_same_encryption(server(flavor), flavor)
        with pytest.raises(errors.BadRequest, match=f"Flavor {other.name} differs"):
            require_same_encryption(server(flavor), other)
