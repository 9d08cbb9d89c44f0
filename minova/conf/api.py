"""Options of minova-api."""

from oslo_config import cfg, types

GROUP = "api"

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "auth_strategy",
        default="noauth",
        choices=["noauth", "http_basic", "keystone"],
        help="How requests are authenticated. noauth accepts every request as administrator, on "
        "loopback only; http_basic checks user and password against http_basic_auth_user_file; keystone takes tokens of "
        "OpenStack's identity service, as [keystone_authtoken] says.",
    ),
    cfg.StrOpt(
        "http_basic_auth_user_file",
        default="/etc/minova/htpasswd",
        help="htpasswd file with bcrypt hashes, for auth_strategy http_basic.",
    ),
    cfg.ListOpt(
        "admin_users",
        default=["admin"],
        help="Users of http_basic with the role admin. Other users see and change only the resources of their project.",
    ),
    cfg.ListOpt(
        "user_roles",
        default=[],
        help="Projects and roles of the users of http_basic: USER:PROJECT:ROLE, several as rita:demo:reader,bob:demo:member. "
        "Roles that the policies know are admin, manager, member and reader; each has the rights of the next one. A user "
        "without an entry is member of the project that bears the user's name.",
    ),
    cfg.ListOpt(
        "trusted_proxies",
        default=[],
        help="Addresses or networks (10.0.0.0/8) of reverse proxies, whose X-Forwarded-For, -Proto and -Host are believed; from "
        "others these headers are ignored. Failed logins are counted by the client's address: without this option all "
        "clients behind a proxy count as one.",
    ),
    cfg.HostAddressOpt(
        "osapi_compute_listen",
        default="127.0.0.1",
        deprecated_group="DEFAULT",
        help="Address that minova-api listens on.",
    ),
    cfg.PortOpt(
        "osapi_compute_listen_port",
        default=8774,
        deprecated_group="DEFAULT",
        help="Port that minova-api listens on; 0 takes a free one.",
    ),
    cfg.BoolOpt(
        "nova_service_names",
        default=True,
        help="Whether the Compute API calls the services nova-compute, nova-conductor and so on, because scripts compare with these names. "
        "Requests may use both names. minova's own command line always shows the names of the processes.",
    ),
    cfg.StrOpt(
        "ssl_cert_file",
        help="Certificate (PEM) to serve HTTPS with; together with ssl_key_file.",
    ),
    cfg.StrOpt("ssl_key_file", help="Private key (PEM) of ssl_cert_file."),
    cfg.IntOpt("max_limit", default=1000, min=1, help="Most items in one page of a listing."),
    cfg.IntOpt(
        "max_request_body_size",
        default=114688,
        min=1024,
        help="Most bytes of a request body; image data are not counted.",
    ),
    cfg.IntOpt(
        "workers",
        default=1,
        min=1,
        help="Processes of minova-api, which share its address: one for each processor uses them all. With 1 there is no "
        "process beside the one that was started.",
    ),
    cfg.IntOpt("threads", default=16, min=1, help="Requests that only read served at the same time, by each worker."),
    cfg.IntOpt(
        "change_threads",
        default=16,
        min=1,
        help="Requests that change something served at the same time, by each worker, beside `threads`. They wait for conductors and "
        "the broker; requests that only read do not wait behind them. One project may use all places. Further projects get their "
        "share at once, up to four times as many in all.",
    ),
    cfg.IntOpt(
        "transfers",
        default=16,
        min=1,
        help="Requests with long bodies, uploads and downloads of images by users served at the same time, by each worker, beside "
        "`threads`. Shared as change_threads; while others wait, transfers below 64 KiB/s are ended with 503.",
    ),
    cfg.IntOpt(
        "host_transfers",
        default=16,
        min=1,
        help="Downloads and uploads of images by hosts served at the same time, by each worker. Shared by hosts as `transfers` by "
        "projects.",
    ),
    cfg.IntOpt(
        "max_connections",
        default=2000,
        min=10,
        help="Connections that each worker holds. When all are taken, the one that has waited longest without a request is "
        "closed for a new one.",
    ),
    cfg.IntOpt(
        "max_connections_per_address",
        default=256,
        min=0,
        help="Connections of one client address (IPv6: of one /64 network) to each worker. For a further one, that of them "
        "is closed which has waited longest without a request. trusted_proxies are not counted. 0: no limit.",
    ),
    cfg.IntOpt(
        "image_size_cap",
        default=1 << 40,
        min=1,
        max=1 << 63,
        mutable=True,
        help="Most bytes of an image, as in Glance: 1 TiB. A larger upload is answered 413, at once if its length is announced.",
    ),
    cfg.BoolOpt(
        "enable_instance_password",
        default=True,
        help="The answer to the creation of a server with a config drive has the administrator's password, which the guest reads there.",
    ),
    cfg.StrOpt(
        "dhcp_domain",
        default="novalocal",
        help="Domain of the guests' host names, as they read them; empty: none. Read by minova-compute and minova-metadata.",
    ),
    cfg.StrOpt(
        "config_drive_skip_versions",
        default="1.0 2007-01-19 2007-03-01 2007-08-29 2007-10-10 2007-12-15 2008-02-01 2008-09-01",
        help="Versions of EC2's layout that config drives leave out. Read by minova-compute.",
    ),
    cfg.StrOpt(
        "vendordata_jsonfile_path",
        help="A JSON object that guests read as vendor_data.json, and in vendor_data2.json as `static`. Read by "
        "minova-compute and minova-metadata when they start.",
    ),
    cfg.ListOpt(
        "vendordata_providers",
        default=["StaticJSON"],
        item_type=types.String(choices=["StaticJSON", "DynamicJSON"]),
        help="Where vendor data come from: StaticJSON is vendordata_jsonfile_path, DynamicJSON the services of "
        "vendordata_dynamic_targets.",
    ),
    cfg.ListOpt(
        "vendordata_dynamic_targets",
        default=[],
        help="Services that are asked for each guest, NAME@URL: a POST with a JSON object (project-id, instance-id, image-id, "
        "user-data, hostname, metadata, boot-roles). The JSON that they answer stands in vendor_data2.json under NAME.",
    ),
    cfg.StrOpt(
        "vendordata_dynamic_ssl_certfile",
        default="",
        help="Certificates (PEM) of authorities that those services are trusted by; empty: the system's.",
    ),
    cfg.IntOpt("vendordata_dynamic_connect_timeout", default=5, min=3, help="Seconds to connect to such a service."),
    cfg.IntOpt("vendordata_dynamic_read_timeout", default=5, min=1, help="Seconds until such a service answers."),
    cfg.BoolOpt(
        "vendordata_dynamic_failure_fatal",
        default=False,
        help="Whether a service that does not answer fails the build of a guest with a config drive, and the requests to the "
        "metadata service. Otherwise its vendor data are {}.",
    ),
    cfg.IntOpt(
        "metadata_cache_expiration",
        default=15,
        min=0,
        help="Seconds for which minova-metadata keeps what Neutron's proxy asks of a guest. What a guest of a local network asks is "
        "kept for one second at most, because another guest may get its address.",
    ),
    cfg.ListOpt(
        "enabled_import_methods",
        item_type=types.String(choices=["glance-direct", "web-download"]),
        default=["glance-direct"],
        help="How users may import images: glance-direct is an upload that is staged first; web-download lets minova-api fetch an "
        "image from an address that the user names, which is off by default.",
    ),
    cfg.IntOpt(
        "max_automatic_image_removals",
        default=1000,
        min=0,
        mutable=True,
        help="Most images whose bytes minova-api removes in one round, once a minute, because conductors have deleted them. If there are "
        "more, it removes none and logs an error, since the database may be wrong: raise this option to confirm. 0: any number.",
    ),
    cfg.StrOpt("images_path", default="$state_path/images", help="Folder of the image store."),
]
