"""However much there is to do at once, a process keeps to its number of connections, and makes none anew for it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from minova.db.engine import Database

SIZE, THREADS = 2, 12


@pytest.mark.parametrize(
    ("engine", "who", "wait"),
    [
        ("postgresql", "SELECT pg_backend_pid()", "SELECT pg_sleep(0.02)"),
        ("mariadb", "SELECT connection_id()", "SELECT sleep(0.02)"),
    ],
)
def test_work_beyond_the_connections_waits_its_turn(
    request: pytest.FixtureRequest, engine: str, who: str, wait: str
) -> None:
    fresh: Callable[[], str] = request.getfixturevalue(f"fresh_{engine}_url")
    database = Database(fresh(), pool_size=SIZE)
    connections: list[object] = []
    event.listen(database.engine, "connect", lambda *connection: connections.append(connection))

    def work(session: Session) -> int:
        session.execute(text(wait))
        return int(session.scalar(text(who)))

    try:
        with ThreadPoolExecutor(THREADS) as pool:
            served = list(pool.map(lambda _: database.run(work), range(THREADS * 3)))
    finally:
        database.close()
    assert len(served) == THREADS * 3
    assert len(set(served)) == len(connections) == SIZE
