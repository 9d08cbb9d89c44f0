"""`minova keypair create|list|show|delete`: keys that are installed on servers for the login of their user."""

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import COMPUTE, Client, Json, part
from minova.cli.errors import ApiError, CliError, UsageError
from minova.cli.parser import add_owner, add_paging

KEYPAIRS = f"{COMPUTE}/os-keypairs"
COLUMNS = ("Name", "Fingerprint", "Type")
Shown = tuple[Sequence[str], Iterable[Any]]


class KeypairCreate(ShowOne):
    """Create a key pair, or import a public key."""

    _description = """Create a key pair, or import a public key. Without --public-key a new Ed25519 key is made here: the private key is printed,
or saved in the file that --private-key names, and is not sent to the cloud. A new key of type x509 is made by the cloud."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME", help="letters, digits, spaces, - and _")
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--public-key", metavar="FILE", help="the public key to import")
        group.add_argument(
            "--private-key", metavar="FILE", help="where to save the new private key (default: print it)"
        )
        parser.add_argument("--type", choices=("ssh", "x509"), default="ssh", help="default: ssh")
        add_owner(parser, "user", "whose it is to be (administrators)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        key_pair: Json = {"name": parsed_args.name, "type": parsed_args.type}
        if parsed_args.user:
            key_pair["user_id"] = _user(self.client, parsed_args)
        if parsed_args.public_key:
            key_pair["public_key"] = _read(parsed_args.public_key)
            return self._row_of(_create(self.client, key_pair))
        private_key = None
        if parsed_args.type == "ssh":
            private_key, key_pair["public_key"] = _new_key()
        if parsed_args.private_key is None:
            created_pair = _create(self.client, key_pair)
            self.app.stdout.write(private_key or created_pair["private_key"])
            return (), ()
        return self._row_of(_create_and_save(self.client, key_pair, private_key, Path(parsed_args.private_key)))

    def _row_of(self, key_pair: Json) -> Shown:
        names = ("fingerprint", "name", "type", "user_id")
        return names, [key_pair.get(name) for name in names]

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any) -> int:
        """Prints no table if a private key was printed."""
        return super().produce_output(parsed_args, column_names, data) if column_names else 0


class KeypairList(Lister):
    """List key pairs."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_owner(parser, "user", "of another user (administrators)")
        add_owner(parser, "project", "of all users of this project, by Keystone (administrators)")
        add_paging(parser, "those that come after this one", "NAME")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        if parsed_args.project and (parsed_args.user or parsed_args.marker):
            raise UsageError("--project goes without --user and --marker: it lists the key pairs of several users.")
        key_pairs = islice(chain.from_iterable(self._listings(parsed_args)), parsed_args.limit)
        return COLUMNS, [(each["name"], each["fingerprint"], each.get("type", "ssh")) for each in key_pairs]

    def _listings(self, parsed_args: argparse.Namespace) -> Iterator[Iterator[Json]]:
        """Yields one listing for each user."""
        users: Sequence[str | None] = (_user(self.client, parsed_args),)
        if parsed_args.project:
            users = self.client.users_of(parsed_args.project, parsed_args.project_domain)
        for user in users:
            pages = self.client.pages(
                KEYPAIRS, "keypairs", limit=parsed_args.limit, user_id=user, marker=parsed_args.marker
            )
            yield (each["keypair"] for each in pages)


class KeypairShow(ShowOne):
    """Show a key pair."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--public-key", action="store_true", help="print the public key and nothing else")
        add_owner(parser, "user", "of another user (administrators)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        keypair = self.client.get(_path(parsed_args.name), user_id=_user(self.client, parsed_args))["keypair"]
        if parsed_args.public_key:
            self.app.stdout.write(f"{keypair['public_key'].rstrip()}\n")
            return (), ()
        fields = {
            "created_at": keypair["created_at"],
            "fingerprint": keypair["fingerprint"],
            "id": keypair["id"],
            "is_deleted": keypair["deleted"],
            "name": keypair["name"],
            "type": keypair.get("type", "ssh"),
            "user_id": keypair["user_id"],
        }
        return tuple(fields), [*fields.values()]

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any) -> int:
        """Prints no table if a public key was printed."""
        return super().produce_output(parsed_args, column_names, data) if column_names else 0


class KeypairDelete(Command):
    """Delete key pairs; servers that were created with them keep the public key."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "names", nargs="+", metavar="NAME", help="existing ones are deleted, even if others do not exist"
        )
        add_owner(parser, "user", "of another user (administrators)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        user = _user(self.client, parsed_args)
        failed = []
        for name in dict.fromkeys(parsed_args.names):
            try:
                self.client.delete(_path(name, user))
            except ApiError as error:
                failed.append(f"{name}: {error}")
        if failed:
            raise CliError("\n".join(failed))


def _user(client: Client, parsed_args: argparse.Namespace) -> str | None:
    """Returns the ID of the named user; None for the caller."""
    return client.owner("user", parsed_args.user, parsed_args.user_domain) if parsed_args.user else None


def _path(name: str, user_id: str | None = None) -> str:
    path = f"{KEYPAIRS}/{part(name)}"
    return f"{path}?user_id={part(user_id)}" if user_id else path


def _create(client: Client, key_pair: Json) -> Json:
    return dict(client.post(KEYPAIRS, {"keypair": key_pair})["keypair"])


def _create_and_save(client: Client, key_pair: Json, private_key: str | None, path: Path) -> Json:
    """Creates the file first, readable by its user only: a key that cannot be saved is useless."""
    try:
        handle = os.open(path.expanduser(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise CliError(f"The private key cannot be saved in {path}: {error.strerror}.") from None
    try:
        with os.fdopen(handle, "w") as file:
            created_pair = _create(client, key_pair)
            file.write(private_key or created_pair["private_key"])
    except BaseException:
        with suppress(OSError):
            path.expanduser().unlink()
        raise
    return created_pair


def _read(path: str) -> str:
    try:
        return Path(path).expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise CliError(f"Cannot read the public key {path}: {reason}.") from None


def _new_key() -> tuple[str, str]:
    """Returns a new private key and its public key."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - other commands start faster without
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private.decode(), public.decode()
