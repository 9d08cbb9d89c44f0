"""`OS-DCF:diskConfig`: kept and shown, with the image's for servers that do not say."""

import pytest

from tests.functional.api.conftest import Cloud

KEY = "OS-DCF:diskConfig"


def shown(cloud: Cloud, server_id: str) -> str:
    value: str = cloud.get(f"/v2.1/servers/{server_id}")["server"][KEY]
    return value


@pytest.mark.parametrize("chosen", ["AUTO", "MANUAL"])
def test_the_choice_is_answered_and_kept(stocked: Cloud, chosen: str) -> None:
    server = stocked.make_server("vm", **{KEY: chosen})
    assert (server[KEY], shown(stocked, server["id"])) == (chosen, chosen)


def test_it_can_be_changed(stocked: Cloud) -> None:
    server_id = stocked.make_server("vm")["id"]
    for chosen in ("AUTO", "MANUAL"):
        status, answer = stocked.ask("PUT", f"/v2.1/servers/{server_id}", {"server": {KEY: chosen}})
        assert (status, answer["server"][KEY], shown(stocked, server_id)) == (200, chosen, chosen)


def test_an_image_chooses_for_servers_that_do_not(stocked: Cloud) -> None:
    image = stocked.make_image("grows", auto_disk_config="True")["id"]
    assert shown(stocked, stocked.make_server("vm", imageRef=image)["id"]) == "AUTO"
    assert shown(stocked, stocked.make_server("vm", imageRef=image, **{KEY: "MANUAL"})["id"]) == "MANUAL"


def test_an_image_can_forbid_it(stocked: Cloud) -> None:
    image = stocked.make_image("stays", auto_disk_config="disabled")["id"]
    status, answer = stocked.ask(
        "POST", "/v2.1/servers", {"server": {**stocked.server, "imageRef": image, KEY: "AUTO"}}
    )
    assert (status, answer["badRequest"]["message"]) == (
        400,
        f"Requested image {image} has automatic disk resize disabled.",
    )
    assert shown(stocked, stocked.make_server("vm", imageRef=image)["id"]) == "MANUAL"
