from tests.functional.conductor.cases import ConductorCases


class TestOnSqlite(ConductorCases):
    pass
