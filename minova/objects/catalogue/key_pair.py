"""Nova's key pair: a public key that is installed on a user's servers. Only the user has the private key."""

from datetime import datetime

import msgspec

SSH = "ssh"
X509 = "x509"


class KeyPair(msgspec.Struct, frozen=True, kw_only=True):
    """`public_key`: a line of authorized_keys, or a certificate in PEM. `id` 0: not stored yet."""

    name: str
    user_id: str
    public_key: str
    type: str = SSH
    fingerprint: str = ""
    id: int = 0
    created_at: datetime | None = None
