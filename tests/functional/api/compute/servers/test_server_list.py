"""Listing servers: pages, filters, and whose they are."""

import functools
import operator
from datetime import datetime
from typing import Any

import pytest

from minova.db.api_queries.instances import SORT_KEYS
from tests.functional.api.conftest import Cloud


def names(page: Any) -> list[str]:
    return [server["name"] for server in page["servers"]]


def follow(cloud: Cloud, path: str, **params: Any) -> list[list[str]]:
    """Every page, by the links."""
    pages = []
    page = cloud.get(path, params=params)
    while True:
        pages.append(names(page))
        if "servers_links" not in page:
            return pages
        href = page["servers_links"][0]["href"]
        page = cloud.get(href.removeprefix("http://localhost"))


def test_pages_follow_each_other_newest_first(stocked: Cloud) -> None:
    for number in range(7):
        stocked.make_server(f"s{number}")
    assert follow(stocked, "/v2.1/servers", limit=3) == [["s6", "s5", "s4"], ["s3", "s2", "s1"], ["s0"]]
    assert follow(stocked, "/v2.1/servers/detail", limit=7) == [["s6", "s5", "s4", "s3", "s2", "s1", "s0"], []]
    assert follow(stocked, "/v2.1/servers", limit=0) == [[]]
    assert follow(stocked, "/v2.1/servers", limit=4, sort_dir="asc") == [["s0", "s1", "s2", "s3"], ["s4", "s5", "s6"]]


def test_a_row_that_comes_in_between_disturbs_no_page(stocked: Cloud) -> None:
    for number in range(4):
        stocked.make_server(f"s{number}")
    first = stocked.get("/v2.1/servers", params={"limit": 2})
    stocked.make_server("late")
    marker = first["servers"][-1]["id"]
    assert names(stocked.get("/v2.1/servers", params={"limit": 2, "marker": marker})) == ["s1", "s0"]


def test_pages_by_a_key_that_many_share(stocked: Cloud) -> None:
    for number in range(5):
        server = stocked.make_server(f"s{number}")
        stocked.conductor.edit(server["id"], vm_state="active" if number % 2 else "error")
    params = {"sort_key": "vm_state", "sort_dir": "asc", "limit": 2}
    assert follow(stocked, "/v2.1/servers", **params) == [["s1", "s3"], ["s0", "s2"], ["s4"]]


def test_filters_find_what_they_name(stocked: Cloud) -> None:
    other = stocked.make_flavor("other", id="a_b")
    web, db = stocked.make_server("web"), stocked.make_server("db", flavorRef=other["id"])
    stocked.conductor.edit(web["id"], vm_state="active", task_state=None, host="h1", node="n1", power_state=1)
    launched = datetime(2026, 1, 31, 12)  # noqa: DTZ001  - as the database keeps times
    stocked.conductor.edit(web["id"], key_name="alice", progress=70, launched_at=launched, config_drive=True)
    names_by_query = {
        "name=^we": ["web"],
        "name=WEB": ["web"],
        "name=b": ["db", "web"],
        "name=%25": [],
        "name=^(web|mail)$": ["web"],
        "name=[c-e]b": ["db", "web"],
        "name=[bd]&name=.&key_name=.": ["web"],
        "display_name=[bd]": ["db", "web"],
        "hostname=^web$": ["web"],
        "key_name=alice": ["web"],
        "key_name=[^b]": ["web"],
        "key_name=bob": [],
        "progress=^70$": ["web"],
        "launched_at=2026-01-31": ["web"],
        "launched_at=12:00:00": ["web"],
        "launched_at=T12:00:00Z$": ["web"],
        "terminated_at=.": [],
        "created_at=^1999": [],
        "launch_index=0": ["db", "web"],
        "config_drive=True": ["web"],
        "config_drive=False": ["db"],
        "ip=10.0.0.1": [],
        "ip6=fe80": [],
        "access_ip_v4=.": [],
        "locked_by=.": [],
        "marker=": ["db", "web"],
        "project_id=other": ["db", "web"],
        "status=ACTIVE": ["web"],
        "status=BUILD&status=ACTIVE": ["db", "web"],
        "status=HAPPY": [],
        "host=h1": ["web"],
        "node=n1": ["web"],
        "power_state=1": ["web"],
        "task_state=scheduling": ["db"],
        "flavor=a_b": ["db"],
        "node=n": ["web"],
        "flavor=axb": [],
        "flavor=a": [],
        f"image={stocked.server['imageRef']}": ["db", "web"],
        f"uuid={db['id']}": ["db"],
        "changes-since=2099-01-01T00:00:00Z": [],
        "unknown=1": ["db", "web"],
        "locked=perhaps": ["db", "web"],
    }
    assert {
        query: names(stocked.get("/v2.1/servers", query_string=query)) for query in names_by_query
    } == names_by_query


def test_bug_no_server_has_a_kernel_or_disks_that_grow(stocked: Cloud) -> None:
    """Listings took the kernel, the ramdisk and `OS-DCF:diskConfig` of all servers for the same."""
    kernels = sorted(stocked.make_image(name)["id"] for name in ("one", "two"))
    for name, kernel in zip(("low", "high"), kernels, strict=True):
        image = stocked.make_image(name, kernel_id=kernel, ramdisk_id=kernel)["id"]
        stocked.make_server(name, imageRef=image, **{"OS-DCF:diskConfig": "AUTO" if name == "low" else "MANUAL"})
    stocked.make_server("plain")
    names_by_query = {
        f"kernel_id={kernels[0]}": ["low"],
        f"ramdisk_id=^({kernels[1]}|x)$": ["high"],
        "kernel_id=.": ["high", "low"],
        "kernel_id=^$": ["plain"],
        "ramdisk_id=[g-z]": [],
        "auto_disk_config=1": ["low"],
        "auto_disk_config=^0$": ["plain", "high"],
        "sort_key=kernel_id": ["high", "low", "plain"],
        "sort_key=ramdisk_id&sort_dir=asc": ["plain", "low", "high"],
        "sort_key=auto_disk_config": ["low", "plain", "high"],
    }
    assert {
        query: names(stocked.get("/v2.1/servers", query_string=query)) for query in names_by_query
    } == names_by_query


@pytest.mark.parametrize(
    "query",
    [
        "limit=-1",
        "limit=x",
        "marker=nothing",
        "name=(a",
        "name=",
        "metadata=x",
        "_x=1",
        "sort_key=x",
        "name=%00",
        "ip=(",
    ],
)
def test_a_query_that_cannot_be_read(stocked: Cloud, query: str) -> None:
    status, document = stocked.ask("GET", "/v2.1/servers", query_string=query)
    assert (status, document["badRequest"]["code"]) == (400, 400)


def test_pages_of_what_re2_finds_follow_each_other(stocked: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minova.db.api_queries.instances.BATCH", 2)
    for number in range(12):
        stocked.make_server(f"s{number}")
    odd = {"name": "^s([13579]|11)$"}
    assert follow(stocked, "/v2.1/servers", limit=4, **odd) == [["s11", "s9", "s7", "s5"], ["s3", "s1"]]
    by_name = {"sort_key": "display_name", "sort_dir": "asc"}
    assert follow(stocked, "/v2.1/servers", limit=4, **odd, **by_name) == [["s1", "s11", "s3", "s5"], ["s7", "s9"]]


@pytest.mark.parametrize("key", [key for key in SORT_KEYS if key != "created_at"])
def test_pages_by_any_key_hold_every_server_once(stocked: Cloud, key: str) -> None:
    launched = datetime(2026, 1, 31, 12)  # noqa: DTZ001  - as the database keeps times
    for number in range(4):
        server = stocked.make_server(f"s{number}")
        if number % 2:
            stocked.conductor.edit(
                server["id"], host="h", node="n", key_name="k", launched_at=launched, updated_at=launched
            )
    for direction in ("asc", "desc"):
        pages = follow(stocked, "/v2.1/servers", limit=1, sort_key=key, sort_dir=direction)
        assert sorted(functools.reduce(operator.iadd, pages, [])) == ["s0", "s1", "s2", "s3"]


def test_projects_see_their_own_servers(stocked: Cloud) -> None:
    stocked.make_server("mine")
    theirs = {"headers": {"X-Auth-Token": "bob:theirs"}}
    their_server = stocked.make_server("theirs", headers={"X-Auth-Token": "bob:theirs"})
    assert names(stocked.get("/v2.1/servers")) == ["mine"]
    assert names(stocked.get("/v2.1/servers", **theirs)) == ["theirs"]
    assert names(stocked.get("/v2.1/servers?all_tenants=1")) == ["theirs", "mine"]
    assert names(stocked.get("/v2.1/theirs/servers")) == ["theirs"]
    server = stocked.get(f"/v2.1/servers/{their_server['id']}")["server"]
    assert (server["tenant_id"], server["user_id"]) == ("theirs", "bob")
    assert stocked.ask("GET", "/v2.1/another/servers", **theirs)[0] == 400
