"""The key under which conductors keep the secrets of guests: of their encrypted disks and TPMs."""

from oslo_config import cfg

GROUP = "guest_secrets"

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "key_file",
        help="A file with the keys that encrypt the secrets of guests in the database, one a line, as `openssl rand -base64 32` "
        "prints them. The first encrypts, each decrypts. All conductors need the same keys. Unset: hosts offer neither encrypted disks "
        "nor TPMs.",
    ),
]
