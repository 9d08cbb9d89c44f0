"""Four schedulers race for a cloud that has not room for all requests.

python -m tests.benchmarks.races [--server postgresql|mariadb|galera] [--schedulers 4] [--requests 2000]

On Galera half of the schedulers write at each of the two nodes.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

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
        with MariaDB() if server == "mariadb" else PostgreSQL() as one:
            yield (one.fresh_url(),)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.races", description=__doc__)
    parser.add_argument("--server", choices=["postgresql", "mariadb", "galera"], default="postgresql")
    parser.add_argument("--schedulers", type=int, default=4, help="processes")
    parser.add_argument("--requests", type=int, default=2000)
    arguments = parser.parse_args()
    with urls_at(arguments.server) as urls:
        outcome = race(*urls, schedulers=arguments.schedulers, requests=arguments.requests)
    for name, value in outcome._asdict().items():
        print(f"{name:<20} {value:>10.6g}")


if __name__ == "__main__":
    main()
