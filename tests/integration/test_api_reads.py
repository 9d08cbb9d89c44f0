"""The API's queries on the servers that carry the scale."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.functional.api.compute.servers.test_server_list import follow, names
from tests.functional.api.conftest import Cloud


@pytest.fixture(params=["fresh_postgresql_url", "fresh_mariadb_url"])
def stocked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cloud]:
    fresh: Callable[[], str] = request.getfixturevalue(request.param)
    cloud = Cloud(tmp_path, url=fresh())
    yield cloud.with_catalogue()
    cloud.close()


def test_pages_filters_and_sums(stocked: Cloud) -> None:
    for number in range(5):
        stocked.make_server(f"a_{number}%", flavorRef=stocked.server["flavorRef"])
    server = stocked.make_server("aX1")
    stocked.conductor.edit(server["id"], vm_state="error", task_state=None)
    assert [len(page) for page in follow(stocked, "/v2.1/servers/detail", limit=4)] == [4, 2]
    names_by_query = {
        "name=%5Ea_1": ["a_1%"],
        "name=%25$": ["a_4%", "a_3%", "a_2%", "a_1%", "a_0%"],
        "name=%5EAX1$": ["aX1"],
        "name=a.*1": ["aX1", "a_1%"],
        "status=ERROR": ["aX1"],
        f"flavor={stocked.server['flavorRef']}&limit=1": ["aX1"],
        "flavor=other": [],
        "changes-since=2026-01-01T00:00:00Z&limit=1": ["aX1"],
        "sort_key=vm_state&sort_dir=desc&limit=1": ["aX1"],
    }
    assert {
        query: names(stocked.get("/v2.1/servers", query_string=query)) for query in names_by_query
    } == names_by_query
    assert stocked.get("/v2.1/os-hypervisors/statistics")["hypervisor_statistics"]["count"] == 0
    assert [image["name"] for image in stocked.get("/v2/images?limit=1&status=active")["images"]] == ["guest"]
    assert stocked.ask("GET", "/v2.1/flavors/x%00y")[0] in (400, 404)
    assert stocked.ask("GET", f"/v2.1/servers/{'x' * 30}%00")[0] in (400, 404)
    assert stocked.ask("GET", "/v2/images/%00")[0] in (400, 404)
