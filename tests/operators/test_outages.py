"""Servers that are away, and services that stop, die or hang: each with the line that the operator looks for."""

import json
import re
import time

import pytest

from tests.operators.cloud import CONTROLLER_SERVICES, Cloud, said
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(3600)
# Whatever is out of reach.
STOPS_WITHIN = 10.0
# Warnings and errors of a service in an outage: its begin, "refused", its end, and calls that have no answer; not one for each try.
LINES = 6
LOUD = re.compile(r" (WARNING|ERROR|CRITICAL) ")


def test_services_stop_in_time_while_the_broker_is_away_and_leave_no_process(cloud: Cloud) -> None:
    host = cloud.hosts["hv1"]
    services = {"minova-compute": host, **dict.fromkeys(CONTROLLER_SERVICES, cloud.controller)}
    before = len(host.journal("minova-compute"))
    # The service and its privileged helper.
    assert len(host.processes("minova-compute")) == 2
    cloud.controller("systemctl stop rabbitmq-server")
    try:
        wait_for("an outage", said(host, "minova-compute", "The message broker does not answer", before))
        took = {}
        for unit, machine in services.items():
            began = time.monotonic()
            machine(f"systemctl stop {unit}")
            took[unit] = time.monotonic() - began
            # The helper ends when it notices the end of the service.
            wait_for(f"no process of {unit}", lambda machine=machine, unit=unit: machine.processes(unit) == [], 10)  # type: ignore[misc]
            assert machine.run(f"systemctl is-failed {unit}").stdout == "inactive\n", machine.journal(unit)[-3000:]
        assert max(took.values()) < STOPS_WITHIN, took
    finally:
        cloud.controller("systemctl start rabbitmq-server")
        # A compute serves when a conductor has answered.
        cloud.controller(f"systemctl start {' '.join(CONTROLLER_SERVICES)}")
        host("systemctl start minova-compute")
    cloud.are_up()


def test_outage_of_the_broker_is_few_lines_without_traceback(cloud: Cloud) -> None:
    machines = {"minova-compute": cloud.hosts["hv2"], **dict.fromkeys(CONTROLLER_SERVICES, cloud.controller)}
    before = {unit: len(machine.journal(unit)) for unit, machine in machines.items()}
    cloud.controller("systemctl stop rabbitmq-server")
    try:
        for unit, machine in machines.items():
            if unit != "minova-api":  # it only sends, and serves no requests
                wait_for(
                    f"an outage in {unit}", said(machine, unit, "The message broker does not answer", before[unit])
                )
        # Until then services would repeat their lines many times.
        wait_for("hv2 is not heard", lambda: not cloud.is_up("hv2")())
    finally:
        cloud.controller("systemctl start rabbitmq-server")
    cloud.are_up()
    for unit, machine in machines.items():
        wait_for(
            f"the end in {unit}",
            lambda unit=unit, machine=machine: (  # type: ignore[misc]
                (journal := machine.journal(unit)[before[unit] :]).count("The message broker answers again")
                == journal.count("The message broker does not answer")
            ),
        )
        journal = machine.journal(unit)[before[unit] :]
        assert len([line for line in journal.splitlines() if LOUD.search(line)]) <= LINES, journal
        assert "Traceback" not in journal


def test_database_away_is_answered_and_logged_with_the_reason(cloud: Cloud) -> None:
    before = len(cloud.controller.journal("minova-conductor"))
    cloud.controller("systemctl stop postgresql")
    try:
        with pytest.raises(AssertionError, match="database"):
            cloud.minova("server list")
        wait_for("the reason", said(cloud.controller, "minova-conductor", "The database does not answer", before))
    finally:
        cloud.controller("systemctl start postgresql")
    wait_for("the end", said(cloud.controller, "minova-conductor", "The database answers again", before))
    # No work of the conductor repeats the outage.
    assert ": The database does not answer" not in "".join(
        line for line in cloud.controller.journal("minova-conductor")[before:].splitlines(True) if LOUD.search(line)
    )
    assert "Traceback" not in cloud.controller.journal("minova-conductor")[before:]


def test_start_that_fails_says_why(cloud: Cloud) -> None:
    controller = cloud.controller
    conf = controller("cat /etc/minova/minova.conf")
    controller("systemctl stop minova-conductor")
    try:
        wrong = conf.replace("minova:SECRET@localhost", "minova:WRONG@localhost")
        controller.write("/etc/minova/minova.conf", wrong, "root:minova", "640")
        before = len(controller.journal("minova-conductor"))
        assert controller.run("timeout 60 systemctl start minova-conductor").returncode != 0
        assert "password authentication failed" in controller.journal("minova-conductor")[before:]
    finally:
        controller.write("/etc/minova/minova.conf", conf, "root:minova", "640")
        controller("systemctl restart minova-conductor")
    cloud.are_up()


def test_killed_compute_is_started_again_and_leaves_no_helper(cloud: Cloud) -> None:
    host = cloud.hosts["hv1"]
    first = host("systemctl show --value --property=MainPID minova-compute").strip()
    before, former = len(host.journal("minova-compute")), set(host.processes("minova-compute"))
    host(f"kill -KILL {first}")
    wait_for("it serves", said(host, "minova-compute", "Started minova-compute", before))
    assert "status=9/KILL" in host.journal("minova-compute")[before:]
    wait_for("its former helper has ended", lambda: not former & set(host.processes("minova-compute")))
    assert len(host.processes("minova-compute")) == 2
    wait_for("hv1 is up", cloud.is_up("hv1"))


def test_hanging_compute_is_ended_by_the_watchdog_and_started_again(cloud: Cloud) -> None:
    """With WatchdogSec of 5 s in place of 60 s."""
    host = cloud.hosts["hv1"]
    folder = "/etc/systemd/system/minova-compute.service.d"
    host(f"install -d {folder}")
    host.write(f"{folder}/watchdog.conf", "[Service]\nWatchdogSec=5\n")
    host("systemctl daemon-reload && systemctl restart minova-compute")
    try:
        before = len(host.journal("minova-compute"))
        host("kill -STOP $(systemctl show --value --property=MainPID minova-compute)")
        wait_for("the watchdog", said(host, "minova-compute", "Watchdog timeout (limit 5s)!", before))
        wait_for("it serves", said(host, "minova-compute", "Started minova-compute", before))
        # Where its threads were.
        assert "Fatal Python error: Aborted" in host.journal("minova-compute")[before:]
    finally:
        host(f"rm -r {folder} && systemctl daemon-reload && systemctl restart minova-compute")
    wait_for("hv1 is up", cloud.is_up("hv1"))


def test_stopped_compute_is_shown_stopped_at_once_and_gets_no_server(cloud: Cloud) -> None:
    host = cloud.hosts["hv2"]
    host("systemctl stop minova-compute")
    row = cloud.services()["minova-compute", "hv2"]
    assert row["State"] == "down"
    assert "stopped" in json.dumps(row)
    doctor_run = cloud.controller.run("sudo -u minova minova-manage doctor")
    assert doctor_run.returncode != 0
    assert "minova-compute on hv2 has been stopped" in doctor_run.stdout
    assert "on hv2: systemctl start minova-compute" in doctor_run.stdout
    host("systemctl start minova-compute")
    wait_for("hv2 is up", cloud.is_up("hv2"))
    wait_for("doctor is silent", lambda: cloud.controller.run("sudo -u minova minova-manage doctor").stdout == "")
