"""Encrypts the secrets of guests for the database (AES-256-GCM).

    KEY ID : base64(nonce, ciphertext, tag)

The instance and the kind are authenticated with each value: a value that is copied into the row of another server does not decrypt.
"""

import base64
import binascii
import hashlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from minova.errors import Conflict, InvalidConfiguration, SecretsNotConfigured

_KEY_BYTES, _NONCE_BYTES = 32, 12
# A sealed value begins with the ID of its key.
KEY_ID_LENGTH = 8


def new_passphrase() -> str:
    """Returns 256 random bits as printable text: QEMU and swtpm read it from a file or a libvirt secret."""
    return secrets.token_hex(32)


class Sealing:
    """`keys`: lines of the file; the first encrypts. Without keys, `seal` and `unseal` raise SecretsNotConfigured."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        decoded = [_decoded(line) for line in keys]
        self._by_id = {_id_of(key): AESGCM(key) for key in decoded}

    @classmethod
    def of_file(cls, path: str | None) -> "Sealing":
        """Raises InvalidConfiguration if the file cannot be read or holds no keys. `path` None: no keys."""
        if not path:
            return cls()
        option = f"[guest_secrets] key_file = {path}"
        try:
            lines = [line.strip() for line in Path(path).read_text().splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidConfiguration(f"{option}: {getattr(error, 'strerror', None) or error}") from error
        keys = [line for line in lines if line and not line.startswith("#")]
        if not keys:
            raise InvalidConfiguration(f"{option}: there is no key in it; `openssl rand -base64 32` prints one")
        try:
            return cls(keys)
        except ValueError:
            # Not the text of the error: it may quote the key.
            raise InvalidConfiguration(f"{option}: a line is not a key of {_KEY_BYTES} bytes in base64") from None

    def __bool__(self) -> bool:
        """Whether there is a key."""
        return bool(self._by_id)

    @property
    def key_ids(self) -> frozenset[str]:
        return frozenset(self._by_id)

    @property
    def shown_ids(self) -> str:
        """The IDs for comparison with those of other conductors. They tell nothing about the keys."""
        return ",".join(sorted(self._by_id))[:255]

    def seal(self, instance_uuid: str, kind: str, value: str) -> str:
        if not self._by_id:
            raise SecretsNotConfigured("The conductor has no key for secrets of guests: [guest_secrets] key_file")
        key_id, cipher = next(iter(self._by_id.items()))
        nonce = os.urandom(_NONCE_BYTES)
        sealed = cipher.encrypt(nonce, value.encode(), _bound_to(instance_uuid, kind))
        return f"{key_id}:{base64.b64encode(nonce + sealed).decode()}"

    def unseal(self, instance_uuid: str, kind: str, text: str) -> str:
        """Raises SecretsNotConfigured if the key is not in the file, Conflict if the value is another row's or was changed."""
        key_id, _, encoded = text.partition(":")
        cipher = self._by_id.get(key_id)
        if cipher is None:
            raise SecretsNotConfigured(
                f"The secrets of instance {instance_uuid} are encrypted with key {key_id}, which is not in [guest_secrets] key_file"
            )
        try:
            raw = base64.b64decode(encoded, validate=True)
            return cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _bound_to(instance_uuid, kind)).decode()
        except (InvalidTag, ValueError):
            raise Conflict(
                f"The secrets of instance {instance_uuid} in the database are not those of its row"
            ) from None


def _decoded(line: str) -> bytes:
    try:
        key = base64.b64decode(line, validate=True)
    except binascii.Error as error:
        raise ValueError("no base64") from error
    if len(key) != _KEY_BYTES:
        raise ValueError("another length")
    return key


def _id_of(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:KEY_ID_LENGTH]


def _bound_to(instance_uuid: str, kind: str) -> bytes:
    return f"{instance_uuid} {kind}".encode()
