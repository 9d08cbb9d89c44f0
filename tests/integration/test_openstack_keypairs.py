"""`openstack keypair`, the ordinary client, against minova-api."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.api.server import ApiService
from tests.functional.api.conftest import Cloud
from tests.unit.api.compute.test_public_keys import ED25519, KNOWN


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    cloud = Cloud(tmp_path, osapi_compute_listen_port=0)
    service = ApiService(cloud.conf, cloud.app)
    service.start()
    yield f"http://127.0.0.1:{service.port}/v2.1"
    service.stop()
    cloud.close()


def test_openstacks_client_imports_makes_shows_and_deletes_keys(url: str, tmp_path: Path) -> None:
    file = tmp_path / "id.pub"
    file.write_text(f"{ED25519} a@b\n")
    login = ["--os-identity-api-version", "3", "--os-auth-type", "none", "--os-endpoint", url]
    commands = [
        ["create", "mine", "--public-key", str(file), "-f", "json"],
        ["create", "new"],
        ["list", "-f", "value", "-c", "Name"],
        ["show", "mine", "--public-key"],
        ["create", "mine", "--public-key", str(file)],
        ["delete", "mine", "new"],
        ["list", "-f", "value"],
    ]
    module = "tests.openstack_commands"
    given = json.dumps([[*login, "keypair", *words] for words in commands])
    done = subprocess.run([sys.executable, "-m", module], input=given, capture_output=True, text=True, timeout=300)
    imported, created, listed, shown, again, deleted, left = json.loads(done.stdout)
    assert imported[0] == 0, imported
    assert json.loads(imported[1])["fingerprint"] == KNOWN[ED25519]
    assert created[1].startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    assert listed[1].split() == ["mine", "new"]
    assert shown[1].strip() == f"{ED25519} a@b"
    assert (again[0], "Key pair 'mine' already exists." in again[2]) == (1, True)
    assert (deleted[0], left[1].strip()) == (0, "")
