"""Options of minova-api."""

from oslo_config import cfg

GROUP = "api"

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "auth_strategy",
        default="noauth",
        choices=["noauth", "http_basic"],
        help="How requests are authenticated. noauth accepts every request as administrator, on "
        "loopback only; http_basic checks user and password against http_basic_auth_user_file.",
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
    cfg.IntOpt("threads", default=16, min=1, help="Requests served at the same time, by each worker."),
    cfg.IntOpt(
        "transfers",
        default=16,
        min=1,
        help="Requests with long bodies, uploads and downloads of images served at the same time, by each worker, beside "
        "`threads`.",
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
        help="Connections of one client address (IPv6: of one /64 network) to each worker; further ones are closed at once. "
        "trusted_proxies are not counted. 0: no limit.",
    ),
    cfg.IntOpt(
        "image_size_cap",
        default=1 << 40,
        min=1,
        max=1 << 63,
        mutable=True,
        help="Most bytes of an image, as in Glance: 1 TiB. A larger upload is answered 413, at once if its length is announced.",
    ),
    cfg.StrOpt("images_path", default="$state_path/images", help="Folder of the image store."),
]
