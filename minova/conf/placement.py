"""Options of Placement over HTTP."""

from oslo_config import cfg

GROUP = "placement"

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "in_api",
        default=True,
        help="Serve Placement under /placement of minova-api too. minova-api then opens a second connection, by the first "
        "request that changes Placement. That connection can write; all others cannot.",
    ),
    cfg.StrOpt(
        "auth_strategy",
        choices=["noauth", "http_basic", "noauth2", "keystone"],
        help="How requests to minova-placement-api are authenticated; unset: as [api] auth_strategy. noauth2 takes an X-Auth-Token "
        "USER:PROJECT for what it says, where admin is the administrator and no token is 401; like noauth it is refused "
        "on any address but loopback.",
    ),
    cfg.BoolOpt(
        "noauth_in_any_server",
        default=False,
        help="Allow auth_strategy noauth and noauth2 in minova.cmd.placement_api:application() under another WSGI server. minova "
        "cannot see what that one listens on: everybody who reaches it is administrator. Requests must name a loopback "
        "host or [placement] listen in their Host header.",
    ),
    cfg.IntOpt(
        "max_request_body_size",
        default=16 << 20,
        min=1024,
        help="Most bytes of a request body to Placement: a reshape names every consumer of a provider.",
    ),
    cfg.HostAddressOpt("listen", default="127.0.0.1", help="Address that minova-placement-api listens on."),
    cfg.PortOpt("listen_port", default=8778, help="Port that minova-placement-api listens on; 0 takes a free one."),
]
