"""What projects have used: hours of the period, deleted servers, pages, and who may see it."""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from minova.api.http import times
from tests.functional.api.conftest import Cloud, at

PATH = "/v2.1/os-simple-tenant-usage"
NOW = times.now().replace(microsecond=0)


def ran(cloud: Cloud, name: str, began: float, ended: float | None = None, project: str = "admin") -> str:
    """A server that ran from so many hours ago until so many."""
    server_id: str = cloud.make_server(name)["id"]
    cloud.conductor.edit(
        server_id,
        project_id=project,
        vm_state="active",
        task_state=None,
        launched_at=hours_ago(began),
        terminated_at=None if ended is None else hours_ago(ended),
        deleted_at=None if ended is None else hours_ago(ended),
    )
    return server_id


def hours_ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def period(start: float, end: float) -> dict[str, str]:
    return {"start": hours_ago(start).isoformat(), "end": hours_ago(end).isoformat()}


def test_hours_of_the_period_are_counted(stocked: Cloud) -> None:
    running, deleted = ran(stocked, "runs", began=10), ran(stocked, "gone", began=7, ended=5)
    for name, began, ended in (("before", 20, 9), ("after", 1, None)):
        ran(stocked, name, began=began, ended=ended)
    usage = stocked.get(f"{PATH}/admin", params=period(8, 4))["tenant_usage"]
    assert {server["instance_id"]: server["hours"] for server in usage["server_usages"]} == {running: 4.0, deleted: 2.0}
    assert {server["name"]: server["state"] for server in usage["server_usages"]} == {
        "runs": "active",
        "gone": "terminated",
    }
    sums = {key: value for key, value in usage.items() if key.startswith("total_")}
    # The flavor has 128 MiB, one vCPU and 1 GiB.
    assert sums == {
        "total_hours": 6.0,
        "total_vcpus_usage": 6.0,
        "total_memory_mb_usage": 768.0,
        "total_local_gb_usage": 6.0,
    }
    assert usage["start"] == times.microseconds(hours_ago(8))
    assert usage["stop"] == times.microseconds(hours_ago(4))


def test_a_project_without_servers_has_an_empty_usage(stocked: Cloud) -> None:
    assert stocked.get(f"{PATH}/admin", params=period(8, 4)) == {"tenant_usage": {}}
    assert stocked.get(PATH) == {"tenant_usages": []}


def test_each_project_has_one_usage(stocked: Cloud) -> None:
    ran(stocked, "a", began=3)
    ran(stocked, "b", began=3, project="other")
    briefly = stocked.get(PATH, params=period(2, 1))["tenant_usages"]
    assert [(usage["tenant_id"], usage["total_hours"]) for usage in briefly] == [("admin", 1.0), ("other", 1.0)]
    assert all("server_usages" not in usage for usage in briefly)
    detailed = stocked.get(PATH, params={**period(2, 1), "detailed": "1"})["tenant_usages"]
    assert [[server["name"] for server in usage["server_usages"]] for usage in detailed] == [["a"], ["b"]]


def test_a_server_of_another_project_is_no_marker(stocked: Cloud) -> None:
    other = ran(stocked, "b", began=3, project="other")
    query = {**period(4, 1), "marker": other}
    status, _ = stocked.ask("GET", f"{PATH}/admin", params=query, **at("2.40"))
    assert status == 400
    assert stocked.ask("GET", PATH, params=query, **at("2.40"))[0] == 200


def test_a_period_ends_now_at_the_latest(stocked: Cloud) -> None:
    ran(stocked, "a", began=3)
    usage = stocked.get(f"{PATH}/admin", params={"start": hours_ago(1).isoformat(), "end": "2100-01-01T00:00:00"})
    assert 1 <= usage["tenant_usage"]["total_hours"] <= (times.now() - hours_ago(1)) / timedelta(hours=1)


def test_a_period_that_has_not_begun_has_no_hours(stocked: Cloud) -> None:
    ran(stocked, "a", began=3)
    params = {"start": hours_ago(-2).isoformat(), "end": hours_ago(-5).isoformat()}
    usage = stocked.get(f"{PATH}/admin", params=params)["tenant_usage"]
    assert (usage["total_hours"], usage["total_vcpus_usage"], usage["server_usages"][0]["hours"]) == (0, 0, 0)


def test_pages_follow_each_other_since_2_40(stocked: Cloud) -> None:
    expected = sorted(ran(stocked, f"s{number}", began=3) for number in range(3))
    usages, params = [], {**period(2, 1), "limit": "2"}
    page = stocked.get(f"{PATH}/admin", params=params, **at("2.40"))
    while page["tenant_usage"]:
        usages += [server["instance_id"] for server in page["tenant_usage"]["server_usages"]]
        if "tenant_usage_links" not in page:
            break
        page = stocked.get(page["tenant_usage_links"][0]["href"].removeprefix("http://localhost"), **at("2.40"))
    assert usages == expected
    before = stocked.get(f"{PATH}/admin", params=params)
    assert len(before["tenant_usage"]["server_usages"]) == 3
    assert "tenant_usage_links" not in before


@pytest.mark.parametrize(
    ("params", "version", "said"),
    [
        ({"start": "yesterday"}, "2.1", "Invalid datetime string: Datetime is in invalid format"),
        (period(1, 2), "2.1", "The start time cannot occur after the end time."),
        (period(1, 1), "2.1", "The start time cannot occur after the end time."),
        ({**period(2, 1), "marker": "nothing"}, "2.40", "Marker nothing could not be found."),
        ({**period(2, 1), "limit": "-1"}, "2.40", "limit"),
        ({**period(2, 1), "colour": "blue"}, "2.75", "colour"),
    ],
)
def test_what_is_no_period_is_refused(stocked: Cloud, params: dict[str, Any], version: str, said: str) -> None:
    for path in (PATH, f"{PATH}/admin"):
        status, answer = stocked.ask("GET", path, params=params, **at(version))
        assert (status, said in answer["badRequest"]["message"]) == (400, True), answer


def test_no_host_has_run_nova_s_audit(stocked: Cloud) -> None:
    log = stocked.get("/v2.1/os-instance_usage_audit_log")["instance_usage_audit_logs"]
    assert (log["num_hosts_done"], log["total_instances"], log["log"]) == (0, 0, {})
    path = f"/v2.1/os-instance_usage_audit_log/{quote('2012-01-05 10:00:00')}"
    earlier = stocked.get(path)["instance_usage_audit_log"]
    assert (earlier["period_beginning"], earlier["period_ending"]) == ("2011-12-01 00:00:00", "2012-01-01 00:00:00")
    status, answer = stocked.ask("GET", "/v2.1/os-instance_usage_audit_log/tomorrow")
    assert (status, answer["badRequest"]["message"]) == (400, "Invalid timestamp for date tomorrow")
