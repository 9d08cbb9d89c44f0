"""minova-manage simulate, as an operator calls it."""

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from minova.cmd.manage import run
from minova.cmd.simulate import answer

SIZE = {"vcpus": 1, "memory_mb": 512, "root_gb": 1}


def cloud(**parts: Any) -> dict[str, Any]:
    hosts = [{"host": name, "vcpus": 4, "memory_mb": 4096, "local_gb": 50} for name in ("a", "b")]
    return {"filters": ["ComputeFilter"], "hosts": hosts, "requests": [{"id": "r1", "flavor": SIZE}], **parts}


def simulated(**parts: Any) -> Any:
    return json.loads(answer(json.dumps(cloud(**parts)).encode()))


def manage(path: Path | str, *words: str) -> int:
    return run(["--config-file", "/dev/null", "simulate", str(path), *words])


def test_it_prints_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cloud.json"
    path.write_text(json.dumps(cloud()))
    assert manage(path) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["filters"] == ["ComputeFilter"]
    assert report["requests"][0]["chain"] == [["ComputeFilter", ["a", "b"]]]
    assert report["requests"][0]["order"] == [["a", 3.0], ["b", 3.0]]


def test_pretty_is_the_same_with_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cloud.json.gz"
    path.write_bytes(gzip.compress(json.dumps(cloud()).encode()))
    assert manage(path) == 0
    plain = capsys.readouterr().out
    assert manage(path, "--pretty") == 0
    pretty = capsys.readouterr().out
    assert plain.count("\n") == 1
    assert '\n  "filters": [' in pretty
    assert json.loads(plain) == json.loads(pretty)


def test_bug_warnings_stood_in_front_of_the_answer(tmp_path: Path) -> None:
    """As an operator runs it: pytest has handlers of its own for what is logged."""
    path = tmp_path / "cloud.json"
    path.write_text(json.dumps(cloud(config={"metrics.weight_setting": ["junk"]})))
    program = [sys.executable, "-c", "from minova.cmd.manage import main; main()"]
    words = [*program, "--config-file", "/dev/null", "simulate", str(path)]
    result = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(result.stdout)["requests"][0]["error"] is None
    assert "Ignoring the invalid elements of the option [metrics] weight_setting: junk" in result.stderr


def test_a_dash_reads_the_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(cloud()).encode())))
    assert manage("-") == 0
    assert json.loads(capsys.readouterr().out)["requests"][0]["error"] is None


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"hosts": [{"host": "a", "vcpus": "4", "memory_mb": 1, "local_gb": 1}]}, "hosts[0].vcpus: expected int, got str"),
        ({"colour": "red"}, "scenario: unknown key colour"),
        ({"filters": ["NoFilter"]}, "unknown name 'NoFilter'; known are AggregateCoreFilter, "),
        ({"filters": "some"}, "filters: expected a list or one of all, classic, default, got 'some'"),
        ({"config": {"filter_scheduler.weight_classes": ["NoWeigher"]}}, "unknown name 'NoWeigher'; known are BuildFailureWeigher, "),
        ({"config": {"filter_scheduler.colour": 1}}, "option filter_scheduler.colour: there is none of this name"),
        ({"config": {"filter_scheduler.ram_weight_multiplier": "x"}}, "option filter_scheduler.ram_weight_multiplier: "),
        ({"hosts": [cloud()["hosts"][0] | {"stats": {"io_workload": "x"}}]}, "hosts[0].stats.io_workload: expected a whole number, got 'x'"),
        ({"hosts": [cloud()["hosts"][0] | {"host_ip": "10.0.0.264"}]}, "hosts[0].host_ip: expected an address, got '10.0.0.264'"),
        ({"hosts": [cloud()["hosts"][0] | {"metrics": [{"value": 3}]}]}, "hosts[0].metrics[0]: "),
    ],
)  # fmt: skip
def test_a_bad_scenario_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], parts: dict[str, Any], said: str
) -> None:
    path = tmp_path / "cloud.json"
    path.write_text(json.dumps(cloud(**parts)))
    assert manage(path) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"minova-manage: {path}: ")
    assert said in shown.err


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert manage(tmp_path / "none.json") == 1
    assert capsys.readouterr().err == f"minova-manage: {tmp_path / 'none.json'}: No such file or directory\n"


def test_novas_paths_of_classes_and_options_without_a_group_are_understood() -> None:
    report = simulated(
        filters=["nova.scheduler.filters.availability_zone_filter.AvailabilityZoneFilter"],
        config={
            "default_availability_zone": "here",
            "filter_scheduler.weight_classes": ["nova.scheduler.weights.ram.RAMWeigher"],
        },
        requests=[{"id": zone, "flavor": SIZE, "availability_zone": zone} for zone in ("here", "nova")],
    )
    assert report["weighers"] == ["RAMWeigher"]
    assert [request["selected"] for request in report["requests"]] == [["a", "b"], []]


def test_a_request_that_cannot_be_made_has_its_error_and_the_others_go_on() -> None:
    wrong = {"id": "r1", "flavor": SIZE | {"extra_specs": {"hw:mem_page_size": "tiny"}}}
    requests = simulated(requests=[wrong, {"id": "r2", "flavor": SIZE}])["requests"]
    assert list(requests[0]) == ["id", "error"]
    assert requests[0]["error"].startswith("MemoryPageSizeInvalid: ")
    assert requests[1]["selected"] == ["a", "b"]


def test_a_filter_that_raises_fails_the_request_only_if_the_chain_comes_to_it() -> None:
    body = {"id": "r1", "flavor": SIZE, "hints": {"query": '["<", "$host", 3]'}}
    result = simulated(filters=["ComputeFilter", "JsonFilter"], requests=[body])["requests"][0]
    assert result["error"].startswith("TypeError: ")
    assert [name for name, _ in result["chain"]] == ["ComputeFilter"]
    assert list(result["individual"]) == ["ComputeFilter"]
    unreached = {**body, "ignore_hosts": ["A", "B"]}
    result = simulated(filters=["ComputeFilter", "JsonFilter"], requests=[unreached])["requests"][0]
    assert (result["error"], result["chain"]) == (None, [])


def test_what_a_winner_consumes_and_the_group_it_joins_is_seen_by_the_next() -> None:
    body = {"flavor": SIZE, "consume": True, "group": {"policy": "anti-affinity", "uuid": "g"}}
    requests = [{**body, "id": f"r{number}"} for number in range(3)]
    results = simulated(filters=["ServerGroupAntiAffinityFilter"], requests=requests)["requests"]
    assert [request["selected"] for request in results] == [["a", "b"], ["b"], []]
    assert results[0]["consumed"] == {
        "host": "a",
        "free_ram_mb": 4096 - 512,
        "free_disk_mb": 49 * 1024,
        "vcpus_used": 1,
        "num_instances": 1,
        "num_io_ops": 1,
        "numa": None,
        "pci_pools": [],
    }


def test_without_hosts_for_the_first_filter_it_says_so() -> None:
    nowhere = {"id": "r1", "flavor": SIZE, "requested_destination": {"host": "nowhere"}}
    assert simulated(requests=[nowhere])["requests"][0]["chain"] == [["ComputeFilter", []]]


def test_forced_hosts_skip_the_filters_unless_the_request_is_a_check() -> None:
    forced = {"id": "r1", "flavor": SIZE, "force_hosts": ["B"]}
    assert simulated(requests=[forced])["requests"][0]["chain"] == []
    check = {**forced, "hints": {"_nova_check_type": ["live_migrate"]}}
    assert simulated(requests=[check])["requests"][0]["chain"] == [["ComputeFilter", ["b"]]]
