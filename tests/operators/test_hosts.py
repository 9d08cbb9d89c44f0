"""Hosts of an older release, hosts that leave and hosts that come."""

import json

import pytest

from tests.operators.cloud import Cloud, add_host, by_page
from tests.operators.pages import blocks, typed
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(3600)


def test_services_of_root_become_services_of_minova(cloud: Cloud) -> None:
    """hv2 as release 0.1.0 left it: its files are root's."""
    host = cloud.hosts["hv2"]
    host("systemctl stop minova-compute && chown -R root:root /var/lib/minova && chmod 700 /var/lib/minova")
    before = len(host.journal("minova-compute"))
    host.run("timeout 30 systemctl start minova-compute")
    journal = host.journal("minova-compute")[before:]
    assert "Permission denied" in journal
    assert "Traceback" not in journal
    host("mkdir -p /var/log/minova")  # a host with log_dir
    stop, _, hypervisor, *_ = blocks("upgrade.md", "Services of root")
    by_page(host, stop, ("sudo useradd",))
    by_page(host, hypervisor)
    host("systemctl daemon-reload && systemctl reset-failed 'minova-*'")
    host("systemctl start minova-network-helper minova-compute")
    wait_for("hv2 is up", cloud.is_up("hv2"))


def test_host_is_removed_and_added_again_by_the_pages(cloud: Cloud) -> None:
    host = cloud.hosts["hv2"]
    disable, stop = typed("remove-a-host.md", "minova service set", "sudo systemctl disable")
    cloud.minova(disable.replace("HOST", "hv2").removeprefix("minova "))
    assert json.loads(cloud.minova("server list --all-projects --host hv2 -f json")) == []
    host(stop)
    cloud.minova(f"service delete {cloud.services()['minova-compute', 'hv2']['ID']}")
    assert ("minova-compute", "hv2") not in cloud.services()
    assert "hv2" not in cloud.minova("hypervisor list")

    add_host(cloud, host)
    (start,) = typed("add-a-host.md", "sudo systemctl enable")
    host(start)
    wait_for("hv2 is up", cloud.is_up("hv2"))
    assert "hv2" in cloud.minova("hypervisor list")
    cloud.controller("head -c 1M /dev/zero >/tmp/try.raw")
    cloud.minova("image create try --disk-format raw --file /tmp/try.raw")
    (attempt,) = typed("add-a-host.md", "minova server create try")
    cloud.minova(attempt.replace("IMAGE", "try").replace("HOST", "hv2").removeprefix("minova "))
    cloud.minova("server delete try --wait")
    cloud.minova("image delete try")
