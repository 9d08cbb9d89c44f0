"""Images that projects share with each other, by the unchanged client."""

import json
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.integration.keystone.conftest import openstack
from tests.servers.keystone import Keystone


@pytest.mark.nightly("a cloud of its own; tests/security has the sharing of images")
def test_a_project_shares_an_image_and_the_other_accepts_it(keystone: Keystone, cloud: Cluster, tmp_path: Path) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"\1" * 4096)
    alice = keystone.client_environment("alice", "demo")
    admin = keystone.client_environment("admin", "admin")
    image_json, *_, members = openstack(
        alice,
        f"image create common --disk-format raw --file {disk} --shared -f json",
        f"image add project common {keystone.id_of('projects', 'admin')}",
        "image member list common -f json",
    )
    assert [member["Status"] for member in json.loads(members)] == ["pending"]
    image_id = json.loads(image_json)["id"]
    openstack(admin, f"image set --accept {image_id}")
    accepted, *_ = openstack(
        alice,
        "image member list common -f json",
        f"image remove project common {keystone.id_of('projects', 'admin')}",
        "image delete common",
    )
    assert [member["Status"] for member in json.loads(accepted)] == ["accepted"]
