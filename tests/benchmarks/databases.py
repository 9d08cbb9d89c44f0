"""A broker, and the databases on which a benchmark runs."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.command_line import Option
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ

OPTION = Option("database", ["sqlite", "postgresql"], ["sqlite"], "databases", ("sqlite", "postgresql"))


def each(kinds: Sequence[str]) -> Iterator[tuple[Path, str, str]]:
    """Prints each kind, and yields a folder for it, the URL of a new virtual host of RabbitMQ and that of a new database."""
    with RabbitMQ() as rabbit, PostgreSQL() as database, tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            print(f"{kind}:", flush=True)
            url = database.fresh_url() if kind == "postgresql" else f"sqlite:///{folder}/minova.sqlite"
            yield Path(folder) / kind, rabbit.fresh_url(), url
