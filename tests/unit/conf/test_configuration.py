"""Options are read at the start, and a wrong value is found there, by its name."""

from pathlib import Path

import pytest

from minova import conf as configuration
from minova import errors

# Nova 34.0.0's defaults, where minova has Nova's option.
NOVA = {
    "DEFAULT.reserved_host_memory_mb": 512,
    "DEFAULT.reserved_host_disk_mb": 0,
    "DEFAULT.reserved_host_cpus": 0,
    "DEFAULT.report_interval": 10,
    "DEFAULT.enable_new_services": True,
    "DEFAULT.service_down_time": 60,
    "DEFAULT.update_resources_interval": 0,
    "DEFAULT.max_concurrent_builds": 10,
    "DEFAULT.initial_cpu_allocation_ratio": 4.0,
    "DEFAULT.initial_ram_allocation_ratio": 1.0,
    "DEFAULT.initial_disk_allocation_ratio": 1.0,
    "DEFAULT.cpu_allocation_ratio": None,
    "scheduler.max_attempts": 3,
    "scheduler.max_placement_results": 1000,
    "scheduler.limit_tenants_to_placement_aggregate": False,
    "scheduler.placement_aggregate_required_for_tenants": False,
    "scheduler.query_placement_for_image_type_support": False,
    "scheduler.enable_isolated_aggregate_filtering": False,
    "scheduler.image_metadata_prefilter": False,
    "scheduler.periodic_task_interval": 60,  # 17.0.0
    "scheduler.scheduler_json_config_location": "",  # 14.0.0
    "workarounds.disable_fallback_pcpu_query": False,
    "notifications.notify_on_state_change": None,
    "filter_scheduler.host_subset_size": 1,
    "filter_scheduler.shuffle_best_same_weighed_hosts": False,
    "filter_scheduler.ram_weight_multiplier": 1.0,
    "filter_scheduler.cpu_weight_multiplier": 1.0,
    "filter_scheduler.disk_weight_multiplier": 1.0,
    "libvirt.virt_type": "kvm",
    "libvirt.connection_uri": "",
    "vnc.server_listen": "127.0.0.1",
    "api.max_limit": 1000,
}


@pytest.mark.parametrize(("name", "expected"), NOVA.items())
def test_defaults_are_novas(name: str, expected: object) -> None:
    group, _, option = name.partition(".")
    conf = configuration.load([], "test", files=[])
    value = conf[option] if group == "DEFAULT" else conf[group][option]
    assert value == expected


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[DEFAULT]\nreport_interval = soon\n", "report_interval"),
        ("[DEFAULT]\nreport_interval = 0\n", "report_interval"),
        ("[DEFAULT]\ncompute_driver = xen\n", "compute_driver"),
        ("[DEFAULT]\nram_allocation_ratio = nan\n", "ram_allocation_ratio = nan in .*: nan is no finite number"),
        ("[DEFAULT]\ncpu_allocation_ratio = inf\n", "cpu_allocation_ratio = inf in .*: inf is no finite number"),
        ("[libvirt]\nvirt_type = parallels\n", "virt_type"),
        ("[scheduler]\nmax_attempts = 0\n", "max_attempts"),
        ("[api]\nauth_strategy = guess\n", "auth_strategy"),
        ("[api]\nosapi_compute_listen_port = 99999\n", "osapi_compute_listen_port"),
        ("[database]\nconnection = $no_such_option/x\n", "connection"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "minova.conf"
    file.write_text(text)
    with pytest.raises(errors.InvalidConfiguration, match=named):
        configuration.load(["--config-file", str(file)], "test", files=[])


def test_the_old_name_of_the_scheduler_driver_still_works(tmp_path: Path) -> None:
    file = tmp_path / "minova.conf"
    file.write_text("[DEFAULT]\nscheduler_driver = chance_scheduler\n")
    conf = configuration.load(["--config-file", str(file)], "test", files=[])
    assert conf.scheduler.driver == "chance_scheduler"


def test_a_service_reads_the_files_of_all_services_and_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~/.minova` stands in for /etc/minova: oslo.config looks into both for the same names."""
    monkeypatch.setenv("HOME", str(tmp_path))
    names = [
        "minova.conf",
        "minova-compute.conf",
        "minova.conf.d/10-first.conf",
        "minova.conf.d/20-second.conf",
        "minova-compute.conf.d/10-first.conf",
    ]
    for port, name in enumerate(["minova-conductor.conf", "minova-conductor.conf.d/a.conf", *names], start=2000):
        file = tmp_path / ".minova" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"[glance]\nnum_retries = {port}\n")
    read = []
    for name in reversed(names):
        conf = configuration.load([], "minova-compute")
        assert conf.glance.num_retries == 2002 + names.index(name)
        read.append(configuration.files(conf))
        (tmp_path / ".minova" / name).unlink()
    assert read[0] == [tmp_path / ".minova" / name for name in names]
