"""Settings of the nodes of a host."""

from minova.compute.accounting.audit import NodeSettings
from minova.compute.tracker.nodes import settings_from
from tests.functional.scheduler.cloud import conf_of


def test_settings_that_are_not_given_are_those_of_the_options() -> None:
    configured, plain = settings_from(conf_of(), "h"), NodeSettings(host="h")
    assert (configured.host, configured.packing, configured.ratios) == (plain.host, plain.packing, plain.ratios)


def test_reserved_disk_is_rounded_up_to_whole_gb() -> None:
    conf = conf_of()
    for mb, gb in ((0, 0), (1, 1), (1024, 1), (1025, 2)):
        conf.set_override("reserved_host_disk_mb", mb)
        assert settings_from(conf, "h").reserved.disk_gb == gb


def test_running_deleted_instances_are_looked_for_at_an_interval() -> None:
    conf = conf_of()
    for seconds, looks in ((0, False), (1, True), (1800, True)):
        conf.set_override("running_deleted_instance_poll_interval", seconds)
        running_deleted = settings_from(conf, "h").running_deleted
        assert (running_deleted.looks, running_deleted.interval) == (looks, seconds)
