"""Public keys: their validation, their fingerprints, and new keys. A private key leaves this service only in the
answer.
"""

import base64
import binascii
import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from minova import errors
from minova.objects.catalogue.key_pair import SSH, X509

LONGEST = 65535
# Nova's values, for generated keys and for certificates.
BITS = 2048
VALID_FOR = timedelta(days=3650)
COMMENT = "Generated-by-Nova"
_EXPONENT = 65537
# The limit of a common name in the subject of a certificate.
_LONGEST_COMMON_NAME = 64
# The subject alternative name by which Windows finds the user of a certificate.
_USER_PRINCIPAL_NAME = ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")
# A tab may stand between the parts of a line, as for sshd.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_SSH_KEYS = (rsa.RSAPublicKey, ec.EllipticCurvePublicKey, ed25519.Ed25519PublicKey)


class NewKey(NamedTuple):
    """`private_key` in PEM; `public_key` as a line of authorized_keys, or in PEM."""

    private_key: str
    public_key: str


def fingerprint(kind: str, public_key: str) -> str:
    """Returns the MD5 of an SSH key or the SHA-1 of a certificate, in pairs of digits, in the format of Nova and
    `ssh-keygen -E md5`.

    Raises BadRequest if `public_key` is not such a key.
    """
    if len(public_key) > LONGEST:
        raise invalid(f"public_key is longer than {LONGEST} characters")
    digest = _certificate_digest(public_key) if kind == X509 else _ssh_digest(public_key)
    return digest.hex(":")


def generate(kind: str, user_id: str) -> NewKey:
    key = rsa.generate_private_key(public_exponent=_EXPONENT, key_size=BITS)
    if kind == SSH:
        form, public = serialization.PrivateFormat.TraditionalOpenSSL, _ssh_line(key.public_key())
    else:
        form, public = serialization.PrivateFormat.PKCS8, _certificate(key, user_id)
    private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return NewKey(private.decode(), public)


def invalid(reason: str) -> errors.BadRequest:
    """Returns the error with Nova's text."""
    return errors.BadRequest(f"Keypair data is invalid: {reason}")


def _ssh_digest(public_key: str) -> bytes:
    if _CONTROL.search(public_key):
        raise invalid("failed to generate fingerprint: an SSH public key is one line")
    try:
        key = serialization.load_ssh_public_key(public_key.encode())
        blob = base64.b64decode(public_key.split()[1], validate=True)
    except (ValueError, IndexError, UnsupportedAlgorithm, binascii.Error):
        raise invalid("failed to generate fingerprint") from None
    if not isinstance(key, _SSH_KEYS):
        raise invalid("failed to generate fingerprint: served are RSA, ECDSA and Ed25519")
    return hashlib.md5(blob, usedforsecurity=False).digest()


def _certificate_digest(public_key: str) -> bytes:
    try:
        certificate = x509.load_pem_x509_certificate(public_key.encode())
        return certificate.fingerprint(hashes.SHA1())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise invalid(f"failed to generate X509 fingerprint. Error message: {error}") from None


def _ssh_line(key: rsa.RSAPublicKey) -> str:
    line = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{line.decode()} {COMMENT}"


def _certificate(key: rsa.RSAPrivateKey, user_id: str) -> str:
    """Returns a self-signed certificate, with which WinRM lets the user in."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user_id[:_LONGEST_COMMON_NAME])])
    now = datetime.now(UTC)
    other_name = x509.OtherName(_USER_PRINCIPAL_NAME, _utf8_string(f"{user_id}@localhost"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + VALID_FOR)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([other_name]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _utf8_string(text: str) -> bytes:
    """Returns the text as a UTF-8 string in DER, as the library requires here."""
    data = text.encode()
    length = bytes([len(data)]) if len(data) < 0x80 else b"\x82" + len(data).to_bytes(2)
    return b"\x0c" + length + data
