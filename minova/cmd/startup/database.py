"""Opens the database of a service, and waits for it while it is away."""

import threading

from oslo_config import cfg

from minova import errors
from minova.db.connections.time_limits import Timeouts
from minova.db.connections.tls import connection_url
from minova.db.engine import Database
from minova.db.hosts import services
from minova.db.recovery import cloud
from minova.db.schema import require_schema
from minova.messaging.rpc import Rpc
from minova.service import until_available
from minova.witness import Witness


def connect(conf: cfg.ConfigOpts, stopping: threading.Event, *, readonly: bool = False) -> Database:
    """Logs each failed try. Raises SchemaMismatch if the database answers but its schema is absent or too old."""
    database = opened(conf, readonly=readonly)
    until_available("database", lambda: require_schema(database), stopping)
    if not readonly:
        database.hold_ballast()
    return database


def join_cloud(db: Database, rpc: Rpc, witness: Witness, stopping: threading.Event) -> None:
    """Let all messages of this process name the database's cloud. Waits while the database has no identity, as while a
    dump is being imported.

    Raises InvalidConfiguration if this service belongs to another cloud.
    """

    def ask() -> str:
        with db.read() as session:
            row = cloud.record(session, db.now())
        if row is None:
            raise errors.ServiceUnavailable("it holds no identity of a cloud: is a dump being imported?")
        return row.uuid

    rpc.cloud.uuid = until_available("database", ask, stopping)
    if witness.seen is not None and witness.seen.uuid != rpc.cloud.uuid:
        raise errors.InvalidConfiguration(
            f"This service belongs to the cloud {witness.seen.uuid}, and the database at [database] connection to the cloud "
            f"{rpc.cloud.uuid}. Nothing was changed. {witness.remedy}."
        )


def follow_levels(conf: cfg.ConfigOpts, db: Database, rpc: Rpc) -> None:
    """Let `rpc` read from the database which versions the oldest services serve."""

    def read() -> dict[str, int]:
        with db.read() as session:
            return services.lowest_versions(session, float(conf.service_down_time))

    rpc.levels.follow(read)


def of_its_own(conf: cfg.ConfigOpts) -> Database:
    """Returns a database with one connection, for which no other work waits."""
    return Database(connection_url(conf.database), pool_size=1, timeouts=_timeouts(conf))


def opened(conf: cfg.ConfigOpts, *, readonly: bool = False, durable: bool = True) -> Database:
    """Returns a database without connecting to it."""
    options = conf.database
    return Database(
        connection_url(options),
        readonly=readonly,
        pool_size=options.max_pool_size,
        durable=durable,
        ballast=durable and not readonly,
        timeouts=_timeouts(conf),
    )


def _timeouts(conf: cfg.ConfigOpts) -> Timeouts:
    return Timeouts(**{name: getattr(conf.database, name) for name in Timeouts.__struct_fields__})
