"""A real Glance keeps the images: the unchanged client finds both services in the catalog, and servers boot from Glance's images."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from minova.api.image import recovery
from minova.db.api_queries.images import of_service as images_of
from tests.cluster import Cluster
from tests.integration.keystone.conftest import openstack
from tests.servers.glance import Glance
from tests.servers.keystone import PASSWORD, Keystone

# The other tests' cloud is in another region of the same Keystone.
REGION = "GlanceRegion"
OPTIONS = """
[glance]
backend = glance
region_name = {region}
[service_user]
auth_type = password
auth_url = {url}
username = admin
password = {password}
user_domain_name = Default
project_name = admin
project_domain_name = Default
"""


@pytest.fixture(scope="module")
def glance(keystone: Keystone, cloud: Cluster) -> Iterator[Glance]:
    """`cloud` first: its services are found by their types, of which there are two each from here on."""
    with Glance(keystone) as server:
        keystone.call("POST", "/regions", {"region": {"id": REGION}})
        publish(keystone, "identity", keystone.url)
        publish(keystone, "image", server.url)
        yield server


@pytest.fixture(scope="module")
def region(
    keystone: Keystone,
    keystone_options: str,
    glance: Glance,
    tmp_path_factory: pytest.TempPathFactory,
    fresh_rabbit_url: Callable[[], str],
) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("glance")
    file = folder / "glance.conf"
    file.write_text(OPTIONS.format(region=REGION, url=keystone.url, password=PASSWORD))
    files = [keystone_options, str(file)]
    with Cluster(folder / "cloud", ["g1"], transport_url=fresh_rabbit_url(), files=files) as cluster:
        publish(keystone, "compute", f"{cluster.url}/v2.1")
        yield cluster


def publish(keystone: Keystone, kind: str, url: str) -> None:
    service = keystone.call("POST", "/services", {"service": {"type": kind, "name": f"{kind}-of-{REGION}"}})["service"]
    endpoint = {"interface": "public", "url": url, "region_id": REGION, "service_id": service["id"]}
    keystone.call("POST", "/endpoints", {"endpoint": endpoint})


@pytest.fixture(scope="module")
def run(keystone: Keystone, region: Cluster) -> Callable[..., list[Any]]:
    """Answers of commands of alice, or of another user."""

    def run(*commands: str, user: str = "alice", project: str = "demo") -> list[Any]:
        environment = {**keystone.client_environment(user, project), "OS_REGION_NAME": REGION}
        answers = openstack(environment, *commands)
        return [json.loads(text) if text.startswith(("[", "{")) else text for text in answers]

    return run


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("disk") / "disk.raw"
    file.write_bytes(bytes(range(256)) * 16)
    return file


@pytest.fixture(scope="module")
def flavor(run: Callable[..., list[Any]]) -> str:
    run("flavor create glance-tiny --ram 128 --disk 1", user="admin", project="admin")
    return "glance-tiny"


def test_a_server_boots_from_an_image_of_glance(run: Callable[..., list[Any]], disk: Path, flavor: str) -> None:
    image, server, shown, *_ = run(
        f"image create guest --private --disk-format raw --container-format bare --file {disk} -f json",
        f"server create vm --flavor {flavor} --image guest --nic none --wait -f json",
        "server show vm -f json",
        "server delete vm --wait",
        "image delete guest",
    )
    assert (image["status"], image["properties"]["os_hash_algo"]) == ("active", "sha512")
    assert server["status"] == "ACTIVE"
    assert image["id"] in str(shown["image"])


def test_a_snapshot_goes_to_glance_and_boots(
    run: Callable[..., list[Any]], region: Cluster, disk: Path, flavor: str
) -> None:
    """The fake driver's snapshots have no qcow2 in them that a real host could read; that they come whole is what counts here."""
    *_, shot, images = run(
        f"image create base --disk-format raw --container-format bare --file {disk} --property os_distro=debian",
        f"server create shelved --flavor {flavor} --image base --nic none --wait",
        "server image create shelved --name shot --wait",
        "image show shot -f json",
        "image list --status active -f json",
    )
    assert (shot["status"], shot["visibility"], shot["properties"]["os_distro"]) == ("active", "private", "debian")
    assert shot["properties"]["image_type"] == "snapshot"
    assert {"base", "shot"} <= {image["Name"] for image in images}
    # What is kept of a shelved server, and goes with it.
    run("server shelve shelved --wait")
    (shelved,) = run("image list --name shelved-shelved -f json")
    assert [image["Status"] for image in shelved] == ["active"]
    run("server unshelve shelved --wait")
    # The conductor has written down that it is to be deleted. minova-api looks once a minute, and here now.
    recovery.recover(region.api._app.images)
    assert run("image list --name shelved-shelved -f json") == [[]]
    with region.db.read() as session:
        (record,) = images_of(session, "glance")
    assert (record.name, record.status) == ("shot", "active")
    run("server delete shelved --wait", "image delete shot", "image delete base")


def test_images_of_other_projects_are_unknown(run: Callable[..., list[Any]], disk: Path, flavor: str) -> None:
    image, *_ = run(
        f"image create hidden --private --disk-format raw --container-format bare --file {disk} -f json",
        user="admin",
        project="admin",
    )
    for refused in (image["id"], "8d3e7b02-5d3c-4f3c-a0e8-1d5f8f6b2f00"):
        with pytest.raises(AssertionError, match=r"Can not find requested image|No Image found"):
            run(f"server create vm --flavor {flavor} --image {refused} --nic none")
    run(f"image delete {image['id']}", user="admin", project="admin")
