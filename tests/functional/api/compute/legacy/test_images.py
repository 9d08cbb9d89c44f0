"""`/images` of Compute until 2.35, and their metadata until 2.38."""

import pytest

from tests.functional.api.conftest import Cloud, at

IMAGES = "/v2.1/images"


def test_an_image_is_shown_in_novas_words(cloud: Cloud) -> None:
    image = cloud.make_image("guest", min_disk=2, min_ram=64, os_distro="debian", auto_disk_config="True")
    shown = cloud.get(f"{IMAGES}/{image['id']}")["image"]
    links = {link["rel"]: link["href"] for link in shown.pop("links")}
    assert links == {
        "self": f"http://localhost/v2.1/images/{image['id']}",
        "bookmark": f"http://localhost/images/{image['id']}",
        "alternate": f"http://localhost/v2/images/{image['id']}",
    }
    assert shown == {
        "id": image["id"],
        "name": "guest",
        "status": "ACTIVE",
        "progress": 100,
        "minDisk": 2,
        "minRam": 64,
        "OS-EXT-IMG-SIZE:size": 1024,
        "OS-DCF:diskConfig": "AUTO",
        "metadata": {"os_distro": "debian", "auto_disk_config": "True"},
        "created": image["created_at"],
        "updated": image["updated_at"],
    }
    queued = cloud.make_image("queued", data=None)["id"]
    shown = cloud.get(f"{IMAGES}/{queued}")["image"]
    assert (shown["status"], shown["progress"], shown["OS-EXT-IMG-SIZE:size"]) == ("SAVING", 25, 0)


def test_an_image_of_a_server_names_it(cloud: Cloud) -> None:
    server_id = "8d3e7b02-5d3c-4f3c-a0e8-1d5f8f6b2f00"
    image = cloud.make_image("shot", instance_uuid=server_id, image_type="snapshot")["id"]
    cloud.make_image("other")
    shown = cloud.get(f"{IMAGES}/{image}")["image"]
    assert shown["server"]["id"] == server_id
    assert shown["server"]["links"][0]["href"].endswith(f"/v2.1/servers/{server_id}")
    for query in (
        f"server={server_id}",
        f"server=http://localhost/v2.1/servers/{server_id}",
        "type=snapshot",
        "property-image_type=snapshot",
    ):
        assert [each["id"] for each in cloud.get(f"{IMAGES}?{query}")["images"]] == [image], query


def test_listings_have_filters_and_pages(cloud: Cloud) -> None:
    first = cloud.make_image("a", min_ram=1, data=None)
    second = cloud.make_image("b", min_disk=2)

    def names(query: str) -> list[str]:
        return sorted(each["name"] for each in cloud.get(f"{IMAGES}?{query}")["images"])

    assert names("") == ["a", "b"]
    assert names("name=a") == names("status=QUEUED") == names("minRam=1") == ["a"]
    assert names("minDisk=2") == names("status=active") == ["b"]
    assert names(f"changes-since={second['updated_at']}") == sorted(
        each["name"] for each in (first, second) if each["updated_at"] >= second["updated_at"]
    )
    assert names("property-x=y") == names("changes-since=2999-01-01T00:00:00Z") == []
    page = cloud.get(f"{IMAGES}/detail?limit=1")
    (link,) = page["images_links"]
    assert link["rel"] == "next"
    rest = cloud.get(link["href"].removeprefix("http://localhost"))
    assert {page["images"][0]["name"], rest["images"][0]["name"]} == {"a", "b"}
    (last,) = rest["images_links"]
    assert cloud.get(last["href"].removeprefix("http://localhost")) == {"images": []}
    assert cloud.ask("GET", f"{IMAGES}?marker={first['id'][:-1]}x")[0] == 400
    assert cloud.ask("GET", f"{IMAGES}?limit=-1")[0] == 400
    assert cloud.ask("GET", f"{IMAGES}?changes-since=yesterday")[0] == 400


def test_metadata_are_the_properties(cloud: Cloud) -> None:
    image = cloud.make_image("guest", os_distro="debian", x="1")["id"]
    path = f"{IMAGES}/{image}/metadata"
    assert cloud.get(path) == {"metadata": {"os_distro": "debian", "x": "1"}}
    assert cloud.get(f"{path}/x") == {"meta": {"x": "1"}}
    assert cloud.ask("POST", path, {"metadata": {"y": "2"}})[1] == {
        "metadata": {"os_distro": "debian", "x": "1", "y": "2"}
    }
    assert cloud.ask("PUT", f"{path}/x", {"meta": {"x": "3"}}) == (200, {"meta": {"x": "3"}})
    assert cloud.ask("DELETE", f"{path}/y") == (204, None)
    assert cloud.get(path) == {"metadata": {"os_distro": "debian", "x": "3"}}
    assert cloud.ask("PUT", path, {"metadata": {"z": "4"}}) == (200, {"metadata": {"z": "4"}})
    shown = cloud.get(f"/v2/images/{image}")
    assert (shown["z"], "x" in shown, shown["status"], shown["name"]) == ("4", False, "active", "guest")
    for answer in (cloud.ask("GET", f"{path}/x"), cloud.ask("DELETE", f"{path}/x")):
        assert answer[0] == 404
    assert cloud.ask("PUT", f"{path}/x", {"meta": {"y": "1"}})[0] == 400


@pytest.mark.parametrize(
    ("metadata", "status"),
    [
        ({"visibility": "public"}, 400),
        ({"name": "other"}, 400),
        ({"status": "killed"}, 403),
        ({"os_glance_x": "y"}, 403),
        ({"": "y"}, 400),
        ({"k": "v" * 256}, 400),
        ({"k": 1}, 400),
        ({f"k{number}": "v" for number in range(129)}, 403),
    ],
)
def test_what_is_no_property_is_refused(cloud: Cloud, metadata: dict[str, object], status: int) -> None:
    image = cloud.make_image("guest", x="1")
    for method in ("POST", "PUT"):
        assert cloud.ask(method, f"{IMAGES}/{image['id']}/metadata", {"metadata": metadata})[0] == status
    assert cloud.get(f"/v2/images/{image['id']}") == image


def test_quota_of_metadata_limits_the_properties(cloud: Cloud) -> None:
    image = cloud.make_image("guest", x="1")
    path = f"{IMAGES}/{image['id']}/metadata"
    assert cloud.ask("PUT", "/v2.1/os-quota-sets/admin", {"quota_set": {"metadata_items": 1}})[0] == 200
    assert cloud.ask("POST", path, {"metadata": {"y": "1"}})[0] == 403
    assert cloud.ask("PUT", path, {"metadata": {"y": "1"}})[0] == 200
    assert cloud.ask("DELETE", f"{path}/y")[0] == 204


def test_an_image_is_deleted_unless_it_is_protected(cloud: Cloud) -> None:
    image, kept = cloud.make_image("guest")["id"], cloud.make_image("kept", protected=True)["id"]
    assert cloud.ask("DELETE", f"{IMAGES}/{image}") == (204, None)
    assert cloud.ask("GET", f"/v2/images/{image}")[0] == 404
    assert not (cloud.images / image).exists()
    assert cloud.ask("DELETE", f"{IMAGES}/{image}")[0] == 404
    assert cloud.ask("DELETE", f"{IMAGES}/{kept}")[0] == 403


def test_newer_microversions_do_not_have_them(cloud: Cloud) -> None:
    image = cloud.make_image("guest", x="1")["id"]
    for path in (IMAGES, f"{IMAGES}/detail", f"{IMAGES}/{image}"):
        assert cloud.ask("GET", path, **at("2.35"))[0] == 200
        assert cloud.ask("GET", path, **at("2.36"))[0] == 404
    assert cloud.ask("DELETE", f"{IMAGES}/{image}", **at("2.36"))[0] == 404
    assert cloud.get(f"{IMAGES}/{image}/metadata", **at("2.38")) == {"metadata": {"x": "1"}}
    assert cloud.ask("GET", f"{IMAGES}/{image}/metadata", **at("2.39"))[0] == 404
