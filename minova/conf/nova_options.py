"""Options of Nova, of this and earlier releases, that minova does not have under that name: why each has no effect, what it is
called here, and which ones protect something, so that minova must not start as if they were served.
"""

from collections.abc import Callable
from typing import NamedTuple

Place = tuple[str, str]
_D = "DEFAULT"


class Protection(NamedTuple):
    """An option that protects something if `asks` is true of its value."""

    asks: Callable[[str], bool]
    what: str


def _on(value: str) -> bool:
    return value.strip().lower() in {"1", "on", "true", "yes"}


def _off(value: str) -> bool:
    return value.strip().lower() in {"0", "off", "false", "no"}


def _given(value: str) -> bool:
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


PROTECTING: dict[Place, Protection] = {
    ("glance", "verify_glance_signatures"): Protection(_on, "signatures of images are not verified"),
    ("glance", "enable_certificate_validation"): Protection(_on, "certificates of images' signatures are not verified"),
    ("glance", "default_trusted_certificate_ids"): Protection(
        _given, "certificates of images' signatures are not verified"
    ),
    ("ephemeral_storage_encryption", "enabled"): Protection(_on, "disks of guests are not encrypted"),
    ("quota", "driver"): Protection(
        lambda value: "unified" in value.lower(), "limits of Keystone are not read: minova keeps quotas itself"
    ),
    ("compute", "image_type_exclude_list"): Protection(_given, "no format of images is excluded"),
    ("libvirt", "live_migration_tunnelled"): Protection(_on, _TUNNEL),
    **{
        (group, name): Protection(_tunnels, _TUNNEL)
        for group in (_D, "libvirt") for name in ("live_migration_flag", "block_migration_flag")
    },
    **{
        (group, name): Protection(_given, _CLIENTS)
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
    **{(group, "attestation_server"): Protection(_given, _ATTESTATION) for group in (_D, "trusted_computing")},
    (_D, "allow_same_net_traffic"): Protection(
        _off, "servers of a network reach each other where their security groups allow it"
    ),
    ("vnc", "auth_schemes"): Protection(
        lambda value: "vencrypt" in value.lower(), "VNC connections to hypervisors are not encrypted"
    ),
    ("console", "ssl_minimum_version"): Protection(
        lambda value: value.strip().lower() == "tlsv1_3", "minova-consoleproxy also accepts TLS 1.2"
    ),
    ("console", "ssl_ciphers"): Protection(_given, "ciphers of minova-consoleproxy cannot be chosen"),
    (_D, "ssl_only"): Protection(_on, "set [consoleproxy] ssl_cert_file and ssl_key_file: then all connections are TLS"),
    (_D, "enabled_ssl_apis"): Protection(_given, "set [api] ssl_cert_file and ssl_key_file"),
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
    (_D, "libvirt_cpu_mode"): ("libvirt", "cpu_mode"),
    (_D, "libvirt_cpu_model"): ("libvirt", "cpu_models"),
    ("libvirt", "cpu_model"): ("libvirt", "cpu_models"),
    (_D, "libvirt_uri"): ("libvirt", "connection_uri"),
    (_D, "libvirt_images_type"): ("libvirt", "images_type"),
    (_D, "libvirt_wait_soft_reboot_seconds"): ("libvirt", "wait_soft_reboot_seconds"),
    ("libvirt", "migration_inbound_addr"): ("libvirt", "live_migration_inbound_addr"),
    (_D, "vnc_enabled"): ("vnc", "enabled"),
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
    ("devices", "enabled_vgpu_types"): ("devices", "enabled_mdev_types"),
    ("wsgi", "ssl_cert_file"): ("api", "ssl_cert_file"),
    ("wsgi", "ssl_key_file"): ("api", "ssl_key_file"),
    (_D, "ssl_cert_file"): ("api", "ssl_cert_file"),
    (_D, "ssl_key_file"): ("api", "ssl_key_file"),
    (_D, "glance_api_servers"): ("glance", "api_servers"),
    (_D, "glance_host"): ("glance", "api_servers"),
    (_D, "glance_port"): ("glance", "api_servers"),
    (_D, "glance_protocol"): ("glance", "api_servers"),
    (_D, "glance_num_retries"): ("glance", "num_retries"),
    ("keystone_authtoken", "auth_uri"): ("keystone_authtoken", "www_authenticate_uri"),
    (_D, "sql_connection"): ("database", "connection"),
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
    (_D, "notification_driver"): ("oslo_messaging_notifications", "driver"),
    (_D, "notification_topics"): ("oslo_messaging_notifications", "topics"),
    **{
        (_D, f"quota_{name}"): ("quota", name)
        for name in ("instances", "cores", "ram", "metadata_items", "injected_files", "injected_file_content_bytes",
                     "injected_file_path_length", "key_pairs", "server_groups", "server_group_members")
    },
    (_D, "quota_security_groups"): ("quota", "security_group"),
    (_D, "quota_security_group_rules"): ("quota", "security_group_rule"),
    (_D, "scheduler_available_filters"): ("filter_scheduler", "available_filters"),
    (_D, "scheduler_default_filters"): ("filter_scheduler", "enabled_filters"),
    (_D, "scheduler_weight_classes"): ("filter_scheduler", "weight_classes"),
    (_D, "ram_weight_multiplier"): ("filter_scheduler", "ram_weight_multiplier"),
    (_D, "scheduler_host_subset_size"): ("filter_scheduler", "host_subset_size"),
    (_D, "scheduler_max_attempts"): ("scheduler", "max_attempts"),
    (_D, "default_availability_zone"): ("scheduler", "default_availability_zone"),
    (_D, "osapi_compute_workers"): ("api", "workers"),
    (_D, "osapi_max_limit"): ("api", "max_limit"),
    (_D, "auth_strategy"): ("api", "auth_strategy"),
    (_D, "policy_file"): ("oslo_policy", "policy_file"),
    (_D, "neutron_url"): ("neutron", "endpoint_override"),
    ("neutron", "url"): ("neutron", "endpoint_override"),
    (_D, "service_neutron_metadata_proxy"): ("neutron", "service_metadata_proxy"),
    (_D, "neutron_metadata_proxy_shared_secret"): ("neutron", "metadata_proxy_shared_secret"),
    (_D, "neutron_ovs_bridge"): ("neutron", "ovs_bridge"),
    (_D, "conductor_workers"): ("conductor", "workers"),
}  # fmt: skip

# Whole groups.
GROUPS: dict[str, str] = {
    **dict.fromkeys(("api_database", "placement_database", "cells", "cell"), "minova has one database and no cells"),
    **dict.fromkeys(("barbican", "barbican_service_user", "key_manager", "keymgr", "vault"), "no key manager is asked"),
    **dict.fromkeys(("ironic", "baremetal", "vmware", "zvm", "hyperv", "xenserver", "powervm", "docker", "lxd"),
                    "libvirt is the only hypervisor"),
    **dict.fromkeys(("spice", "mks", "rdp", "xvp"), "consoles are VNC and serial"),
    **dict.fromkeys(("osapi_v21", "osapi_v3", "rdp_proxy", "ec2", "s3", "metering", "trusted_computing"),
                    "Nova itself has removed it"),
    **dict.fromkeys(("privsep", "privsep_entrypoint", "vif_plug_linux_bridge_privileged", "vif_plug_ovs_privileged", "nova_sys_admin",
                     "privsep_osbrick", "nova_vif_plug", "os_vif_ovs", "os_vif_linux_bridge"),
                    "no privileged daemon of oslo.privsep is used"),
    "cache": "nothing is cached in memcached or Redis",
    "cinder": "Cinder is not asked",
    "cyborg": "accelerators of Cyborg are not served",
    "manila": "shares of Manila are not served",
    "ephemeral_storage_encryption": "disks of guests are not encrypted",
    "guestfs": "libguestfs is not used: nothing is written into disks",
    "keystone": "projects of quotas are not looked up in Keystone",
    "oslo_concurrency": "no lock files of oslo.concurrency are used",
    "oslo_limit": "limits of Keystone are not read",
    "oslo_reports": "there are no reports by signals",
    "oslo_versionedobjects": "messages have no versioned objects",
    "oslo_messaging_amqp": "RabbitMQ is the broker",
    "oslo_messaging_kafka": "RabbitMQ is the broker",
    "oslo_messaging_zmq": "RabbitMQ is the broker",
    "profiler": "osprofiler is not used",
    "remote_debug": "there is no remote debugger",
    "vendordata_dynamic_auth": "vendor data are asked for without a token of a user of their own",
    "oslo_middleware": "no middleware of oslo.middleware is used",
    "healthcheck": "no middleware of oslo.middleware is used: GET /healthcheck needs no options",
    "audit_middleware_notifications": "the audit middleware of keystonemiddleware is not used",
    "os_brick": "Cinder is not asked",
    **dict.fromkeys(("matchmaker_redis", "matchmaker_ring"), "RabbitMQ is the broker"),
    **dict.fromkeys(("crypto", "image_file_url", "zookeeper"), "Nova itself has removed it"),
    "wsgi": "minova-api serves itself",
    "ssl": "see [api] ssl_cert_file",
}  # fmt: skip

_TOPICS: tuple[tuple[str, dict[str, str]], ...] = (
    ("minova has one database and no cells", {
        "api": """local_metadata_per_cell instance_list_per_project_cells instance_list_cells_batch_strategy
            instance_list_cells_batch_fixed_size list_records_by_skipping_down_cells""",
        "scheduler": "discover_hosts_in_cells_interval",
        _D: "cell_worker_thread_pool_size my_cell",
    }),
    ("threads and processes are minova's own", {
        _D: """default_green_pool_size concurrency_backend default_thread_pool_size thread_pool_statistic_period
            manager_shutdown_timeout sync_power_state_pool_size long_rpc_timeout periodic_enable periodic_fuzzy_delay daemon
            servicegroup_driver service_group_driver network_manager
            compute_manager conductor_manager scheduler_manager console_manager run_external_periodic_tasks monkey_patch
            backlog tcp_keepidle max_header_line wsgi_keep_alive wsgi_log_format wsgi_default_pool_size client_socket_timeout
            api_paste_config""",
    }),
    ("no folder, lock file or cache of this kind is used", {
        _D: "tempdir pybasedir bindir lock_path memcached_servers",
    }),
    ("each service is a program of its own: minova-api, minova-metadata", {_D: "enabled_apis"}),
    ("scopes and new defaults are always enforced", {"oslo_policy": "enforce_scope"}),
    ("Nova itself has removed its EC2, S3 and volume APIs", {
        _D: """ec2_workers ec2_host ec2_dmz_host ec2_listen ec2_listen_port ec2_port ec2_scheme ec2_path ec2_strict_validation
            ec2_timestamp_expiry keystone_ec2_url keystone_ec2_insecure s3_host s3_port s3_dmz s3_listen s3_listen_port
            s3_access_key s3_secret_key s3_use_ssl s3_affix_tenant buckets_path image_decryption_dir
            osapi_volume_workers osapi_volume_listen osapi_volume_listen_port""",
    }),
    ("keystonemiddleware has removed it: use auth_type, auth_url and username", {
        "keystone_authtoken": """signing_dir admin_user admin_password admin_tenant_name admin_token identity_uri auth_protocol
            auth_host auth_port auth_admin_prefix check_revocations_for_cached hash_algorithms revocation_cache_time""",
    }),
    ("oslo.messaging has removed it", {"oslo_messaging_rabbit": "heartbeat_in_pthread"}),
    ("addresses that a proxy names are used as docs/operators/proxy.md says", {
        "api": "use_forwarded_for",
        _D: "use_forwarded_for secure_proxy_ssl_header",
        "oslo_middleware": "enable_proxy_headers_parsing secure_proxy_ssl_header",
        "wsgi": "secure_proxy_ssl_header",
    }),
    ("rootwrap is not used", {_D: "rootwrap_config use_rootwrap_daemon", "workarounds": "disable_rootwrap"}),
    ("Cinder is not asked", {
        _D: """reimage_timeout_per_gb block_device_allocate_retries block_device_allocate_retries_interval
            volume_usage_poll_interval volume_api_class my_block_storage_ip cinder_catalog_info""",
        "libvirt": """volume_use_multipath volume_enforce_multipath num_volume_scan_tries num_iscsi_scan_tries iscsi_iface
            iscsi_use_multipath num_aoe_discover_tries num_iser_scan_tries iser_use_multipath rbd_user rbd_secret_uuid
            rbd_connect_timeout rbd_destroy_volume_retry_interval rbd_destroy_volume_retries nfs_mount_point_base
            nfs_mount_options ceph_mount_point_base ceph_mount_options quobyte_mount_point_base quobyte_client_cfg
            smbfs_mount_point_base smbfs_mount_options vzstorage_mount_point_base vzstorage_mount_user vzstorage_mount_group
            vzstorage_mount_perms vzstorage_log_path vzstorage_cache_path vzstorage_mount_opts num_nvme_discover_tries
            use_default_aio_mode_for_volumes glusterfs_mount_point_base qemu_allowed_storage_drivers volume_drivers""",
        "notifications": "bdms_in_notifications include_share_mapping",
    }),
    ("images and disks are files, not RBD or LVM", {
        "libvirt": """images_volume_group sparse_logical_volumes images_rbd_pool images_rbd_ceph_conf
            images_rbd_glance_store_name images_rbd_glance_copy_poll_interval images_rbd_glance_copy_timeout volume_clear
            volume_clear_size""",
        "glance": "enable_rbd_download rbd_user rbd_connect_timeout rbd_pool rbd_ceph_conf",
        "workarounds": """ensure_libvirt_rbd_instance_dir_cleanup never_download_image_if_on_rbd rbd_volume_local_attach
            disable_native_luksv1""",
    }),
    ("nothing is written into disks from outside: see config drive and metadata service", {
        "libvirt": "inject_password inject_key inject_partition",
        _D: """flat_injected injected_network_template resize_fs_using_block_device timeout_nbd virt_mkfs
            default_ephemeral_format libvirt_inject_partition libvirt_inject_password libvirt_inject_key max_nbd_devices""",
    }),
    ("the networks are minova's own or Neutron's; nova-network is not there", {
        _D: """network_api_class firewall_driver libvirt_vif_driver security_group_api linuxnet_interface_driver use_neutron
            fixed_range floating_range flat_network_bridge flat_interface public_interface vlan_interface multi_host
            network_size dhcpbridge dhcpbridge_flagfile force_dhcp_release dhcp_domain dns_server share_dhcp_address
            auto_assign_floating_ip send_arp_for_ha default_access_ip_network_name network_allocate_retries
            default_floating_pool dnsmasq_config_file quota_fixed_ips quota_floating_ips
            neutron_admin_username neutron_admin_password neutron_admin_tenant_name neutron_admin_auth_url
            neutron_auth_strategy neutron_region_name num_networks metadata_host routing_source_ip iptables_top_regex iptables_bottom_regex""",
        "api": "use_neutron_default_nets neutron_default_project_id",
        "neutron": """default_floating_pool extension_sync_interval physnets admin_username admin_password
            admin_tenant_name admin_auth_url auth_strategy""",
        "scheduler": "query_placement_for_routed_network_aggregates",
        "libvirt": "use_virtio_for_bridges vif_driver",
    }),
    ("live migrations use libvirt's own defaults for it", {
        "libvirt": "live_migration_uri live_migration_monitor_interval",
        "compute": "live_migration_wait_for_vif_plug",
        _D: "live_migration_retry_count migrate_max_retries",
        "workarounds": """enable_qemu_monitor_announce_self qemu_monitor_announce_self_count
            qemu_monitor_announce_self_interval enable_numa_live_migration skip_cpu_compare_on_dest
            skip_cpu_compare_at_startup skip_hypervisor_version_check_on_lm""",
    }),
    ("snapshots are qcow2 files that libvirt makes", {
        "libvirt": "snapshot_image_format snapshots_directory snapshot_compression disk_prefix",
        _D: "max_concurrent_snapshots use_cow_images force_raw_images",
        "workarounds": "disable_libvirt_livesnapshot",
    }),
    ("such a device, clock or power setting is not offered", {
        "libvirt": """pmem_namespaces num_intel_tdx_guests
            enabled_perf_events file_backed_memory tb_cache_size uid_maps gid_maps realtime_scheduler_priority
            cpu_power_management cpu_power_management_strategy cpu_power_governor_low cpu_power_governor_high
            mem_stats_period_seconds images_cpu_time_limit images_address_space_limit remote_filesystem_transport""",
        "pci": "report_in_placement",
        _D: "arq_binding_timeout my_shared_fs_storage_ip stale_share_access_reconcile_interval",
    }),
    ("libvirt gives the state of TPMs to the user that its qemu.conf names, and the conductors keep their secrets", {
        "libvirt": "swtpm_user swtpm_group supported_tpm_secret_security",
    }),
    ("usage is read at the API and from notifications", {
        _D: "instance_usage_audit instance_usage_audit_period bandwidth_poll_interval",
        "quota": "recheck_quota count_usage_from_placement unified_limits_resource_strategy unified_limits_resource_list",
        "workarounds": "unified_limits_count_pcpu_as_vcpu",
        "notifications": "default_level",
    }),
    ("the limits of its work are those of the conductor's tasks", {
        _D: """instance_delete_interval maximum_instance_delete_attempts reboot_timeout rescue_timeout
            scheduler_instance_sync_interval scheduler_tracks_instance_changes""",
        "compute": "max_concurrent_disk_ops resource_provider_association_refresh sharing_providers_max_uuids_per_request",
        "filter_scheduler": "track_instance_changes",
        "workarounds": "handle_virt_lifecycle_events wait_for_vif_plugged_event_during_hard_reboot",
    }),
)  # fmt: skip
# Of keystoneauth, which [neutron] and [service_user] have.
AUTH = """auth_type auth_section auth_url system_scope domain_id domain_name project_id project_name project_domain_id
    project_domain_name trust_id default_domain_id default_domain_name user_id username user_domain_id user_domain_name password
    tenant_id tenant_name cafile certfile keyfile insecure timeout collect_timing split_loggers tls_ciphers tls_min_version
    connect_retries connect_retry_delay status_code_retries status_code_retry_delay retriable_status_codes"""
_OTHERS = {
    "api": "compute_link_prefix glance_link_prefix response_validation",
    _D: """osapi_compute_link_prefix osapi_glance_link_prefix allow_migrate_to_same_host checksum_base_images compute_scheduler_driver
        remove_unused_resized_minimum_age_seconds start_guests_on_host_boot
        console_host default_schedule_zone internal_service_availability_zone instance_name_template
        mkisofs_cmd osapi_compute_unique_server_name_scope password_length record source_is_ipv6 verbose
        image_service novncproxy_path xvpvncproxy_base_url ec2_private_dns_show_ip osapi_compute_extension state_dir
        libvirt_use_virtio_for_bridges libvirt_nonblocking volumes_path iscsi_helper root_helper logdir my_hostname
        api_rate_limit use_ipv6 ipv6_backend vnc_keymap scheduler_host_manager metadata_workers scheduler_workers network_topic compute_topic cert_topic""",
    "compute": """consecutive_build_service_disable_threshold shutdown_retry_interval max_disk_devices_to_attach
        provider_config_location vmdk_allowed_types update_resources_max_workers""",
    "conductor": "use_local topic manager",
    "glance": f"{AUTH} debug host port protocol api_insecure allowed_direct_url_schemes",
    "image_cache": "subdirectory_name remove_unused_resized_minimum_age_seconds",
    "libvirt": "cpu_model_fallback checksum_base_images image_info_filename_pattern remove_unused_kernels",
    "quota": "driver max_age until_refresh reservation_expire",
    "scheduler": "host_manager driver_task_period workers",
    "service_user": "send_service_user_token auth_strategy",
    "upgrade_levels": "baseapi cert network intercell cells console consoleauth",
    "vnc": "auth_schemes vencrypt_client_key vencrypt_client_cert vencrypt_ca_certs keymap xvpvncproxy_host xvpvncproxy_port xvpvncproxy_base_url",
    "workarounds": """disable_group_policy_check_upcall libvirt_disable_apic disable_compute_service_check_for_ffu
        skip_reserve_in_use_ironic_nodes disable_deep_image_inspection enable_consoleauth destroy_after_evacuate""",
    "database": """sqlite_synchronous backend slave_connection asyncio_connection asyncio_slave_connection
        synchronous_reader mysql_sql_mode mysql_wsrep_sync_wait max_retries retry_interval max_overflow connection_debug
        connection_trace db_retry_interval db_inc_retry_interval db_max_retry_interval db_max_retries connection_parameters
        use_db_reconnect idle_timeout min_pool_size mysql_enable_ndb""",
    "placement": f"{AUTH} region_name os_region_name os_interface valid_interfaces service_type service_name endpoint_override",
}
_OTHER_REASONS = {
    "placement": "Placement is part of minova and shares its database",
    "database": "minova opens its database in its own way",
}
NO_EFFECT: dict[Place, str] = {
    (group, name): reason for reason, groups in _TOPICS for group, names in groups.items() for name in names.split()
} | {
    (group, name): _OTHER_REASONS.get(group, "minova has no such choice")
    for group, names in _OTHERS.items()
    for name in names.split()
}
