"""`minova keypair`, against minova-api itself."""

import stat
import subprocess
from pathlib import Path

import pytest

from tests.functional.api.conftest import Cloud
from tests.functional.cli.conftest import Cli, json_output, succeed
from tests.unit.api.compute.test_public_keys import ED25519, KNOWN

JSON = ("-f", "json")


@pytest.fixture
def public_key(tmp_path: Path) -> Path:
    file = tmp_path / "id.pub"
    file.write_text(f"{ED25519} a@b\n")
    return file


def test_a_key_is_imported_listed_shown_and_deleted(minova: Cli, public_key: Path) -> None:
    created = json_output(minova("keypair", "create", "mine", "--public-key", str(public_key), *JSON))
    assert created == {"fingerprint": KNOWN[ED25519], "name": "mine", "type": "ssh", "user_id": "admin"}
    (row,) = json_output(minova("keypair", "list", *JSON))
    assert row == {"Name": "mine", "Fingerprint": KNOWN[ED25519], "Type": "ssh"}
    shown = json_output(minova("keypair", "show", "mine", *JSON))
    assert shown == {**created, "created_at": shown["created_at"], "id": shown["id"], "is_deleted": False}
    assert minova("keypair", "show", "mine", "--public-key").out == f"{ED25519} a@b\n"
    succeed(minova("keypair", "delete", "mine"))
    assert json_output(minova("keypair", "list", *JSON)) == []


def test_a_new_private_key_is_printed_and_its_public_half_sent(minova: Cli, cloud: Cloud) -> None:
    private = succeed(minova("keypair", "create", "new")).out
    assert private.startswith("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert private.endswith("-----END OPENSSH PRIVATE KEY-----\n")
    assert cloud.get("/v2.1/os-keypairs/new")["keypair"]["public_key"].startswith("ssh-ed25519 ")


def test_a_new_private_key_is_saved_for_its_user_alone(minova: Cli, tmp_path: Path) -> None:
    file = tmp_path / "id"
    created = json_output(minova("keypair", "create", "new", "--private-key", str(file), *JSON))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    command = ["ssh-keygen", "-l", "-E", "md5", "-f", str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.split()[1] == f"MD5:{created['fingerprint']}"
    again = minova("keypair", "create", "other", "--private-key", str(file))
    assert (again.code, "File exists" in again.err) == (1, True)
    assert [row["Name"] for row in json_output(minova("keypair", "list", *JSON))] == ["new"]


def test_a_file_is_not_left_when_the_key_pair_cannot_be_made(minova: Cli, tmp_path: Path, public_key: Path) -> None:
    succeed(minova("keypair", "create", "mine", "--public-key", str(public_key)))
    file = tmp_path / "id"
    result = minova("keypair", "create", "mine", "--private-key", str(file))
    assert (result.code, "Key pair 'mine' already exists." in result.err) == (1, True)
    assert not file.exists()


def test_a_certificate_is_made_by_the_cloud(minova: Cli) -> None:
    assert succeed(minova("keypair", "create", "win", "--type", "x509")).out.startswith("-----BEGIN PRIVATE KEY-----\n")
    assert minova("keypair", "show", "win", "--public-key").out.startswith("-----BEGIN CERTIFICATE-----\n")
    assert json_output(minova("keypair", "list", *JSON))[0]["Type"] == "x509"


def test_of_several_that_are_deleted_each_that_there_is_goes(minova: Cli, public_key: Path) -> None:
    for name in "abc":
        succeed(minova("keypair", "create", name, "--public-key", str(public_key)))
    result = minova("keypair", "delete", "a", "x", "b")
    assert (result.code, "x: Keypair x not found for user admin" in result.err) == (1, True)
    assert [row["Name"] for row in json_output(minova("keypair", "list", *JSON))] == ["c"]


def test_administrators_name_another_user(minova: Cli, public_key: Path) -> None:
    alice = ("--user", "alice")
    succeed(minova("keypair", "create", "hers", "--public-key", str(public_key), *alice))
    assert json_output(minova("keypair", "list", *JSON)) == []
    assert json_output(minova("keypair", "show", "hers", *alice, *JSON))["user_id"] == "alice"
    assert [row["Name"] for row in json_output(minova("keypair", "list", *alice, *JSON))] == ["hers"]
    succeed(minova("keypair", "delete", "hers", *alice))


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("create", "a/b"), 1, "unsafe characters"),
        (("create", "a", "--public-key", "/nowhere"), 1, "Cannot read the public key /nowhere"),
        (("create", "a", "--public-key", "x", "--private-key", "y"), 2, "not allowed with"),
        (("create", "a", "--private-key", "/nowhere/id"), 1, "cannot be saved in /nowhere/id"),
        (("show", "a"), 1, "Keypair a not found for user admin"),
        (("list", "--marker", "a"), 1, "Marker a could not be found"),
    ],
)
def test_what_cannot_be(minova: Cli, words: tuple[str, ...], code: int, message: str) -> None:
    result = minova("keypair", *words)
    assert (result.code, message in result.err) == (code, True), result.err
