"""A certificate authority of the tests' own, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

# What servers of the tests are called. Their address 127.0.0.1 is another name.
NAMES = "DNS:localhost"


class Certificate(NamedTuple):
    certificate: Path
    key: Path


class Authority:
    """`certificate` is what clients and servers trust. `days`: until all its certificates end."""

    def __init__(self, folder: Path, name: str = "minova-test-ca", days: int = 2) -> None:
        self._days = str(days)
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate, self._key = folder / f"{name}.crt", folder / f"{name}.key"
        _openssl(
            "req",
            "-x509",
            *_NEW_KEY,
            "-days",
            self._days,
            "-subj",
            f"/CN={name}",
            *self._to(self.certificate, self._key),
        )

    def issue(self, name: str, folder: Path, names: str = NAMES, days: int | None = None) -> Certificate:
        """For the common name `name` and for the alternative `names`. `days`: until it ends; negative if it has ended."""
        certificate = Certificate(folder / f"{name}.crt", folder / f"{name}.key")
        request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\n")
        _openssl("req", *_NEW_KEY, "-subj", f"/CN={name}", *self._to(request, certificate.key))
        signing = [
            "-CA",
            str(self.certificate),
            "-CAkey",
            str(self._key),
            "-CAcreateserial",
            "-days",
            self._days if days is None else str(days),
        ]
        more = ["-extfile", str(extensions), "-out", str(certificate.certificate)]
        _openssl("x509", "-req", "-in", str(request), *signing, *more)
        certificate.key.chmod(0o600)
        return certificate

    @staticmethod
    def _to(out: Path, key: Path) -> list[str]:
        return ["-keyout", str(key), "-out", str(out)]


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)
