"""Four schedulers race for a cloud that has not room for all requests, on PostgreSQL.

python -m tests.benchmarks.races [--schedulers 4] [--requests 2000]
"""

import argparse

from tests.functional.scheduler.race import race
from tests.servers.postgresql import PostgreSQL


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.races", description=__doc__)
    parser.add_argument("--schedulers", type=int, default=4, help="processes")
    parser.add_argument("--requests", type=int, default=2000)
    arguments = parser.parse_args()
    with PostgreSQL() as server:
        outcome = race(server.fresh_url(), schedulers=arguments.schedulers, requests=arguments.requests)
    for name, value in outcome._asdict().items():
        print(f"{name:<20} {value:>10.6g}")


if __name__ == "__main__":
    main()
