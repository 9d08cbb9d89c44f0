"""Options of Nova in files of several kinds and ages: what each does here, and which ones end the start."""

from pathlib import Path

import pytest
from oslo_config import cfg

from minova import conf as configuration
from minova import errors, log
from minova.cmd import manage
from minova.conf import foreign_options
from minova.conf.foreign_options import Meaning, OptionFinding, RegisteredOptions
from minova.conf.nova_options import AUTH, ELSEWHERE, GROUPS, NO_EFFECT, PROTECTING

FILES = Path(__file__).parent / "files"
# What ends the start, and what people have misspelt, in each file.
ENDS = {
    "kolla": ["[libvirt] live_migration_tunnelled"],
    "tripleo": ["[glance] verify_glance_signatures", "[vnc] auth_schemes"],
    "devstack": ["[quota] driver"],
    "puppet": ["[DEFAULT] enabled_ssl_apis"],
    "home-lab": ["[compute] image_type_exclude_list"],
}
MISSPELT = {
    "devstack": {"[libvirt] cpu_mdoe": "[libvirt] cpu_mode"},
    "home-lab": {
        "[default] my_ip": "[DEFAULT] my_ip",
        "[DEFAULT] cpu_alocation_ratio": "[DEFAULT] cpu_allocation_ratio",
        "[DEFAULT] cpu_mode": "[libvirt] cpu_mode",
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
    found = found_in(name)
    assert [one.option for one in found if one.meaning is Meaning.PROTECTS] == ENDS[name]
    unknown = {one.option: one.text for one in found if one.meaning is Meaning.UNKNOWN}
    assert unknown == MISSPELT.get(name, {})
    assert any(one.meaning is Meaning.USED for one in found)
    assert all(one.text for one in found if one.meaning is not Meaning.USED)
    with pytest.raises(errors.InvalidConfiguration) as raised:
        foreign_options.require_served(found)
    assert all(f"{option} = " in str(raised.value) for option in ENDS[name])
    assert f"{name}.conf" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("kolla", ["[keystone_authtoken] password: used", "[vnc] novncproxy_port: has another name here: [consoleproxy] port"]),
        ("tripleo", ["[pci] passthrough_whitelist: used", "[console] ssl_minimum_version: no effect: this value asks for nothing"]),
        ("devstack", ["[DEFAULT] transport_url: used", "[libvirt] cpu_mdoe: unknown: did you mean [libvirt] cpu_mode?"]),
        ("puppet", ["[DEFAULT] libvirt_type: has another name here: [libvirt] virt_type", "[DEFAULT] pci_alias: used"]),
        ("home-lab", ["[DEFAULT] disk_allocation_ratio: used"]),
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
    found = foreign_options.findings(registered, [file])
    # No release of Nova has this one.
    assert [one.option for one in found if one.meaning is Meaning.UNKNOWN] == ["[DEFAULT] novnc_enabled"]
    assert {one.option: one.text for one in found if one.meaning is Meaning.OTHER_NAME} == {
        "[DEFAULT] connection_type": "[DEFAULT] compute_driver",
        "[DEFAULT] glance_host": "[glance] api_servers",
        "[DEFAULT] quota_security_groups": "[quota] security_group",
        "[keystone_authtoken] auth_uri": "[keystone_authtoken] www_authenticate_uri",
        "[libvirt] use_usb_tablet": "[DEFAULT] pointer_model",
    }
    assert not any(one.meaning is Meaning.USED for one in found)


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
    assert str(raised.value) == f"[api] max_limit = abc in {first}: invalid literal for int() with base 10: 'abc'"
