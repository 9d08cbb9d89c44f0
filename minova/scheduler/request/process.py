"""Prepares a request for the driver: the options file, the aggregates, the request filters."""

from typing import Any

import msgspec
from sqlalchemy import select

from minova.db import models
from minova.db.engine import Database
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.record import AggregateFacts
from minova.scheduler.request.filters import apply_request_filters, needs_aggregates, options_of
from minova.scheduler.request.options_file import OptionsFile

_AGGREGATES = select(
    models.Aggregate.id, models.Aggregate.name, models.Aggregate.metadata_, models.Aggregate.uuid
).order_by(models.Aggregate.id)


class RequestProcessor:
    """Raises InvalidConfiguration if the options file is malformed."""

    def __init__(self, conf: Any, db: Database) -> None:
        self._db = db
        self._options = options_of(conf)
        self._file = OptionsFile(conf.scheduler.scheduler_json_config_location)

    def process_request_spec(self, spec: RequestSpec) -> RequestSpec:
        """Returns the request with its options and its query of Placement. Raises the errors of
        `apply_request_filters`.
        """
        spec = msgspec.structs.replace(spec, config_options=self._file.content())
        aggregates = self._aggregates() if needs_aggregates(spec, self._options) else ()
        return apply_request_filters(spec, aggregates, self._options)

    def _aggregates(self) -> tuple[AggregateFacts, ...]:
        """Returns all aggregates: even an aggregate without hosts may restrict a request, so that no host is left."""
        with self._db.read() as session:
            return tuple(
                AggregateFacts(number, name, tuple(sorted((key, str(value)) for key, value in metadata.items())), uuid)
                for number, name, metadata, uuid in session.execute(_AGGREGATES)
            )
