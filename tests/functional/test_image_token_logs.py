"""No log of any service has a token of an image, though all of them write all that they can."""

import base64
import logging
from pathlib import Path

import pytest

from minova.context import service_context
from minova.objects.catalogue.flavor import Flavor
from tests.cluster import Cluster
from tests.functional.test_cloud import People
from tests.waiting import wait_for

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=64, root_gb=0)


def test_no_service_logs_a_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Cluster(tmp_path, ["one"]) as cluster:
        people = People(cluster.url)
        cluster.conductor.create_flavor(service_context(), flavor=FLAVOR)
        image = people.image()
        people.create(FLAVOR, image)
        server = people.ask("GET", "/v2.1/servers")["servers"][0]["id"]
        path = f"/v2.1/servers/{server}"
        wait_for("the server is active", lambda: people.ask("GET", path)["server"]["status"] == "ACTIVE")
        token = cluster.conductor.image_token(service_context(), instance_uuid=server, image_id=image, host="one")
        # Of every token for this image, as it is encoded.
        beginning = base64.urlsafe_b64encode(f'{{"image":"{image}'.encode()).decode()[:40]
        assert token.startswith(beginning)
    assert server in caplog.text
    assert beginning not in caplog.text
