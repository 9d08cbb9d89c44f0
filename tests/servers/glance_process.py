"""Glance from its package: `python -P glance_process.py CONF PORT THREADS` of .venv/openstack serves.

The folder of CONF gets a database, a copy of the one that the first run made and kept beside the package: the migrations take long.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from cheroot import wsgi

PACKAGE = Path(sys.prefix)
KEPT = PACKAGE / f"glance-{version('glance')}.sqlite"


def make(conf: Path) -> None:
    """Make the database. In a process of its own: Glance can be set up once in a process."""
    from glance.cmd import manage  # noqa: PLC0415

    sys.argv = ["glance-manage", "--config-file", str(conf), "db", "sync"]
    manage.main()


def keep(conf: Path) -> None:
    with tempfile.TemporaryDirectory(dir=KEPT.parent) as name:
        own = Path(name) / conf.name
        own.write_text(conf.read_text().replace(str(conf.parent), name))
        subprocess.run([sys.executable, "-P", __file__, str(own)], check=True)
        new_database = Path(name) / "glance.sqlite"
        if not KEPT.exists():
            new_database.rename(KEPT)


def serve(conf: Path, port: int, threads: int) -> None:
    database = conf.parent / "glance.sqlite"
    if not database.exists():
        if not KEPT.exists():
            keep(conf)
        shutil.copyfile(KEPT, database)
    shutil.copyfile(PACKAGE / "etc" / "glance" / "glance-api-paste.ini", conf.parent / "paste.ini")
    # Where its application looks for glance-api.conf.
    os.environ["OS_GLANCE_CONFIG_DIR"] = str(conf.parent)
    from glance.common import wsgi_app  # noqa: PLC0415

    sys.argv = ["glance-api"]
    wsgi.Server(("127.0.0.1", port), wsgi_app.init_app(), numthreads=threads).start()


if __name__ == "__main__":
    if len(sys.argv) == 2:
        make(Path(sys.argv[1]))
    else:
        serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
