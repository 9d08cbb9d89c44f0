"""How executables open their database."""

import pytest
from sqlalchemy.pool import QueuePool

from minova import conf as configuration
from minova.cmd.startup.database import opened


@pytest.mark.parametrize("url", ["postgresql+psycopg://u:p@h/d", "mysql+pymysql://u:p@h/d"])
def test_the_pool_is_as_large_as_configured(url: str) -> None:
    conf = configuration.load([], "test", files=[])
    conf.set_override("connection", url, group="database")
    conf.set_override("max_pool_size", 3, group="database")
    database = opened(conf)
    assert isinstance(database.engine.pool, QueuePool)
    assert database.engine.pool.size() == 3
    database.close()
