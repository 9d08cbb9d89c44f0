"""A request gets the options of the file, and the aggregates if any of its filters needs them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from minova.db import models
from minova.db.engine import Database
from minova.objects.catalogue.flavor import Flavor
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.request.process import RequestProcessor
from tests.unit.scheduler.requests import options

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLAIN = RequestSpec(flavor=Flavor(flavorid="f", name="f", vcpus=1, memory_mb=1, root_gb=1), project_id="p")
IN_ZONE = RequestSpec(flavor=PLAIN.flavor, project_id="p", availability_zone="z")


@pytest.fixture
def db(tmp_path: Path) -> Database:
    database = Database(f"sqlite:///{tmp_path}/minova.sqlite")
    models.Base.metadata.create_all(database.engine)
    zone = models.Aggregate(uuid="zone-uuid", name="a", metadata_={"availability_zone": "z"}, created_at=NOW)
    database.run(lambda session: session.add(zone))
    return database


def test_a_zone_is_looked_up_among_the_aggregates(db: Database) -> None:
    processor = RequestProcessor(options(), db)
    assert processor.process_request_spec(IN_ZONE).placement.member_of == (("zone-uuid",),)
    assert processor.process_request_spec(PLAIN).placement.member_of == ()


def test_a_request_that_needs_no_aggregates_reads_none(db: Database) -> None:
    processor = RequestProcessor(options(), db)
    models.Base.metadata.drop_all(db.engine)
    assert processor.process_request_spec(PLAIN).placement.resources == PLAIN.resources


def test_the_content_of_the_options_file_goes_with_the_request(db: Database, tmp_path: Path) -> None:
    path = tmp_path / "options.json"
    path.write_text('{"rack": 5}')
    processor = RequestProcessor(options(scheduler__scheduler_json_config_location=str(path)), db)
    assert processor.process_request_spec(PLAIN).config_options == {"rack": 5}
