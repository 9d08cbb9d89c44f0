"""Rules that need no second engine."""

from tests.functional.conductor.group_cases import DemandCases, GroupRuleCases, ZoneCases


class TestOnSqlite(ZoneCases, DemandCases, GroupRuleCases):
    pass
