"""Secrets of a guest: bounded, and not in logs."""

from typing import Any

import msgspec
import pytest

from minova.objects.guests.guest_metadata import LONGEST_PASSWORD
from minova.objects.guests.guest_secrets import GuestSecrets, SecretKind, TpmState


@pytest.mark.parametrize(
    ("of", "good", "bad"),
    [
        (TpmState, {"version": "v" * 8, "state": "s" * 524288, "mark": "a" * 64}, {"version": "v" * 9, "state": "s"}),
        (TpmState, {"version": "", "state": ""}, {"version": "2.0", "state": "s" * 524289}),
        (TpmState, {"version": "", "state": "", "mark": ""}, {"version": "", "state": "", "mark": "a" * 65}),
        (GuestSecrets, {"former": {"tpm": ["p"] * 8}}, {"former": {"tpm": ["p"] * 9}}),
        (GuestSecrets, {"passphrases": {"disks": "p" * 255}}, {"passphrases": {"disks": "p" * 256}}),
    ],
)
def test_bounds(of: Any, good: dict[str, Any], bad: dict[str, Any]) -> None:
    msgspec.convert(good, of)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(bad, of)


def test_no_secret_stands_in_a_log() -> None:
    secrets = GuestSecrets(passphrases={SecretKind.TPM: "hidden", SecretKind.DISKS: "hidden"})
    assert repr(secrets) == "GuestSecrets(disks, tpm)"
    assert repr(TpmState(version="2.0", state="hidden")) == "TpmState(2.0, 6 characters)"


def test_a_password_is_as_long_as_in_nova() -> None:
    assert LONGEST_PASSWORD == 1020
