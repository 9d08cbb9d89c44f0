"""Keystone from its package: `python -P keystone_process.py CONF PORT THREADS` of .venv/openstack serves.

The folder of CONF gets a database and keys, a copy of those that the first run made and kept beside the package: the migrations
and keystone-manage take long.
"""

import grp
import os
import pwd
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from cheroot import wsgi
from keystone.cmd import cli
from keystone.server.wsgi import initialize_public_application

KEPT = Path(sys.prefix) / f"keystone-{version('keystone')}"
URL = "http://127.0.0.1:{}/v3"


def manage(conf: Path, *words: str) -> None:
    """As keystone-manage does, each of which would take seconds to start."""
    sys.argv = ["keystone-manage", "--config-file", str(conf), *words]
    cli.main(argv=sys.argv)
    cli.CONF.reset()


def make(conf: Path) -> None:
    """Make what is kept. In a process of its own: Keystone can be set up once in a process."""
    manage(conf, "db_sync")
    user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
    manage(conf, "fernet_setup", f"--keystone-user={user}", f"--keystone-group={group}")
    urls = [f"--bootstrap-{kind}-url={URL.format(0)}" for kind in ("admin", "internal", "public")]
    manage(conf, "bootstrap", "--bootstrap-password=secret", "--bootstrap-region-id=RegionOne", *urls)


def keep(conf: Path) -> None:
    with tempfile.TemporaryDirectory(dir=KEPT.parent) as name:
        folder = Path(name) / "kept"
        folder.mkdir()
        own = folder / conf.name
        own.write_text(conf.read_text().replace(str(conf.parent), str(folder)))
        subprocess.run([sys.executable, "-P", __file__, str(own)], check=True)
        if not KEPT.exists():
            folder.rename(KEPT)


def serve(conf: Path, port: int, threads: int) -> None:
    database = conf.parent / "keystone.sqlite"
    if not database.exists():
        if not KEPT.exists():
            keep(conf)
        shutil.copytree(KEPT / "fernet", conf.parent / "fernet")
        shutil.copyfile(KEPT / database.name, database)
        with sqlite3.connect(database) as connection:
            connection.execute("UPDATE endpoint SET url = ?", (URL.format(port),))
        connection.close()
    sys.argv = ["keystone", "--config-file", str(conf)]
    wsgi.Server(("127.0.0.1", port), initialize_public_application(), numthreads=threads).start()


if __name__ == "__main__":
    if len(sys.argv) == 2:
        make(Path(sys.argv[1]))
    else:
        serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
