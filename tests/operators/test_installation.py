"""What an operator sees of a cloud that is just installed."""

import json
import re
from pathlib import Path

import pytest

from tests.operators.cloud import CONTROLLER_SERVICES, Cloud
from tests.operators.machines import Machine
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(3600)
ETC = Path(__file__).parents[2] / "etc"
PORTS = {"minova-api": 9790, "minova-conductor": 9791, "minova-scheduler": 9792, "minova-compute": 9793}
FETCH = (
    "python3 -c 'import urllib.request; print(urllib.request.urlopen(\"http://127.0.0.1:{}/metrics\").read().decode())'"
)


def test_a_cloud_by_the_pages_builds_a_server(cloud: Cloud) -> None:
    cloud.controller("head -c 1M /dev/zero >/tmp/disk.raw")
    cloud.minova("image create tiny --disk-format raw --file /tmp/disk.raw")
    cloud.minova("server create web --flavor m1.nano --image tiny --wait")
    assert json.loads(cloud.minova("server show web -f json"))["status"] == "ACTIVE"
    cloud.minova("server delete web --wait")
    for name, machine in (("controller", cloud.controller), *cloud.hosts.items()):
        assert machine("systemctl list-units --failed --no-legend --plain 'minova-*'") == "", name


def test_doctor_is_silent(cloud: Cloud) -> None:
    assert cloud.manage("doctor") == ""


def test_queues_of_hosts_are_limited(cloud: Cloud) -> None:
    listed = cloud.controller("rabbitmqctl --quiet list_queues --no-table-headers name policy")
    policies = {name: policy for name, _, policy in (line.partition("\t") for line in listed.splitlines())}
    for host in cloud.hosts:
        assert policies[f"compute.{host}"] == "minova-hosts"
    assert policies["conductor"] == ""


@pytest.mark.parametrize("unit", [*CONTROLLER_SERVICES, "minova-compute", "minova-metadata", "minova-network-helper"])
def test_units_tell_systemd_when_they_serve(cloud: Cloud, unit: str) -> None:
    machine = cloud.controller if unit in CONTROLLER_SERVICES else cloud.hosts["hv1"]
    assert machine(f"systemctl show --value --property=Type {unit}") == "notify\n"
    assert machine(f"systemctl show --value --property=WatchdogUSec {unit}") == "1min\n"
    assert machine(f"systemctl is-active {unit}") == "active\n"


def page(machine: Machine, unit: str) -> str:
    done = machine.run(FETCH.format(PORTS[unit]))
    return done.stdout if done.returncode == 0 else ""


def test_alerts_and_dashboard_name_series_of_the_pages(cloud: Cloud) -> None:
    host = cloud.hosts["hv1"]
    for machine in (cloud.controller, host):
        machine("install -d /etc/minova/minova.conf.d")
        machine.write("/etc/minova/minova.conf.d/prometheus.conf", "[prometheus]\nenabled = true\n")
    cloud.restart_controller()
    host("systemctl restart minova-compute")
    cloud.are_up()
    shown: set[str] = set()
    for unit in PORTS:
        machine = host if unit == "minova-compute" else cloud.controller
        text = wait_for(f"the page of {unit}", lambda machine=machine, unit=unit: page(machine, unit))  # type: ignore[misc]
        shown |= {name for name, _ in re.findall(r"^# TYPE (minova_\w+) (\w+)$", text, re.MULTILINE)}
    named = set(re.findall(r"\bminova_\w+", (ETC / "prometheus/alerts.yml").read_text()))
    named |= set(re.findall(r"\bminova_\w+", (ETC / "grafana/minova.json").read_text()))
    assert len(named) > 20
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in named} - shown == set()
