"""A real Glance keeps the images: the unchanged client finds both services in the catalog, and servers boot from Glance's images."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from minova.api.image.storage import recovery
from minova.db.api_queries.images import of_service as images_of
from tests.cluster import Cluster
from tests.integration.keystone.conftest import openstack
from tests.servers.glance import Glance
from tests.servers.keystone import PASSWORD, Keystone, of_project
from tests.waiting import wait_for

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


@pytest.mark.nightly(
    "an image of a guest boots each day in test_server_images, and the other tests here write to Glance"
)
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
    recovery.Recovery(region.api._app.images).recover()
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


class Client:
    """Requests of one user to the Compute API."""

    def __init__(self, url: str, token: str) -> None:
        self._url = f"{url}/v2.1"
        self._headers = {"X-Auth-Token": token}

    def __call__(self, method: str, path: str, body: Any = None, version: str = "2.1") -> tuple[int, Any]:
        headers = self._headers | {"OpenStack-API-Version": f"compute {version}"}
        answer = urllib3.request(method, self._url + path, json=body, headers=headers, retries=False, timeout=60)
        return answer.status, answer.json() if answer.data else None

    def get(self, path: str) -> Any:
        status, answer = self("GET", path)
        assert status == 200, answer
        return answer


def test_the_proxies_of_compute_read_and_change_images_of_glance(
    run: Callable[..., list[Any]], keystone: Keystone, region: Cluster, disk: Path
) -> None:
    image, *_ = run(
        f"image create old --private --min-ram 64 --disk-format raw --container-format bare --file {disk} --property os_distro=debian -f json",
        "image create queued --private --disk-format raw --container-format bare -f json",
        f"image create foreign --shared --disk-format raw --container-format bare --file {disk}",
    )
    uuid = image["id"]
    alice = Client(region.url, keystone.token("alice", scope=of_project("demo")))
    rita = Client(region.url, keystone.token("rita", scope=of_project("demo")))
    shown = alice.get(f"/images/{uuid}")["image"]
    assert (shown["name"], shown["status"], shown["minRam"], shown["progress"]) == ("old", "ACTIVE", 64, 100)
    assert (shown["metadata"]["os_distro"], shown["OS-EXT-IMG-SIZE:size"]) == ("debian", 4096)
    assert shown["created"] == image["created_at"]
    named = alice.get("/images/detail?name=queued")["images"]
    assert [(each["name"], each["status"], each["progress"]) for each in named] == [("queued", "SAVING", 25)]
    for query in ("name=old", "minRam=64", "status=ACTIVE&property-os_distro=debian", "type=snapshot"):
        image_ids = [each["id"] for each in alice.get(f"/images?{query}")["images"]]
        assert image_ids == ([] if "snapshot" in query else [uuid]), query
    page = alice.get("/images?limit=1")
    assert len(page["images"]) == 1
    (following,) = [link["href"] for link in page["images_links"] if link["rel"] == "next"]
    assert alice.get(following.partition("/v2.1")[2])["images"] != page["images"]
    metadata = f"/images/{uuid}/metadata"
    assert alice("PUT", metadata, {"metadata": {"a": "1", "b": "2"}}) == (200, {"metadata": {"a": "1", "b": "2"}})
    assert alice("POST", metadata, {"metadata": {"b": "3"}})[1] == {"metadata": {"a": "1", "b": "3"}}
    assert alice("PUT", f"{metadata}/a", {"meta": {"a": "4"}}) == (200, {"meta": {"a": "4"}})
    assert alice("DELETE", f"{metadata}/b") == (204, None)
    assert alice.get(metadata) == {"metadata": {"a": "4"}}
    assert alice("GET", f"{metadata}/b")[0] == 404
    # Roles are Glance's: a reader changes nothing.
    assert rita("PUT", f"{metadata}/a", {"meta": {"a": "5"}})[0] == 403
    assert rita("DELETE", f"/images/{uuid}")[0] == 403
    assert run("image show old -f json")[0]["properties"]["a"] == "4"
    assert alice("DELETE", f"/images/{uuid}") == (204, None)
    assert alice("GET", f"/images/{uuid}")[0] == alice("DELETE", f"/images/{uuid}")[0] == 404
    assert [each["Name"] for each in run("image list --private -f json")[0]] == ["queued"]
    run("image delete queued foreign")


def test_what_glance_says_of_an_image_is_kept(
    run: Callable[..., list[Any]], keystone: Keystone, region: Cluster, disk: Path, flavor: str
) -> None:
    """A member boots a shared image. One that is deactivated, needs more memory, or has no bytes boots nothing."""
    # Users may not look the names of projects up.
    other = keystone.id_of("projects", "other")
    *ids, _, _, flavors = run(
        f"image create shared --shared --disk-format raw --container-format bare --file {disk} -f value -c id",
        f"image create off --shared --disk-format raw --container-format bare --file {disk} -f value -c id",
        f"image create large --min-ram 4096 --disk-format raw --container-format bare --file {disk} -f value -c id",
        "image create empty --disk-format raw --container-format bare -f value -c id",
        f"image add project shared {other}",
        "image set off --deactivate",
        f"flavor show {flavor} -f value -c id",
    )
    shared, off, large, empty = (uuid.strip() for uuid in ids)
    alice = Client(region.url, keystone.token("alice", scope=of_project("demo")))
    otto = Client(region.url, keystone.token("otto", scope=of_project("other")))

    def boot(user: Client, image: str) -> tuple[int, str]:
        server = {"name": "member", "flavorRef": flavors.strip(), "imageRef": image, "networks": "none"}
        status, answer = user("POST", "/servers", {"server": server}, version="2.37")
        return status, str(answer)

    status, answer = boot(otto, shared)
    assert status == 202, answer
    booted = otto.get("/servers")["servers"][0]["id"]
    wait_for("the member's server", lambda: otto.get(f"/servers/{booted}")["server"]["status"] == "ACTIVE")
    assert otto("DELETE", f"/servers/{booted}")[0] == 204
    for user, image, refusal in (
        (otto, off, "Can not find requested image"),
        (alice, large, "min_ram 4096 MB > memory 128 MB"),
        (alice, empty, "is not active"),
        (alice, off, "is not active"),
    ):
        status, answer = boot(user, image)
        assert (status, refusal in answer) == (400, True), answer
    assert alice.get("/servers")["servers"] == []
    run("image delete shared off large empty")
    wait_for("the end of the member's server", lambda: otto("GET", f"/servers/{booted}")[0] == 404)
