"""Which of a guest's secrets were used for what is there."""

import pytest

from minova.objects.guests.guest_secrets import SecretKind
from minova.virt.libvirt.guest_state.secrets import LibvirtSecrets
from minova.virt.libvirt.storage.disk_keys import mark_of
from minova.virt.libvirt.storage.disk_owner import SecretsInUse

DISKS, TPM = SecretKind.DISKS, SecretKind.TPM


@pytest.mark.parametrize(
    ("marks", "passphrases", "used"),
    [
        ({"disks": mark_of("a")}, {DISKS: "a", TPM: "b"}, True),
        ({"disks": mark_of("a"), "tpm": mark_of("b")}, {DISKS: "c", TPM: "d"}, False),
        ({"tpm": mark_of("a")}, {DISKS: "a"}, False),
        ({}, {DISKS: "a"}, False),
        ({"disks": mark_of("a")}, {}, False),
    ],
)
def test_secrets_are_used_if_something_has_their_mark(
    marks: dict[str, str], passphrases: dict[SecretKind, str], used: bool
) -> None:
    assert LibvirtSecrets(lambda _: SecretsInUse(marks=marks)).are_used("i", passphrases) is used
