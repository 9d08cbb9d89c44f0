"""Hosts of an aggregate fetch an image before there is a server."""

from pathlib import Path

from minova.context import service_context
from tests.cluster import Cluster
from tests.functional.test_cloud import People
from tests.waiting import wait_for

VERSION = {"OpenStack-API-Version": "compute 2.81"}


def test_the_hosts_of_an_aggregate_fetch_an_image_with_tokens_of_a_conductor(tmp_path: Path) -> None:
    with Cluster(tmp_path, ["one", "two", "other"]) as cluster:
        people = People(cluster.url)
        image = people.image()
        digest = people.ask("GET", f"/v2/images/{image}")["os_hash_value"]
        aggregate = cluster.conductor.create_aggregate(service_context(), name="rack", metadata={})
        for host in ("one", "two"):
            cluster.conductor.add_host_to_aggregate(service_context(), aggregate_id=aggregate.id, host=host)

        def have_it() -> list[str]:
            return [
                host
                for host, conf in cluster.confs_of_computes.items()
                if (Path(conf.instances_path) / conf.image_cache_subdirectory_name / digest).exists()
            ]

        assert have_it() == []
        body = {"cache": [{"id": image}]}
        people.ask("POST", f"/v2.1/os-aggregates/{aggregate.id}/images", json=body, headers=VERSION)
        wait_for("both have it", lambda: sorted(have_it()) == ["one", "two"])
