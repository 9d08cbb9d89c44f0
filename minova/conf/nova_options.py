"""Options of Nova, of this and earlier releases, that minova does not have under that name: what each is called here, and which
ones protect something, so that minova must not start as if they were served.
"""

from collections.abc import Callable
from typing import NamedTuple

from minova.conf.idle_options import Place

_D = "DEFAULT"


class Protection(NamedTuple):
    """An option that protects something if `asks` is true of its value."""

    asks: Callable[[str], bool]
    what: str


def _on(value: str) -> bool:
    return value.strip().lower() in {"1", "on", "true", "yes"}


def _off(value: str) -> bool:
    return value.strip().lower() in {"0", "off", "false", "no"}


def _is_set(value: str) -> bool:
    return bool(value.strip())


def _tunnels(value: str) -> bool:
    return "tunnelled" in value.lower()


def _hides(value: str) -> bool:
    """The addresses of servers that are being built were hidden by default, and no longer are."""
    return bool({state.strip() for state in value.split(",")} - {"", "building"})


_CLIENTS = "clients are not asked for certificates: a proxy before minova-api can do that"
_TUNNEL = "migrations do not go through libvirt's connection: use live_migration_with_native_tls"
_SNAPSHOTS = "users may make images of their servers: forbid it by the policy os_compute_api:servers:create_image"
_ADDRESSES = "addresses are shown in each state of a server"
_ATTESTATION = "no server attests hosts"
_ISOLATION = "libvirt gives a port of Open vSwitch no VLAN, so it is not isolated until Neutron's agent has configured it: remove the option to accept this"


PROTECTING: dict[Place, Protection] = {
    ("glance", "verify_glance_signatures"): Protection(_on, "signatures of images are not verified"),
    ("glance", "enable_certificate_validation"): Protection(_on, "certificates of images' signatures are not verified"),
    ("glance", "default_trusted_certificate_ids"): Protection(
        _is_set, "certificates of images' signatures are not verified"
    ),
    ("ephemeral_storage_encryption", "enabled"): Protection(_on, "disks of guests are not encrypted"),
    ("quota", "driver"): Protection(
        lambda value: "unified" in value.lower(), "limits of Keystone are not read: minova keeps quotas itself"
    ),
    ("compute", "image_type_exclude_list"): Protection(_is_set, "no format of images is excluded"),
    ("libvirt", "live_migration_tunnelled"): Protection(_on, _TUNNEL),
    **{
        (group, name): Protection(_tunnels, _TUNNEL)
        for group in (_D, "libvirt") for name in ("live_migration_flag", "block_migration_flag")
    },
    **{
        (group, name): Protection(_is_set, _CLIENTS)
        for group, name in ((_D, "ssl_ca_file"), ("wsgi", "ssl_ca_file"), ("ssl", "ca_file"))
    },
    ("consoleauth", "enforce_session_timeout"): Protection(_on, "open consoles stay open when their token has expired"),
    **{(group, "allow_instance_snapshots"): Protection(_off, _SNAPSHOTS) for group in (_D, "api")},
    **{
        (group, name): Protection(_hides, _ADDRESSES)
        for group, name in (
            (_D, "osapi_hide_server_address_states"), (_D, "hide_server_address_states"), ("api", "hide_server_address_states"),
        )
    },
    **{(group, "attestation_server"): Protection(_is_set, _ATTESTATION) for group in (_D, "trusted_computing")},
    ("os_vif_ovs", "isolate_vif"): Protection(_on, _ISOLATION),
    # They are read under other names alone.
    (_D, "auth_strategy"): Protection(
        lambda value: not value.startswith("noauth"), "set [api] auth_strategy: without it users are not authenticated"
    ),
    (_D, "policy_file"): Protection(_is_set, "set [oslo_policy] policy_file: without it the default policies hold"),
    **{
        (group, "rabbit_use_ssl"): Protection(_on, "set [oslo_messaging_rabbit] ssl: without it the broker is spoken to without TLS")
        for group in (_D, "oslo_messaging_rabbit")
    },
    (_D, "allow_same_net_traffic"): Protection(
        _off, "servers of a network reach each other where their security groups allow it"
    ),
    ("vnc", "auth_schemes"): Protection(
        lambda value: "vencrypt" in value.lower(), "VNC connections to hypervisors are not encrypted"
    ),
    ("console", "ssl_minimum_version"): Protection(
        lambda value: value.strip().lower() == "tlsv1_3", "minova-consoleproxy also accepts TLS 1.2"
    ),
    ("console", "ssl_ciphers"): Protection(_is_set, "ciphers of minova-consoleproxy cannot be chosen"),
    (_D, "ssl_only"): Protection(_on, "set [consoleproxy] ssl_cert_file and ssl_key_file: then all connections are TLS"),
    (_D, "enabled_ssl_apis"): Protection(_is_set, "set [api] ssl_cert_file and ssl_key_file"),
    ("spice", "require_secure"): Protection(_on, "SPICE consoles are not served"),
    ("workarounds", "reserve_disk_resource_for_image_cache"): Protection(
        _on, "the image cache is not counted: set [DEFAULT] reserved_host_disk_mb"
    ),
}  # fmt: skip

# Other names of what minova has, and names of earlier releases of Nova, back to the first ones.
ELSEWHERE: dict[Place, Place] = {
    (_D, "connection_type"): (_D, "compute_driver"),
    (_D, "use_usb_tablet"): (_D, "pointer_model"),
    ("libvirt", "use_usb_tablet"): (_D, "pointer_model"),
    (_D, "libvirt_type"): ("libvirt", "virt_type"),
    ("libvirt", "cpu_model"): ("libvirt", "cpu_models"),
    (_D, "libvirt_uri"): ("libvirt", "connection_uri"),
    ("libvirt", "migration_inbound_addr"): ("libvirt", "live_migration_inbound_addr"),
    (_D, "vncserver_listen"): ("vnc", "server_listen"),
    ("vnc", "vncserver_listen"): ("vnc", "server_listen"),
    (_D, "vncserver_proxyclient_address"): ("vnc", "server_proxyclient_address"),
    ("vnc", "vncserver_proxyclient_address"): ("vnc", "server_proxyclient_address"),
    (_D, "novncproxy_base_url"): ("vnc", "novncproxy_base_url"),
    (_D, "novncproxy_host"): ("consoleproxy", "listen"),
    (_D, "novncproxy_port"): ("consoleproxy", "port"),
    ("vnc", "novncproxy_host"): ("consoleproxy", "listen"),
    ("vnc", "novncproxy_port"): ("consoleproxy", "port"),
    ("serial_console", "serialproxy_host"): ("consoleproxy", "listen"),
    ("serial_console", "serialproxy_port"): ("consoleproxy", "port"),
    (_D, "web"): ("consoleproxy", "web"),
    (_D, "cert"): ("consoleproxy", "ssl_cert_file"),
    (_D, "key"): ("consoleproxy", "ssl_key_file"),
    ("console", "allowed_origins"): ("consoleproxy", "allowed_origins"),
    ("oslo_middleware", "max_request_body_size"): ("api", "max_request_body_size"),
    ("oslo_middleware", "http_basic_auth_user_file"): ("api", "http_basic_auth_user_file"),
    (_D, "osapi_max_request_body_size"): ("api", "max_request_body_size"),
    (_D, "max_request_body_size"): ("api", "max_request_body_size"),
    (_D, "console_allowed_origins"): ("consoleproxy", "allowed_origins"),
    (_D, "console_token_ttl"): ("consoleauth", "token_ttl"),
    (_D, "pci_passthrough_whitelist"): ("pci", "device_spec"),
    (_D, "base_dir_name"): (_D, "image_cache_subdirectory_name"),
    ("database", "idle_timeout"): ("database", "connection_recycle_time"),
    ("devices", "enabled_vgpu_types"): ("devices", "enabled_mdev_types"),
    ("wsgi", "ssl_cert_file"): ("api", "ssl_cert_file"),
    ("wsgi", "ssl_key_file"): ("api", "ssl_key_file"),
    (_D, "ssl_cert_file"): ("api", "ssl_cert_file"),
    (_D, "ssl_key_file"): ("api", "ssl_key_file"),
    (_D, "glance_host"): ("glance", "api_servers"),
    (_D, "glance_port"): ("glance", "api_servers"),
    (_D, "glance_protocol"): ("glance", "api_servers"),
    ("keystone_authtoken", "auth_uri"): ("keystone_authtoken", "www_authenticate_uri"),
    (_D, "rpc_backend"): (_D, "transport_url"),
    (_D, "rabbit_host"): (_D, "transport_url"),
    (_D, "rabbit_hosts"): (_D, "transport_url"),
    (_D, "rabbit_port"): (_D, "transport_url"),
    (_D, "rabbit_userid"): (_D, "transport_url"),
    (_D, "rabbit_password"): (_D, "transport_url"),
    (_D, "rabbit_virtual_host"): (_D, "transport_url"),
    ("oslo_messaging_rabbit", "rabbit_host"): (_D, "transport_url"),
    ("oslo_messaging_rabbit", "rabbit_hosts"): (_D, "transport_url"),
    ("oslo_messaging_rabbit", "rabbit_userid"): (_D, "transport_url"),
    ("oslo_messaging_rabbit", "rabbit_password"): (_D, "transport_url"),
    ("oslo_messaging_rabbit", "rabbit_port"): (_D, "transport_url"),
    ("oslo_messaging_rabbit", "rabbit_virtual_host"): (_D, "transport_url"),
    ("oslo_messaging_rabbit", "rabbit_use_ssl"): ("oslo_messaging_rabbit", "ssl"),
    ("oslo_messaging_rabbit", "kombu_ssl_keyfile"): ("oslo_messaging_rabbit", "ssl_key_file"),
    ("oslo_messaging_rabbit", "kombu_ssl_certfile"): ("oslo_messaging_rabbit", "ssl_cert_file"),
    ("oslo_messaging_rabbit", "kombu_ssl_ca_certs"): ("oslo_messaging_rabbit", "ssl_ca_file"),
    (_D, "notification_driver"): ("oslo_messaging_notifications", "driver"),
    (_D, "notification_transport_url"): ("oslo_messaging_notifications", "transport_url"),
    (_D, "notification_topics"): ("oslo_messaging_notifications", "topics"),
    ("quota", "security_groups"): ("quota", "security_group"),
    ("quota", "security_group_rules"): ("quota", "security_group_rule"),
    ("quota", "injected_file_path_bytes"): ("quota", "injected_file_path_length"),
    (_D, "scheduler_available_filters"): ("filter_scheduler", "available_filters"),
    (_D, "scheduler_default_filters"): ("filter_scheduler", "enabled_filters"),
    (_D, "scheduler_weight_classes"): ("filter_scheduler", "weight_classes"),
    (_D, "scheduler_host_subset_size"): ("filter_scheduler", "host_subset_size"),
    (_D, "scheduler_max_attempts"): ("scheduler", "max_attempts"),
    (_D, "default_availability_zone"): ("scheduler", "default_availability_zone"),
    (_D, "osapi_compute_workers"): ("api", "workers"),
    (_D, "osapi_max_limit"): ("api", "max_limit"),
    (_D, "auth_strategy"): ("api", "auth_strategy"),
    (_D, "policy_file"): ("oslo_policy", "policy_file"),
    (_D, "policy_default_rule"): ("oslo_policy", "policy_default_rule"),
    ("neutron", "url"): ("neutron", "endpoint_override"),
    ("neutron", "url_timeout"): ("neutron", "timeout"),
    ("neutron", "ca_certificates_file"): ("neutron", "cafile"),
    ("neutron", "api_insecure"): ("neutron", "insecure"),
    (_D, "service_neutron_metadata_proxy"): ("neutron", "service_metadata_proxy"),
    (_D, "service_quantum_metadata_proxy"): ("neutron", "service_metadata_proxy"),
    # Nova once had no groups.
    **{
        (_D, name): (group, name)
        for group, names in {
            "api": """config_drive_skip_versions enable_instance_password metadata_cache_expiration vendordata_dynamic_connect_timeout
                vendordata_dynamic_read_timeout vendordata_dynamic_ssl_certfile vendordata_dynamic_targets
                vendordata_dynamic_failure_fatal vendordata_jsonfile_path vendordata_providers""",
            "filter_scheduler": """aggregate_image_properties_isolation_namespace aggregate_image_properties_isolation_separator
                isolated_hosts isolated_images restrict_isolated_hosts_to_isolated_images max_instances_per_host max_io_ops_per_host
                ram_weight_multiplier disk_weight_multiplier io_ops_weight_multiplier soft_affinity_weight_multiplier
                soft_anti_affinity_weight_multiplier""",
            "libvirt": """rescue_image_id rescue_kernel_id rescue_ramdisk_id disk_cachemodes rng_dev_path live_migration_bandwidth""",
        }.items()
        for name in names.split()
    },
}  # fmt: skip

# Groups of which older releases had the options in [DEFAULT], with such a prefix.
PREFIXES: tuple[tuple[str, str], ...] = (
    ("libvirt_", "libvirt"),
    ("vnc_", "vnc"),
    ("glance_", "glance"),
    ("neutron_", "neutron"),
    ("quantum_", "neutron"),
    ("cinder_", "cinder"),
    ("quota_", "quota"),
    ("conductor_", "conductor"),
    ("scheduler_", "scheduler"),
    ("scheduler_", "filter_scheduler"),
    ("sql_", "database"),
    ("rabbit_", "oslo_messaging_rabbit"),
    ("kombu_", "oslo_messaging_rabbit"),
    ("amqp_", "oslo_messaging_rabbit"),
    ("qpid_", "oslo_messaging_qpid"),
    ("rpc_zmq_", "oslo_messaging_zmq"),
    ("matchmaker_", "matchmaker_redis"),
    ("baremetal_", "baremetal"),
    ("xenapi_", "xenserver"),
    ("vmwareapi_", "vmware"),
    ("powervm_", "powervm"),
    ("console_xvp_", "xvp"),
    ("spicehtml5proxy_", "spice"),
    ("ldap_dns_", "ldap_dns"),
)
