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
    cfg.IntOpt(
        "max_pool_size",
        default=10,
        min=1,
        help="Connections that one process has at the same time (not SQLite); more work than that waits its turn.",
    ),
]
