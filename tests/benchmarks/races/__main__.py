"""Four schedulers race for a cloud that has not room for all requests.

On Galera half of the schedulers write at each of the two nodes.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.benchmarks.command_line import Option, parse
from tests.functional.scheduler.race import race
from tests.servers.galera import Galera
from tests.servers.mariadb import MariaDB
from tests.servers.postgresql import PostgreSQL


@contextmanager
def urls_at(server: str) -> Iterator[tuple[str, ...]]:
    if server == "galera":
        with Galera() as cluster:
            yield cluster.fresh_urls()
    else:
        with MariaDB() if server == "mariadb" else PostgreSQL() as database_server:
            yield (database_server.fresh_url(),)


def main() -> None:
    arguments = parse(
        "races",
        __doc__,
        Option("database", "postgresql", "postgresql", "server", ("postgresql", "mariadb", "galera")),
        Option("schedulers", 4, 2, "processes"),
        Option("requests", 2000, 20, "of all callers"),
    )
    with urls_at(arguments.database) as urls:
        outcome = race(*urls, schedulers=arguments.schedulers, requests=arguments.requests)
    for name, value in outcome._asdict().items():
        print(f"{name:<20} {value:>10.6g}")


if __name__ == "__main__":
    main()
