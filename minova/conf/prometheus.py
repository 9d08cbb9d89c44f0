"""Options of the page of figures that each process can show to Prometheus. Nova has none."""

from oslo_config import cfg

GROUP = "prometheus"

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt("enabled", default=False, help="Show figures at http://LISTEN:PORT/metrics."),
    cfg.HostAddressOpt(
        "listen",
        default="127.0.0.1",
        help="Address of the page. It has no passwords: on any address but loopback every client that reaches it can read it.",
    ),
    cfg.PortOpt(
        "port",
        help="Port of the page. Without it each kind of process has its own, so that one file may serve all on a host: "
        "minova-api 9790, minova-conductor 9791, minova-scheduler 9792, minova-compute 9793, minova-standalone 9794, "
        "minova-placement-api 9795. 0 lets the system choose; the log says which.",
    ),
]
