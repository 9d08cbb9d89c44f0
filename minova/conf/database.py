"""Where the tables are."""

from oslo_config import cfg

GROUP = "database"

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "connection",
        default="sqlite:///$state_path/minova.sqlite",
        secret=True,
        help="SQLAlchemy URL: sqlite:///FILE, postgresql+psycopg://USER:PASSWORD@HOST/NAME or "
        "mysql+pymysql://USER:PASSWORD@HOST/NAME. Computes need none.",
    ),
    cfg.BoolOpt(
        "ssl",
        default=False,
        help="Connect over TLS (not SQLite). The server's certificate is checked, and must bear the host's name as connection has it.",
    ),
    cfg.StrOpt(
        "ssl_ca_file", help="Authorities (PEM) that the server's certificate may be of; unset: those of the system."
    ),
    cfg.StrOpt("ssl_cert_file", help="Certificate (PEM) that this service shows the server, where that asks for one."),
    cfg.StrOpt("ssl_key_file", help="Key (PEM) of ssl_cert_file; other users must not be able to read it."),
    cfg.IntOpt(
        "max_pool_size",
        default=10,
        min=1,
        help="Connections that one process has at the same time (not SQLite); more work than that waits its turn.",
    ),
    cfg.IntOpt("pool_timeout", default=30, min=1, help="Seconds that work waits for one of these connections."),
    cfg.IntOpt(
        "connection_recycle_time",
        default=3600,
        min=1,
        help="Seconds after which a connection is made anew (not SQLite).",
    ),
    cfg.IntOpt(
        "connect_timeout",
        default=5,
        min=1,
        help="Seconds to wait for a new connection (not SQLite). A parameter of the same name in the URL comes first, here and below.",
    ),
    cfg.IntOpt(
        "read_timeout",
        default=20,
        min=1,
        help="Seconds that the server may work on one statement (not SQLite). The client gives up 2 s later and drops the connection.",
    ),
    cfg.IntOpt(
        "tcp_user_timeout",
        default=20,
        min=1,
        help="Seconds after which a connection is given up whose peer acknowledges nothing, keepalive probes included (not SQLite).",
    ),
]
