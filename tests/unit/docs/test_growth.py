"""Each table says in docs/operators/growth.md what it grows with and what removes its rows."""

import re
from pathlib import Path

from minova.conf.conductor import OPTS
from minova.db.models import Base

PAGE = Path(__file__).parents[3] / "docs/operators/growth.md"
ROW = re.compile(
    r"^\| `(?P<table>\w+)` \| (?P<grows>[^|]+) \| (?P<removed>[^|]+) \| [\d,]+ \| (about )?[\d,]+ \| [^|]+ \|$",
    re.MULTILINE,
)


def test_each_table_has_a_statement_about_its_growth() -> None:
    rows = {row["table"]: row for row in ROW.finditer(PAGE.read_text())}
    assert sorted(rows) == sorted(Base.metadata.tables), (
        "a new table needs a row in docs/operators/growth.md, and a purge if it grows"
    )


def test_each_retention_that_the_page_names_is_an_option() -> None:
    named = set(re.findall(r"`(\w+_(?:retention|size|pause))`", PAGE.read_text()))
    assert named <= {option.name for option in OPTS}
    assert {option.name for option in OPTS if option.name.endswith("_retention")} <= named
