"""Secrets are encrypted for their row alone, with keys that can be replaced."""

import base64
import secrets
from pathlib import Path

import pytest

from minova.conductor.tokens.sealing import Sealing, new_passphrase
from minova.errors import Conflict, InvalidConfiguration, SecretsNotConfigured

ONE, TWO = "5f6bbd5a-1f8a-4b5f-8f57-6a1c3a3b9d01", "5f6bbd5a-1f8a-4b5f-8f57-6a1c3a3b9d02"


def key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def test_a_value_is_read_from_its_own_row_alone() -> None:
    sealing, value = Sealing([key()]), new_passphrase()
    sealed = sealing.seal(ONE, "disks", value)
    assert value not in sealed
    assert sealed != sealing.seal(ONE, "disks", value)
    assert sealing.unseal(ONE, "disks", sealed) == value
    for wrong in (
        (TWO, "disks", sealed),
        (ONE, "tpm", sealed),
        (ONE, "disks", sealed[:-4]),
        (ONE, "disks", sealed + "!"),
    ):
        with pytest.raises(Conflict, match="not those of its row"):
            sealing.unseal(*wrong)


def test_keys_are_replaced_one_after_the_other() -> None:
    old, new = key(), key()
    sealed = Sealing([old]).seal(ONE, "disks", "secret")
    both = Sealing([new, old])
    assert both.unseal(ONE, "disks", sealed) == "secret"
    with pytest.raises(SecretsNotConfigured, match="which is not in"):
        Sealing([old]).unseal(ONE, "disks", both.seal(ONE, "disks", "secret"))


def test_without_a_key_nothing_is_kept() -> None:
    sealing = Sealing.of_file(None)
    assert not sealing
    with pytest.raises(SecretsNotConfigured, match="key_file"):
        sealing.seal(ONE, "disks", "secret")


@pytest.mark.parametrize("content", ["", "# no key\n", "c2hvcnQ=\n", "not base64 at all, is it?\n"])
def test_a_file_without_keys_ends_the_start(tmp_path: Path, content: str) -> None:
    file = tmp_path / "keys"
    file.write_text(content)
    with pytest.raises(InvalidConfiguration, match=r"key_file = .*keys: ") as caught:
        Sealing.of_file(str(file))
    assert content.strip() not in str(caught.value) or not content.strip()
    with pytest.raises(InvalidConfiguration, match="No such file"):
        Sealing.of_file(str(tmp_path / "missing"))


def test_a_file_with_a_key(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# of 2026\n{key()}\n")
    assert Sealing.of_file(str(file))
