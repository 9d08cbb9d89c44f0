"""Apache Libcloud's driver for OpenStack, unchanged, against a whole cloud in this process: the calls of `tox -e libcloud`, without Keystone."""

import subprocess
import sys
from pathlib import Path

import requests

from tests.cluster import Cluster

PROGRAM = Path(__file__).parents[1] / "conformance" / "libcloud" / "program.py"


def test_libcloud_makes_uses_and_removes_a_server(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cloud", ["h1", "h2"]) as cluster:
        _fill(cluster.url)
        words = [sys.executable, "-W", "ignore", str(PROGRAM), cluster.url]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    calls = done.stdout.splitlines()
    assert (done.returncode, [call for call in calls if not call.startswith("ok ")]) == (
        0,
        ["refused ex_rebuild Libcloud sends flavorRef, which Nova refuses, too"],
    ), done.stderr
    assert len(calls) > 40


def _fill(url: str) -> None:
    """An image, two flavors and a network, which the program looks for."""

    def sent(method: str, path: str, **more: object) -> dict[str, dict[str, str]]:
        answer = requests.request(method, url + path, timeout=60, **more)  # type: ignore[arg-type]
        assert answer.ok, answer.text
        document: dict[str, dict[str, str]] = answer.json() if answer.content else {}
        return document

    for disk in (1, 2):
        flavor = {"name": f"f{disk}", "ram": 64, "vcpus": 1, "disk": disk}
        sent("POST", "/v2.1/flavors", json={"flavor": flavor})
    image = {"name": "guest", "disk_format": "raw", "container_format": "bare"}
    sent_id = sent("POST", "/v2/images", json=image)["id"]
    octets = {"Content-Type": "application/octet-stream"}
    sent("PUT", f"/v2/images/{sent_id}/file", data=b"\0" * 65536, headers=octets)
    network = sent("POST", "/network/v2.0/networks", json={"network": {"name": "blue"}})["network"]["id"]
    subnet = {"network_id": network, "ip_version": 4, "cidr": "10.1.0.0/24"}
    sent("POST", "/network/v2.0/subnets", json={"subnet": subnet})
