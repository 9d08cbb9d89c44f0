"""What encrypts a guest's disks and the state of its TPM. The conductor makes it, and gives it to the server's host alone."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

# Of swtpm 0.7: some 10 KiB. libtpms gives a TPM 128 KiB at most; base64 and swtpm's own encryption add a half.
MAX_STATE = 512 * 1024
# Of rebuilds that fail one after the other.
MAX_FORMER = 8


class SecretKind(StrEnum):
    """What a guest has a passphrase for."""

    DISKS = "disks"
    TPM = "tpm"


Passphrase = Annotated[str, Meta(max_length=255)]


class TpmState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a TPM of this version, as its host has encrypted it, in base64. `mark`: of the secret with which it is encrypted
    (`disk_keys.mark_of`); empty: its host does not know.
    """

    version: Annotated[str, Meta(max_length=8)]
    state: Annotated[str, Meta(max_length=MAX_STATE)]
    mark: Annotated[str, Meta(pattern=r"\A[0-9a-f]{0,64}\Z")] = ""

    def __repr__(self) -> str:
        return f"TpmState({self.version}, {len(self.state)} characters)"


class GuestSecrets(msgspec.Struct, frozen=True, kw_only=True):
    """Passphrases, by what they encrypt. `tpm_state`: what the host of a shelved server has kept, until the server is unshelved.

    `former`: those that rebuilds have replaced, until one succeeds; the last one first. What a rebuild has not made anew is encrypted
    with one of them.
    """

    passphrases: dict[SecretKind, Passphrase] = {}
    tpm_state: TpmState | None = None
    former: dict[SecretKind, Annotated[tuple[Passphrase, ...], Meta(max_length=MAX_FORMER)]] = {}

    def __repr__(self) -> str:
        """Without the secrets: it may stand in a log."""
        return f"GuestSecrets({', '.join(sorted(self.passphrases))})"
