"""Options of Nova and of its libraries, of this and earlier releases, that have no effect here, and why."""

Place = tuple[str, str]
_D = "DEFAULT"

_NO_CELLS = "minova has one database and no cells"
_NO_CINDER = "Cinder is not asked"
_NO_KEYS = "no key manager is asked"
_NO_PASTE = "minova-api has no pipeline of paste.deploy"
_NO_PRIVSEP = "no privileged daemon of oslo.privsep is used"
_CONSOLES = "consoles are VNC and serial"
_LIBVIRT = "libvirt is the only hypervisor"
_NETWORKS = "the networks are minova's own or Neutron's; nova-network is not there"
_RABBIT = "RabbitMQ is the broker"
_REMOVED = "Nova itself has removed it"

# Whole groups.
GROUPS: dict[str, str] = {
    **dict.fromkeys(("api_database", "placement_database", "cells", "cell"), _NO_CELLS),
    **dict.fromkeys(("barbican", "barbican_service_user", "key_manager", "keymgr", "vault"), _NO_KEYS),
    **dict.fromkeys(("ironic", "baremetal", "vmware", "zvm", "hyperv", "xenserver", "powervm", "docker", "lxd"), _LIBVIRT),
    **dict.fromkeys(("spice", "mks", "rdp", "xvp", "rdp_proxy"), _CONSOLES),
    **dict.fromkeys(("osapi_v21", "osapi_v3", "ec2", "s3", "metering", "trusted_computing", "cloudpipe", "crypto", "image_file_url",
                     "zookeeper"), _REMOVED),
    **dict.fromkeys(("privsep", "privsep_entrypoint", "privsep_osbrick", "vif_plug_linux_bridge_privileged", "vif_plug_ovs_privileged",
                     "nova_sys_admin", "nova_vif_plug"), _NO_PRIVSEP),
    **dict.fromkeys(("os_vif_ovs", "os_vif_linux_bridge", "os_vif_noop"), "libvirt plugs the interfaces, not os-vif"),
    **dict.fromkeys(("oslo_messaging_amqp", "oslo_messaging_kafka", "oslo_messaging_zmq", "oslo_messaging_qpid", "oslo_messaging_pulsar",
                     "matchmaker_redis", "matchmaker_ring"), _RABBIT),
    **dict.fromkeys(("cinder", "os_brick"), _NO_CINDER),
    "audit_middleware_notifications": "the audit middleware of keystonemiddleware is not used",
    "cache": "nothing is cached in memcached or Redis",
    "cyborg": "accelerators of Cyborg are not served",
    "ephemeral_storage_encryption": "disks of guests are not encrypted",
    "guestfs": "libguestfs is not used: nothing is written into disks",
    "healthcheck": "no middleware of oslo.middleware is used: GET /healthcheck needs no options",
    "keystone": "projects of quotas are not looked up in Keystone",
    "ldap_dns": _NETWORKS,
    "manila": "shares of Manila are not served",
    "os_region_name": "Ubuntu's package writes it, and Nova does not read it",
    "oslo_concurrency": "no lock files of oslo.concurrency are used",
    "oslo_limit": "limits of Keystone are not read",
    "oslo_middleware": "no middleware of oslo.middleware is used",
    "oslo_middleware_tracing": "no middleware of oslo.middleware is used",
    "oslo_reports": "there are no reports by signals",
    "oslo_versionedobjects": "messages have no versioned objects",
    "profiler": "osprofiler is not used",
    "remote_debug": "there is no remote debugger",
    "ssl": "see [api] ssl_cert_file",
    "vendordata_dynamic_auth": "vendor data are asked for without a token of a user of their own",
    "wsgi": "minova-api serves itself",
}  # fmt: skip

# What keystoneauth reads in [neutron] and [service_user]: its sessions and all its plugins, with their older names.
AUTH = """auth_type auth_plugin auth_section auth_url system_scope domain_id domain_name project_id project_name project_domain_id
    project_domain_name trust_id default_domain_id default_domain_name user_id username user_name user_domain_id user_domain_name
    password tenant_id tenant_name token endpoint url passcode auth_methods application_credential_id application_credential_name
    application_credential_secret oauth2_endpoint oauth2_client_id oauth2_client_secret identity_provider protocol access_token
    client_id client_secret scope access_token_endpoint access_token_type discovery_endpoint device_authorization_endpoint
    code_challenge_method redirect_uri code authorization_code idp_otp_key redirect_host redirect_port login_timeout
    cafile certfile keyfile insecure timeout collect_timing split_loggers tls_ciphers tls_min_version"""
# What its adapters read in Nova. The adapters here are made otherwise.
_ADAPTER = """version min_version max_version interface connect_retries connect_retry_delay status_code_retries
    status_code_retry_delay retriable_status_codes"""
_OF_CATALOG = "region_name service_type service_name valid_interfaces endpoint_override"

_TOPICS: tuple[tuple[str, dict[str, str]], ...] = (
    (_NO_CELLS, {
        "api": """local_metadata_per_cell instance_list_per_project_cells instance_list_cells_batch_strategy
            instance_list_cells_batch_fixed_size list_records_by_skipping_down_cells""",
        "scheduler": "discover_hosts_in_cells_interval",
        _D: "cell_worker_thread_pool_size my_cell",
    }),
    ("threads and processes are minova's own", {
        _D: """default_green_pool_size concurrency_backend default_thread_pool_size thread_pool_statistic_period
            manager_shutdown_timeout sync_power_state_pool_size long_rpc_timeout periodic_enable periodic_fuzzy_delay daemon
            servicegroup_driver service_group_driver run_external_periodic_tasks backlog tcp_keepidle max_header_line
            wsgi_keep_alive wsgi_log_format wsgi_default_pool_size client_socket_timeout backdoor_port backdoor_socket log_options
            eventlet_backdoor""",
    }),
    ("minova-metadata is one process", {_D: "metadata_workers"}),
    ("the scheduler is part of minova-conductor: see [conductor] workers", {_D: "scheduler_workers", "scheduler": "workers"}),
    (_NO_PASTE, {_D: "api_paste_config", "wsgi": "api_paste_config"}),
    ("no folder, lock file or cache of this kind is used", {
        _D: """tempdir pybasedir bindir lock_path disable_process_locking memcached_servers memcache_servers state_dir logfile_mode
            config_drive_tempdir""",
    }),
    ("each service is a program of its own: minova-api, minova-metadata", {_D: "enabled_apis"}),
    ("scopes and new defaults are always enforced", {"oslo_policy": "enforce_scope enforce_new_defaults"}),
    ("oslo.log has removed it: use debug", {_D: "verbose"}),
    ("oslo.log has removed it: use logging_default_format_string", {_D: "log_format"}),
    ("oslo.log has removed it", {_D: "use_syslog_rfc_format syslog_use_rfc_format use_eventlog watch_log_file fatal_deprecations"}),
    ("Nova itself has removed its EC2, S3 and volume APIs", {
        _D: """ec2_workers ec2_host ec2_dmz_host ec2_listen ec2_listen_port ec2_port ec2_scheme ec2_path ec2_strict_validation
            ec2_timestamp_expiry ec2_private_dns_show_ip ec2_url keystone_ec2_url keystone_ec2_insecure s3_host s3_port s3_dmz s3_listen
            s3_listen_port s3_access_key s3_secret_key s3_use_ssl s3_affix_tenant buckets_path image_decryption_dir region_list
            osapi_volume_workers osapi_volume_listen osapi_volume_listen_port osapi_volume_extension osapi_volume_ext_list default_flavor
            default_instance_type lockout_attempts lockout_minutes lockout_window cc_host nova_url use_deprecated_auth allow_admin_api""",
    }),
    ("Nova itself has removed its certificates and VPN servers", {
        _D: """ca_file ca_path crl_file key_file keys_path use_project_ca user_cert_subject project_cert_subject cert_topic cert_manager
            boot_script_template dmz_cidr dmz_mask dmz_net vpn_flavor vpn_instance_type vpn_image_id vpn_ip vpn_key_suffix vpn_start
            cnt_vpn_clients""",
    }),
    ("keystonemiddleware has removed it: use auth_type, auth_url and username", {
        "keystone_authtoken": """signing_dir admin_user admin_password admin_tenant_name admin_token identity_uri auth_protocol
            auth_host auth_port auth_admin_prefix""",
    }),
    ("keystonemiddleware has removed it", {
        "keystone_authtoken": "check_revocations_for_cached hash_algorithms revocation_cache_time http_handler auth_strategy",
    }),
    ("oslo.messaging has removed it", {
        "oslo_messaging_rabbit": """heartbeat_in_pthread fake_rabbit rabbit_max_retries rabbit_durable_queues socket_timeout channel_max frame_max
            heartbeat_interval host_connection_reconnect_delay connection_factory ssl_options kombu_ssl_version""",
        _D: "fake_rabbit rabbit_max_retries allowed_rpc_exception_modules rpc_cast_timeout rpc_poll_timeout rpc_driver_queue_base",
    }),
    ("addresses that a proxy names are used as docs/operators/proxy.md says", {
        "api": "use_forwarded_for",
        _D: "use_forwarded_for secure_proxy_ssl_header",
        "oslo_middleware": "enable_proxy_headers_parsing secure_proxy_ssl_header",
        "wsgi": "secure_proxy_ssl_header",
    }),
    ("rootwrap is not used", {_D: "rootwrap_config use_rootwrap_daemon root_helper", "workarounds": "disable_rootwrap"}),
    (_NO_CINDER, {
        _D: """reimage_timeout_per_gb block_device_allocate_retries block_device_allocate_retries_interval
            volume_usage_poll_interval volume_api_class my_block_storage_ip volumes_path iscsi_helper iscsi_ip_prefix os_region_name
            snapshot_name_template volume_manager volume_topic""",
        "libvirt": """volume_use_multipath volume_enforce_multipath num_volume_scan_tries num_iscsi_scan_tries iscsi_iface iscsi_transport
            iscsi_use_multipath num_aoe_discover_tries num_iser_scan_tries iser_use_multipath
            rbd_connect_timeout rbd_destroy_volume_retry_interval rbd_destroy_volume_retries nfs_mount_point_base
            nfs_mount_options ceph_mount_point_base ceph_mount_options quobyte_mount_point_base quobyte_client_cfg
            smbfs_mount_point_base smbfs_mount_options vzstorage_mount_point_base vzstorage_mount_user vzstorage_mount_group
            vzstorage_mount_perms vzstorage_log_path vzstorage_cache_path vzstorage_mount_opts num_nvme_discover_tries
            use_default_aio_mode_for_volumes glusterfs_mount_point_base qemu_allowed_storage_drivers volume_drivers
            scality_sofs_config scality_sofs_mount_point""",
        "notifications": "bdms_in_notifications include_share_mapping",
    }),
    ("images and disks are files, not RBD or LVM", {
        "libvirt": """images_volume_group sparse_logical_volumes images_rbd_pool images_rbd_ceph_conf rbd_user rbd_secret_uuid
            images_rbd_glance_store_name images_rbd_glance_copy_poll_interval images_rbd_glance_copy_timeout volume_clear
            volume_clear_size lvm_snapshot_size""",
        "glance": "enable_rbd_download rbd_user rbd_connect_timeout rbd_pool rbd_ceph_conf",
        "workarounds": """ensure_libvirt_rbd_instance_dir_cleanup never_download_image_if_on_rbd rbd_volume_local_attach
            disable_native_luksv1""",
    }),
    ("nothing is written into disks from outside: see config drive and metadata service", {
        "libvirt": "inject_password inject_key inject_partition",
        _D: """flat_injected injected_network_template resize_fs_using_block_device timeout_nbd virt_mkfs default_ephemeral_format
            max_nbd_devices""",
    }),
    ("[libvirt] images_type says which format disks have", {_D: "use_cow_images force_raw_images"}),
    (_NETWORKS, {
        _D: """network_api_class network_manager network_driver network_topic firewall_driver security_group_api security_group_handler
            linuxnet_interface_driver linuxnet_ovs_integration_bridge use_neutron use_ipv6 ipv6_backend fixed_range fixed_range_v6
            floating_range flat_network_bridge flat_network_dns flat_network_dhcp_start flat_interface public_interface vlan_interface
            vlan_start multi_host networks_path network_size num_networks gateway gateway_v6 l3_lib dhcpbridge dhcpbridge_flagfile
            force_dhcp_release dhcp_domain dhcp_lease_time dns_server dns_update_periodic_interval update_dns_entries
            use_network_dns_servers use_single_default_gateway dnsmasq_config_file share_dhcp_address auto_assign_floating_ip
            default_floating_pool floating_ip_dns_manager instance_dns_manager instance_dns_domain send_arp_for_ha send_arp_for_ha_count
            default_access_ip_network_name network_allocate_retries quota_fixed_ips quota_floating_ips quota_networks
            enable_network_quota create_unique_mac_address_attempts teardown_unused_network_gateway fixed_ip_disassociate_timeout
            defer_iptables_apply iptables_top_regex iptables_bottom_regex iptables_drop_action ebtables_exec_attempts
            ebtables_retry_interval forward_bridge_interface force_snat_range routing_source_ip metadata_host metadata_port
            metadata_manager network_device_mtu ovs_vsctl_timeout fake_network fake_call stub_network fping_path use_neutron_default_nets
            neutron_default_tenant_id quantum_default_tenant_id""",
        "api": "use_neutron_default_nets neutron_default_project_id neutron_default_tenant_id fping_path",
        "neutron": """default_floating_pool extension_sync_interval physnets allow_duplicate_networks""",
        "quota": "fixed_ips floating_ips",
        "scheduler": "query_placement_for_routed_network_aggregates",
        "libvirt": "use_virtio_for_bridges vif_driver ovs_bridge",
    }),
    ("keystoneauth logs in to Neutron: use auth_type, auth_url and username", {
        "neutron": """admin_username admin_password admin_tenant_name admin_tenant_id admin_auth_url admin_user_id auth_strategy""",
    }),
    ("requests to Neutron are sent again as [neutron] http_retries says, and have their own time-out", {
        "neutron": f"{_ADAPTER} auth_version",
    }),
    ("only the user is read from this group", {
        "service_user": f"{_ADAPTER} {_OF_CATALOG} send_service_user_token auth_strategy auth_version",
    }),
    ("live migrations use libvirt's own defaults for it", {
        "libvirt": "live_migration_uri live_migration_monitor_interval live_migration_progress_timeout",
        "compute": "live_migration_wait_for_vif_plug",
        _D: "live_migration_retry_count migrate_max_retries",
        "workarounds": """enable_qemu_monitor_announce_self qemu_monitor_announce_self_count
            qemu_monitor_announce_self_interval skip_cpu_compare_on_dest
            skip_cpu_compare_at_startup skip_hypervisor_version_check_on_lm""",
    }),
    ("snapshots are qcow2 files that libvirt makes", {
        "libvirt": "snapshot_image_format snapshots_directory snapshot_compression disk_prefix",
        _D: "max_concurrent_snapshots",
        "workarounds": "disable_libvirt_livesnapshot",
    }),
    ("such a device, clock or power setting is not offered", {
        "libvirt": """pmem_namespaces num_intel_tdx_guests xen_hvmloader_path
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
    }),
    ("quotas are counters in the database", {
        "quota": """recheck_quota count_usage_from_placement unified_limits_resource_strategy unified_limits_resource_list driver max_age
            until_refresh reservation_expire""",
        _D: "max_age until_refresh reservation_expire quota_driver",
        "workarounds": "unified_limits_count_pcpu_as_vcpu",
    }),
    ("levels, publishers and occasions of notifications are fixed", {
        "notifications": "default_level default_publisher_id notify_on_api_faults notify_api_faults",
        _D: "default_notification_level default_publisher_id notify_api_faults notify_on_any_change",
    }),
    ("the limits of its work are those of the conductor's tasks", {
        _D: """instance_delete_interval maximum_instance_delete_attempts reboot_timeout rescue_timeout
            scheduler_instance_sync_interval scheduler_tracks_instance_changes""",
        "compute": "max_concurrent_disk_ops resource_provider_association_refresh sharing_providers_max_uuids_per_request",
        "filter_scheduler": "track_instance_changes",
        "workarounds": "handle_virt_lifecycle_events wait_for_vif_plugged_event_during_hard_reboot",
    }),
    ("Placement is part of minova and shares its database", {
        "placement": f"""{AUTH} {_ADAPTER} {_OF_CATALOG} os_region_name os_interface auth_version incomplete_consumer_project_id
            incomplete_consumer_user_id randomize_allocation_candidates policy_file api_paste_config""",
    }),
    ("minova opens its database in its own way", {
        "database": """sqlite_synchronous sqlite_db backend slave_connection asyncio_connection asyncio_slave_connection
            synchronous_reader mysql_sql_mode mysql_wsrep_sync_wait max_retries retry_interval max_overflow connection_debug
            connection_trace db_retry_interval db_inc_retry_interval db_max_retry_interval db_max_retries connection_parameters
            use_db_reconnect min_pool_size mysql_enable_ndb use_tpool""",
        _D: "db_backend db_driver dbapi_use_tpool sqlite_db sqlite_clean_db sqlite_synchronous",
    }),
    ("AvailabilityZoneFilter chooses the hosts of a zone", {"scheduler": "query_placement_for_availability_zone"}),
    ("a server without a zone may run in each zone", {_D: "default_schedule_zone"}),
    ("guests are named after the UUID of their server", {_D: "instance_name_template"}),
    ("allow_resize_to_same_host says it for both", {_D: "allow_migrate_to_same_host"}),
    (_CONSOLES, {
        _D: """record source_is_ipv6 console_host novncproxy_path xvpvncproxy_base_url xvpvncproxy_host xvpvncproxy_port console_driver
            console_public_hostname console_vmrc_port console_vmrc_error_retries vnc_console_proxy_url vncproxy_url""",
        "vnc": "keymap xvpvncproxy_host xvpvncproxy_port xvpvncproxy_base_url",
    }),
    ("VNC is served without such certificates", {"vnc": "vencrypt_client_key vencrypt_client_cert vencrypt_ca_certs"}),
    ("CORS answers are fixed but for the origin and the headers", {"cors": "allow_credentials expose_headers max_age allow_methods"}),
    (_LIBVIRT, {
        _D: """target_host target_port iqn_prefix agent_timeout agent_version_timeout agent_resetnetwork_timeout sr_matching_filter
            use_join_force cache_images default_os_type max_kernel_ramdisk_size block_device_creation_timeout sparse_copy""",
        "workarounds": "skip_reserve_in_use_ironic_nodes report_ironic_standard_resource_class_inventory",
    }),
    (_REMOVED, {
        _D: """compute_manager conductor_manager scheduler_manager console_manager consoleauth_manager compute_api_class compute_topic
            console_topic consoleauth_topic scheduler_topic monkey_patch monkey_patch_modules null_kernel
            multi_instance_display_name_template image_service osapi_compute_extension osapi_compute_ext_list
            api_rate_limit compute_scheduler_driver scheduler_host_manager compute_available_monitors compute_stats_class stub_compute
            baremetal_scheduler_default_filters scheduler_use_baremetal_filters vendordata_driver image_handlers
            zombie_instance_updated_at_window start_guests_on_host_boot default_project default_image
            fatal_exception_format_errors use_local""",
        "conductor": "use_local topic manager",
        "filter_scheduler": "use_baremetal_filters baremetal_enabled_filters",
        "scheduler": "host_manager driver_task_period",
        "libvirt": "checksum_base_images checksum_interval_seconds image_info_filename_pattern remove_unused_kernels",
        "upgrade_levels": "baseapi cert network intercell cells console consoleauth",
        "workarounds": "enable_numa_live_migration enable_consoleauth destroy_after_evacuate libvirt_disable_apic",
    }),
)  # fmt: skip
_OTHERS = {
    "api": "compute_link_prefix glance_link_prefix response_validation",
    _D: """osapi_compute_link_prefix osapi_glance_link_prefix checksum_base_images remove_unused_resized_minimum_age_seconds
        internal_service_availability_zone allowed_direct_url_schemes mkisofs_cmd osapi_compute_unique_server_name_scope password_length libvirt_nonblocking
        my_hostname vnc_keymap""",
    "compute": """consecutive_build_service_disable_threshold shutdown_retry_interval max_disk_devices_to_attach
        provider_config_location vmdk_allowed_types update_resources_max_workers""",
    "glance": f"{AUTH} {_ADAPTER} debug host port protocol api_insecure allowed_direct_url_schemes",
    "image_cache": "subdirectory_name remove_unused_resized_minimum_age_seconds",
    "libvirt": "cpu_model_fallback remove_unused_resized_minimum_age_seconds",
    "vnc": "auth_schemes",
    "workarounds": "disable_group_policy_check_upcall disable_compute_service_check_for_ffu disable_deep_image_inspection",
}
# Options of [libvirt] that older releases had in [DEFAULT], without a prefix.
_OF_LIBVIRT = """live_migration_uri snapshot_image_format xen_hvmloader_path uid_maps image_info_filename_pattern remove_unused_kernels
    checksum_interval_seconds volume_clear volume_clear_size num_iscsi_scan_tries num_iser_scan_tries num_aoe_discover_tries rbd_user
    rbd_secret_uuid nfs_mount_point_base nfs_mount_options glusterfs_mount_point_base scality_sofs_config scality_sofs_mount_point
    qemu_allowed_storage_drivers"""
NO_EFFECT: dict[Place, str] = {
    (group, name): "minova has no such choice" for group, names in _OTHERS.items() for name in names.split()
} | {(group, name): reason for reason, groups in _TOPICS for group, names in groups.items() for name in names.split()}
NO_EFFECT |= {(_D, name): NO_EFFECT["libvirt", name] for name in _OF_LIBVIRT.split()}
