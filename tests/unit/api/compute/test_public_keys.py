"""Public keys: what is valid, fingerprints, and new ones."""

import base64
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from minova import errors
from minova.api.compute.keypairs.public_keys import LONGEST, fingerprint, generate

# Made by ssh-keygen, with the fingerprints that `ssh-keygen -l -E md5` prints.
KNOWN = {
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJLtrHm4fqOCnWXY7oawaplY1O17aR4pe9DBoosOaJmz": "d4:d0:f1:55:56:51:d0:7a:14:63:f0:45:1e:ce:dc:e5",
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEsfJxAMJPOSnZwA148yoKct7Gob3HkOOPl1ZwesEVzlHTiZAivHif05694qwad8i5ThU01IYtGuBGbpDWlViKI=": "46:9d:28:04:70:3a:23:67:4d:21:aa:fb:fc:33:f2:3f",
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQDGC5kHU5A0C6xagveq/ZwVlTOl9S2kpXAqtcK9cKS2iImqPV+ZLOuWn8wcfPCO+MJ1WLlAxGaixYwsKW1RzQEOUHvNcY+sMLsudUG5pmtccNR2yeLKz6iFWzINwZJXv/j81frwPrIzH1TIVnBmgx45gevrNjxXZ9zB/omwo4FlCl/Zx3cWksdO40YESL7dOb7S4SyZ+1padAwVqlveBCqohXlMEO+XCWgPJztDCDOgzoP5wbX092xtTXCO33ieCSIckpE0gUJgOel1C1MrqWa7RUZ7FspYzKhWbymTXbQn/CLVcxCEkoWUw9nZUK1WpQVR065Tzpn3kupfyAB/VNe7": "92:07:f0:04:3d:fb:1f:f1:18:01:4f:3c:10:04:67:7d",
}
ED25519 = next(iter(KNOWN))


@pytest.mark.parametrize(("public_key", "expected"), KNOWN.items(), ids=["ed25519", "ecdsa", "rsa"])
def test_an_ssh_key_has_the_fingerprint_that_openssh_prints(public_key: str, expected: str) -> None:
    assert fingerprint("ssh", public_key) == expected
    assert fingerprint("ssh", public_key + " a comment of words") == expected


@pytest.mark.parametrize(
    "public_key",
    [
        "",
        "ssh-ed25519",
        "ssh-ed25519 AAAA",
        "ssh-ed25519 not/base64!",
        ED25519[:-9],
        ED25519.replace("ssh-ed25519", "ssh-rsa", 1),
        "ssh-magic " + ED25519.split()[1],
        ED25519 + "\nssh-ed25519 AAAA",
        ED25519 + "\x00",
        "ssh-ed25519 " + "A" * LONGEST,
        "-----BEGIN PUBLIC KEY-----",
        "clé",
    ],
)
def test_what_is_no_ssh_key_is_refused_in_novas_words(public_key: str) -> None:
    with pytest.raises(errors.BadRequest, match=r"^Keypair data is invalid: "):
        fingerprint("ssh", public_key)


def test_a_dsa_key_is_refused() -> None:
    blob = b"".join(len(part).to_bytes(4) + part for part in (b"ssh-dss", *[b"\x00\x83"] * 4))
    with pytest.raises(errors.BadRequest, match="failed to generate fingerprint"):
        fingerprint("ssh", "ssh-dss " + base64.b64encode(blob).decode())


def test_a_generated_ssh_key_fits_its_public_half(tmp_path: Path) -> None:
    new = generate("ssh", "alice")
    private = serialization.load_pem_private_key(new.private_key.encode(), None)
    assert isinstance(private, rsa.RSAPrivateKey)
    assert private.key_size == 2048
    assert new.private_key.startswith("-----BEGIN RSA PRIVATE KEY-----")  # as Nova's
    file = tmp_path / "key"
    file.touch(0o600)
    file.write_text(new.private_key)
    done = subprocess.run(["ssh-keygen", "-y", "-f", file], capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == new.public_key.split()[:2]
    (tmp_path / "key.pub").write_text(new.public_key)
    listed = ["ssh-keygen", "-l", "-E", "md5", "-f", str(tmp_path / "key.pub")]
    said = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    assert said.split()[1] == f"MD5:{fingerprint('ssh', new.public_key)}"


@pytest.mark.parametrize("user_id", ["alice", "u" * 255, "clé"])
def test_a_generated_certificate_lets_its_user_in(user_id: str) -> None:
    new = generate("x509", user_id)
    certificate = x509.load_pem_x509_certificate(new.public_key.encode())
    private = serialization.load_pem_private_key(new.private_key.encode(), None)
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert certificate.public_key().public_bytes(*form) == private.public_key().public_bytes(*form)
    (subject,) = certificate.subject
    assert subject.value == user_id[:64]
    (usage,) = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert usage == x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH
    (other,) = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert isinstance(other, x509.OtherName)
    assert other.value.endswith(f"{user_id}@localhost".encode())
    assert fingerprint("x509", new.public_key) == certificate.fingerprint(hashes.SHA1()).hex(":")


def test_a_certificate_has_the_fingerprint_that_openssl_prints(tmp_path: Path) -> None:
    file = tmp_path / "certificate"
    text = generate("x509", "alice").public_key
    file.write_text(text)
    shown = subprocess.run(
        ["openssl", "x509", "-in", file, "-noout", "-fingerprint", "-sha1"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip().partition("=")[2].lower() == fingerprint("x509", text)


@pytest.mark.parametrize("text", ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ED25519])
def test_what_is_no_certificate_is_refused_in_novas_words(text: str) -> None:
    with pytest.raises(errors.BadRequest, match=r"failed to generate X509 fingerprint. Error message: "):
        fingerprint("x509", text)


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_each_curve_of_openssh_is_served(curve: ec.EllipticCurve) -> None:
    key = ec.generate_private_key(curve).public_key()
    form = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert len(fingerprint("ssh", key.public_bytes(*form).decode())) == 47
    assert len(fingerprint("ssh", ed25519.Ed25519PrivateKey.generate().public_key().public_bytes(*form).decode())) == 47
