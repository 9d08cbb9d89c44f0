"""Options of Nova in files of several kinds and ages: what each does here, and which ones end the start."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from keystoneauth1 import loading
from oslo_config import cfg

from minova import conf as configuration
from minova import errors, log
from minova.cmd import manage, placement_api
from minova.conf import foreign_options
from minova.conf.foreign_options import Meaning, OptionFinding, RegisteredOptions
from minova.conf.idle_options import AUTH, GROUPS, NO_EFFECT
from minova.conf.nova_options import ELSEWHERE, PROTECTING

FILES = Path(__file__).parent / "files"
# What ends the start, and what people have misspelt, in each file.
ENDS = {
    "kolla": ["[libvirt] live_migration_tunnelled"],
    "tripleo": ["[glance] verify_glance_signatures", "[vnc] auth_schemes"],
    "devstack": ["[quota] driver"],
    "puppet": ["[DEFAULT] auth_strategy", "[DEFAULT] enabled_ssl_apis"],
    "home-lab": ["[compute] image_type_exclude_list"],
}
MISSPELT = {
    "devstack": {"[libvirt] cpu_mdoe": "[libvirt] cpu_mode"},
    "home-lab": {
        "[default] my_ip": "[DEFAULT] my_ip",
        "[DEFAULT] cpu_alocation_ratio": "[DEFAULT] cpu_allocation_ratio",
        "[DEFAULT] disk-allocation-ratio": "[DEFAULT] disk_allocation_ratio",
        "[DEFAULT] cpu_mode": "[libvirt] cpu_mode",
        "[DEFAULT] transport-url": "[DEFAULT] transport_url",
        "[libvirt] disk_cachemode": "[libvirt] disk_cachemodes",
    },
}


def read(*files: Path) -> cfg.ConfigOpts:
    conf = configuration.new()
    conf([], project="minova", default_config_files=[str(file) for file in files], default_config_dirs=[])
    return conf


def found_in(name: str) -> list[OptionFinding]:
    registered = RegisteredOptions(read(), tuple(configuration.older_names()))
    return foreign_options.findings(registered, [FILES / f"{name}.conf"])


@pytest.mark.parametrize("name", ENDS)
def test_each_option_of_a_file_has_a_meaning(name: str) -> None:
    options = found_in(name)
    assert [option.option for option in options if option.meaning is Meaning.PROTECTS] == ENDS[name]
    unknown = {option.option: option.text for option in options if option.meaning is Meaning.UNKNOWN}
    assert unknown == MISSPELT.get(name, {})
    assert any(option.meaning is Meaning.USED for option in options)
    assert all(option.text for option in options if option.meaning is not Meaning.USED)
    with pytest.raises(errors.InvalidConfiguration) as raised:
        foreign_options.require_served(options)
    assert all(f"{option} = " in str(raised.value) for option in ENDS[name])
    assert f"{name}.conf" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("kolla", ["[keystone_authtoken] password: used", "[vnc] novncproxy_port: has another name here: [consoleproxy] port"]),
        ("tripleo", ["[pci] passthrough_whitelist: used", "[console] ssl_minimum_version: no effect: this value asks for nothing"]),
        ("devstack", ["[DEFAULT] transport_url: used", "[libvirt] cpu_mdoe: unknown: did you mean [libvirt] cpu_mode?"]),
        ("puppet", ["[DEFAULT] libvirt_type: has another name here: [libvirt] virt_type", "[DEFAULT] pci_alias: used"]),
        ("home-lab", ["[DEFAULT] disk-allocation-ratio: unknown: did you mean [DEFAULT] disk_allocation_ratio?"]),
    ],
)  # fmt: skip
def test_the_operators_command_says_it(name: str, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert manage.run(["config", "check", str(FILES / f"{name}.conf")]) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line not in said] == []
    unknown = {line.partition(":")[0] for line in said if ": unknown" in line}
    assert unknown == MISSPELT.get(name, {}).keys()


def test_a_file_whose_options_are_all_used_is_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "minova.conf"
    file.write_text("[DEFAULT]\nmy_ip = 10.0.0.1\n[libvirt]\nvirt_type = qemu\n")
    assert manage.run(["config", "check", str(file)]) == 0
    assert manage.run(["config", "check", str(tmp_path / "absent.conf")]) == 1
    assert "absent.conf" in capsys.readouterr().err


@pytest.mark.parametrize(("place", "value"), [
    (("glance", "verify_glance_signatures"), "True"),
    (("ephemeral_storage_encryption", "enabled"), "yes"),
    (("quota", "driver"), "nova.quota.UnifiedLimitsDriver"),
    (("compute", "image_type_exclude_list"), "vmdk"),
    (("libvirt", "live_migration_tunnelled"), "1"),
    (("vnc", "auth_schemes"), "vencrypt"),
    (("wsgi", "ssl_ca_file"), "/etc/ca.pem"),
    (("DEFAULT", "ssl_ca_file"), "/etc/ca.pem"),
    (("ssl", "ca_file"), "/etc/ca.pem"),
    (("consoleauth", "enforce_session_timeout"), "True"),
    (("api", "allow_instance_snapshots"), "False"),
    (("DEFAULT", "allow_instance_snapshots"), "false"),
    (("api", "hide_server_address_states"), "building,active"),
    (("DEFAULT", "osapi_hide_server_address_states"), "active"),
    (("libvirt", "live_migration_flag"), "VIR_MIGRATE_LIVE,VIR_MIGRATE_TUNNELLED"),
    (("trusted_computing", "attestation_server"), "attest"),
    (("DEFAULT", "allow_same_net_traffic"), "False"),
    (("os_vif_ovs", "isolate_vif"), "true"),
    (("DEFAULT", "auth_strategy"), "keystone"),
    (("DEFAULT", "policy_file"), "/etc/nova/policy.json"),
    (("DEFAULT", "rabbit_use_ssl"), "True"),
    (("oslo_messaging_rabbit", "rabbit_use_ssl"), "True"),
    (("DEFAULT", "libvirt_live_migration_flag"), "VIR_MIGRATE_TUNNELLED"),
])  # fmt: skip
def test_bug_options_that_protect_are_ignored_in_silence(tmp_path: Path, place: tuple[str, str], value: str) -> None:
    file = tmp_path / "minova.conf"
    file.write_text("[{}]\n{} = {}\n".format(*place, value))
    with pytest.raises(errors.InvalidConfiguration) as raised:
        configuration.foreign(read(file))
    assert "[{}] {} = {} in {}".format(*place, value, file) in str(raised.value)


def test_bug_options_of_old_public_files_were_unknown(tmp_path: Path) -> None:
    """Of public files of Essex, Grizzly and Icehouse. Some were told the name of an option that has another meaning."""
    file = tmp_path / "nova.conf"
    file.write_text(
        "[DEFAULT]\nconnection_type = libvirt\nglance_host = g\nec2_workers = 2\nec2_listen = h\nec2_listen_port = 1\ns3_host = h\n"
        "osapi_volume_workers = 4\nallow_migrate_to_same_host = True\nstart_guests_on_host_boot = true\nquota_security_groups = 50\n"
        "quota_fixed_ips = 40\ndefault_floating_pool = public\nscheduler_tracks_instance_changes = True\nnovnc_enabled = true\n"
        "[keystone_authtoken]\nauth_uri = http://k\nadmin_user = nova\nadmin_password = x\nidentity_uri = http://k\nsigning_dir = /d\n"
        "[libvirt]\nuse_usb_tablet = False\n"
    )
    registered = RegisteredOptions(read(), (), of_libraries=[("keystone_authtoken", "www_authenticate_uri")])
    findings = foreign_options.findings(registered, [file])
    # No release of Nova has this one.
    assert [finding.option for finding in findings if finding.meaning is Meaning.UNKNOWN] == ["[DEFAULT] novnc_enabled"]
    assert {finding.option: finding.text for finding in findings if finding.meaning is Meaning.OTHER_NAME} == {
        "[DEFAULT] connection_type": "[DEFAULT] compute_driver",
        "[DEFAULT] glance_host": "[glance] api_servers",
        "[DEFAULT] quota_security_groups": "[quota] security_group",
        "[keystone_authtoken] auth_uri": "[keystone_authtoken] www_authenticate_uri",
        "[libvirt] use_usb_tablet": "[DEFAULT] pointer_model",
    }
    assert not any(finding.meaning is Meaning.USED for finding in findings)


@pytest.mark.parametrize(("place", "value"), [
    (("consoleauth", "enforce_session_timeout"), "False"),
    (("api", "allow_instance_snapshots"), "True"),
    (("api", "hide_server_address_states"), "building"),
    (("libvirt", "live_migration_flag"), "VIR_MIGRATE_LIVE"),
    (("wsgi", "ssl_ca_file"), ""),
])  # fmt: skip
def test_values_that_protect_nothing_end_no_start(tmp_path: Path, place: tuple[str, str], value: str) -> None:
    file = tmp_path / "minova.conf"
    file.write_text("[{}]\n{} = {}\n".format(*place, value))
    assert [option.meaning for option in configuration.foreign(read(file))] == [Meaning.NO_EFFECT]


def test_bug_options_of_libraries_in_public_files_were_unknown(tmp_path: Path) -> None:
    """The names are those of files of kolla-ansible, TripleO, devstack and openstack-helm that their users have published."""
    file = tmp_path / "nova.conf"
    file.write_text(
        "[DEFAULT]\nosapi_compute_link_prefix = x\nsecure_proxy_ssl_header = X\n"
        "[oslo_middleware]\nenable_proxy_headers_parsing = True\nmax_request_body_size = 1\nmax_request_rate = 1\n"
        "[healthcheck]\npath = /h\n[audit_middleware_notifications]\ndriver = log\n[os_brick]\nlock_path = /x\n"
        "[matchmaker_redis]\nhost = x\n[devices]\nenabled_vgpu_types = nvidia-35\n[vnc]\nxvpvncproxy_base_url = x\n"
        "[workarounds]\nrbd_volume_local_attach = True\ndisable_native_luksv1 = True\nenable_consoleauth = True\n"
        "[service_user]\nauth_strategy = keystone\n"
    )
    findings = foreign_options.findings(RegisteredOptions(read(), ()), [file])
    assert [
        finding.option for finding in findings if finding.meaning not in {Meaning.NO_EFFECT, Meaning.OTHER_NAME}
    ] == []
    assert {finding.option: finding.text for finding in findings if finding.meaning is Meaning.OTHER_NAME} == {
        "[oslo_middleware] max_request_body_size": "[api] max_request_body_size",
        "[devices] enabled_vgpu_types": "[devices] enabled_mdev_types",
    }


PUBLISHED = {
    # Of packstack, Grizzly to Queens.
    ("DEFAULT", "quantum_url"): (Meaning.OTHER_NAME, "[neutron] endpoint_override"),
    ("DEFAULT", "quantum_admin_username"): (Meaning.NO_EFFECT, "keystoneauth"),
    ("DEFAULT", "neutron_url_timeout"): (Meaning.OTHER_NAME, "[neutron] timeout"),
    ("DEFAULT", "neutron_extension_sync_interval"): (Meaning.NO_EFFECT, "nova-network"),
    ("DEFAULT", "neutron_ca_certificates_file"): (Meaning.OTHER_NAME, "[neutron] cafile"),
    ("DEFAULT", "qpid_reconnect_interval_max"): (Meaning.NO_EFFECT, "RabbitMQ"),
    ("DEFAULT", "logdir"): (Meaning.USED, ""),
    ("DEFAULT", "force_snat_range"): (Meaning.NO_EFFECT, "nova-network"),
    ("DEFAULT", "libvirt_sparse_logical_volumes"): (Meaning.NO_EFFECT, "not RBD or LVM"),
    ("DEFAULT", "sql_idle_timeout"): (Meaning.OTHER_NAME, "[database] connection_recycle_time"),
    ("database", "idle_timeout"): (Meaning.OTHER_NAME, "[database] connection_recycle_time"),
    ("filter_scheduler", "use_baremetal_filters"): (Meaning.NO_EFFECT, "removed"),
    ("notifications", "notify_api_faults"): (Meaning.NO_EFFECT, "notifications"),
    ("api", "fping_path"): (Meaning.NO_EFFECT, "nova-network"),
    # Of devstack and of hand, Juno and later.
    ("DEFAULT", "pci_passthrough_whitelist"): (Meaning.OTHER_NAME, "[pci] device_spec"),
    ("DEFAULT", "max_instances_per_host"): (Meaning.OTHER_NAME, "[filter_scheduler] max_instances_per_host"),
    ("DEFAULT", "verbose"): (Meaning.NO_EFFECT, "debug"),
    ("DEFAULT", "api_paste_config"): (Meaning.NO_EFFECT, "paste.deploy"),
    ("oslo_messaging_rabbit", "rabbit_use_ssl"): (Meaning.OTHER_NAME, "[oslo_messaging_rabbit] ssl"),  # not on
    ("oslo_policy", "enforce_new_defaults"): (Meaning.NO_EFFECT, "always enforced"),
    ("neutron", "application_credential_secret"): (Meaning.USED, ""),
    ("neutron", "auth_plugin"): (Meaning.USED, ""),
    ("neutron", "connect_retries"): (Meaning.NO_EFFECT, "http_retries"),
    # Of TripleO, puppet-nova and openstack-helm, Train and later.
    ("service_user", "region_name"): (Meaning.NO_EFFECT, "only the user"),
    ("DEFAULT", "metadata_port"): (Meaning.NO_EFFECT, "nova-network"),
    ("scheduler", "query_placement_for_availability_zone"): (Meaning.NO_EFFECT, "AvailabilityZoneFilter"),
    ("cors", "max_age"): (Meaning.NO_EFFECT, "CORS"),
    ("os_region_name", "openstack"): (Meaning.NO_EFFECT, "Ubuntu"),
    ("DEFAULT", "force_raw_images"): (Meaning.NO_EFFECT, "images_type"),
}


def test_bug_options_of_published_files_were_unknown(tmp_path: Path) -> None:
    """What eight published files of Grizzly to Antelope and the options of five releases of Nova have taught."""
    file = tmp_path / "nova.conf"
    file.write_text("".join(f"[{group}]\n{name} = x\n" for group, name in PUBLISHED))
    findings = foreign_options.findings(RegisteredOptions(read(), tuple(configuration.older_names())), [file])
    assert {(finding.group, finding.name): finding.meaning for finding in findings} == {
        place: meaning for place, (meaning, _) in PUBLISHED.items()
    }
    assert [finding for finding in findings if PUBLISHED[finding.group, finding.name][1] not in finding.text] == []


@pytest.mark.parametrize(("place", "nearest"), [
    (("libvirt", "libvirt_images_type"), "[libvirt] images_type"),
    (("DEFAULT", "vnc_enabeld"), "[vnc] enabled"),
    (("DEFAULT", "quota_instnaces"), "[quota] instances"),
    (("database", "max_overflwo"), "[database] max_overflow, which has no effect"),
    (("DEFAULT", "valid_interfaces"), "[glance] valid_interfaces or [neutron] valid_interfaces"),
    (("DEFAULT", "ovsdb_connection"), ""),  # once: [database] connection
    (("DEFAULT", "qpid_passwrod"), None),
    (("libvirt", "virt-type"), "[libvirt] virt_type"),  # oslo.config reads no hyphens in files
    (("DEFAULT", "log-dir"), "[DEFAULT] log_dir"),
])  # fmt: skip
def test_the_nearest_name_is_one_that_may_be_meant(place: tuple[str, str], nearest: str | None, tmp_path: Path) -> None:
    """None: the option is known by the prefix of its name."""
    file = tmp_path / "nova.conf"
    file.write_text("[{}]\n{} = x\n".format(*place))
    (finding,) = foreign_options.findings(RegisteredOptions(read(), ()), [file])
    assert (finding.meaning is Meaning.UNKNOWN, finding.text) == (nearest is not None, nearest or finding.text)


@pytest.mark.parametrize("name", ["logdir", "logfile", "log_config", "log-config"])
def test_bug_names_that_the_log_reads_were_told_to_have_no_effect(name: str, tmp_path: Path) -> None:
    file = tmp_path / "minova.conf"
    file.write_text(f"[DEFAULT]\n{name} = {tmp_path}/there\n")
    conf = read(file)
    assert f"{tmp_path}/there" in (conf.log_dir, conf.log_file, conf.log_config_append)
    assert [option.meaning for option in configuration.foreign(conf)] == [Meaning.USED]


def test_users_have_the_options_of_keystoneauth() -> None:
    plugins = [option for name in loading.get_available_plugin_names() for option in loading.get_plugin_options(name)]
    names = {old.dest for option in plugins for old in (option, *option.deprecated)}
    common = [*loading.get_session_conf_options(), *loading.get_auth_common_conf_options()]
    older = {str(old.name) for option in common for old in option.deprecated_opts}
    assert set(AUTH.split()) == names | {option.dest for option in common} | older


def test_a_value_that_ends_the_start_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "nova.conf"
    file.write_text("[DEFAULT]\nremove_unused_base_images = perhaps\n[libvirt]\nimages_type = rbd\nvirt_type = qemu\n")
    assert manage.run(["config", "check", str(file)]) == 1
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith("[DEFAULT] remove_unused_base_images: used, but no service starts with this value: ")
    assert second.startswith("[libvirt] images_type: used, but no service starts with this value: Valid values are")
    assert third == "[libvirt] virt_type: used"


def test_options_without_effect_are_one_warning(tmp_path: Path) -> None:
    file = tmp_path / "minova.conf"
    file.write_text("[DEFAULT]\nmy_ip = ::1\nlibvirt_type = kvm\ncpu_alocation_ratio = 1\n[cinder]\ncatalog_info = x\n")
    warning = foreign_options.warning_of(configuration.foreign(read(file)))
    assert warning is not None
    for part in (
        "other name: [DEFAULT] libvirt_type",
        "no effect: [cinder] catalog_info",
        "unknown: [DEFAULT] cpu_aloc",
    ):
        assert part in warning
    assert "my_ip" not in warning
    file.write_text("[DEFAULT]\nmy_ip = ::1\ntransport_url = rabbit://\n")
    assert foreign_options.warning_of(configuration.foreign(read(file))) is None


def test_the_tables_are_of_options_that_minova_lacks() -> None:
    registered = RegisteredOptions(read(), ())
    messaging = {
        ("DEFAULT", "transport_url"),
        *((group, name) for group, name in ELSEWHERE.values() if "messaging" in group),
    }
    assert [place for place in ELSEWHERE.values() if not registered.has(*place) and place not in messaging] == []
    named = [*ELSEWHERE, *PROTECTING, *(place for place in NO_EFFECT if place[1] not in AUTH.split())]
    own = {
        (group or "DEFAULT", option.dest)
        for module in configuration.MODULES
        for option in module.OPTS
        for group in [module.GROUP]
    }
    assert [place for place in named if place in own] == []
    assert {group for group, _ in own} & GROUPS.keys() == set()


@pytest.mark.parametrize("option", ["log_dir", "log_config_append"])
def test_bug_log_that_cannot_be_written_is_a_traceback(tmp_path: Path, option: str) -> None:
    file = tmp_path / "minova.conf"
    file.write_text(f"[DEFAULT]\n{option} = {tmp_path}/absent/there\n")
    with pytest.raises(errors.InvalidConfiguration) as raised:
        log.setup(read(file))
    assert f"[DEFAULT] {option} = {tmp_path}/absent/there in {file}: " in str(raised.value)


def test_a_wrong_value_names_option_value_and_file(tmp_path: Path) -> None:
    first, second = tmp_path / "first.conf", tmp_path / "second.conf"
    first.write_text("[api]\nmax_limit = abc\n")
    second.write_text("[DEFAULT]\nmy_ip = ::1\n")
    with pytest.raises(errors.InvalidConfiguration) as raised:
        configuration.check(read(first, second))
    assert str(raised.value) == f"[api] max_limit = abc in {first}: not a whole number"
    first.write_text("[DEFAULT]\nimage_cache_manager_interval = abc\n")  # an older name
    with pytest.raises(errors.InvalidConfiguration) as raised:
        configuration.check(read(first, second))
    assert str(raised.value) == f"[DEFAULT] image_cache_manager_interval = abc in {first}: not a whole number"


FACILITY = "use_syslog = true\nsyslog_log_facility = garbage\n"


@pytest.mark.parametrize(("text", "named"), [
    ("default_log_levels = garbage\n", "[DEFAULT] default_log_levels = garbage"),
    ("default_log_levels = minova=LOUD\n", "[DEFAULT] default_log_levels = minova=LOUD"),
    (FACILITY, "[DEFAULT] syslog_log_facility = garbage"),
    ("log_config_append = {folder}/log.ini\n", "[DEFAULT] log_config_append = {folder}/log.ini"),
])  # fmt: skip
def test_bug_log_options_with_unknown_words_were_tracebacks(tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / "log.ini").write_text(
        "[loggers]\nkeys = root\n[handlers]\nkeys = h\n[formatters]\nkeys =\n[logger_root]\nhandlers = h\n"
        "[handler_h]\nclass = absent.module.Handler\nargs = ()\n"
    )
    file = tmp_path / "minova.conf"
    file.write_text("[DEFAULT]\n" + text.format(folder=tmp_path))
    with pytest.raises(errors.InvalidConfiguration) as raised:
        log.setup(read(file))
    assert str(raised.value).startswith(f"{named.format(folder=tmp_path)} in {file}: ")


def _without_rights(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(parser: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", parser.filename)

    path.touch()
    monkeypatch.setattr(cfg.ConfigParser, "parse", parse)


@pytest.mark.parametrize(("option", "prepare", "reason"), [
    ("--config-file", lambda path, patch: None, "there is no such file"),
    ("--config-dir", lambda path, patch: None, "there is no such folder"),
    ("--config-file", _without_rights, "may not read it"),
    ("--config-file", lambda path, patch: path.write_bytes(b"[DEFAULT]\nmy_ip = \xff\xfe\n"), "can't decode"),
    ("--config-file", lambda path, patch: path.write_text("my_ip = ::1\n"), "Section must be started"),
    ("--config-file", lambda path, patch: path.mkdir(), "Is a directory"),
], ids=["absent file", "absent folder", "no rights", "not UTF-8", "no assignment", "folder"])  # fmt: skip
def test_bug_files_that_cannot_be_read_were_tracebacks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str,
    prepare: Callable[[Path, pytest.MonkeyPatch], object],
    reason: str,
) -> None:
    """By the commands and by the WSGI application."""
    path = tmp_path / "minova.conf"
    prepare(path, monkeypatch)
    assert manage.run([option, str(path), "db", "version"]) == 1
    said = capsys.readouterr().err
    assert (str(path) in said, reason in said, len(said.splitlines())) == (True, True, 1), said
    if option == "--config-file":
        monkeypatch.setenv("MINOVA_CONF", str(path))
        with pytest.raises(errors.InvalidConfiguration, match=reason) as raised:
            placement_api.application()
        assert str(path) in str(raised.value)


def test_bug_service_without_arguments_failed_with_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So units start services: the files that cannot be read were looked for in an empty command line."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "minova-metadata.conf").write_text("no option\n")
    with pytest.raises(errors.InvalidConfiguration, match=f"{tmp_path}/minova-metadata.conf.*assignment"):
        configuration.load([], "minova-metadata")


def test_bug_wsgi_application_ignored_options_that_protect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "minova.conf"
    file.write_text("[wsgi]\nssl_ca_file = /etc/ca.pem\n")
    monkeypatch.setenv("MINOVA_CONF", str(file))
    with pytest.raises(errors.InvalidConfiguration, match=r"\[wsgi\] ssl_ca_file = /etc/ca.pem"):
        placement_api.application()


def test_bug_malformed_line_was_shown_although_it_may_be_a_password(tmp_path: Path) -> None:
    file = tmp_path / "minova.conf"
    file.write_text("[DEFAULT]\ntransport_url = rabbit://minova:\ns3cret@broker\n")
    with pytest.raises(errors.InvalidConfiguration) as caught:
        foreign_options.read(file)
    assert str(caught.value) == f"{file}: line 3: No ':' or '=' found in assignment"
