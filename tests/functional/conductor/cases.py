"""What holds of a conductor on every engine: run on SQLite here, on real servers in the integration tests."""

from tests.functional.conductor.build_cases import CreateCases, FailureCases, ScheduleCases
from tests.functional.conductor.console_cases import ConsoleCases
from tests.functional.conductor.group_cases import AggregateCases, GroupCases
from tests.functional.conductor.group_commit_cases import GroupCommitCases
from tests.functional.conductor.guest_metadata_cases import GuestMetadataCases
from tests.functional.conductor.host_cases import AuditCases, CatalogueCases, ServiceCases
from tests.functional.conductor.interleaving_cases import InterleavingCases
from tests.functional.conductor.key_pair_cases import KeyPairCases
from tests.functional.conductor.network_cases import NetworkCases, SecurityGroupCases, ServerPortCases
from tests.functional.conductor.network_pool_cases import NetworkPoolCases
from tests.functional.conductor.quota_cases import QuotaCases
from tests.functional.conductor.removal_cases import DeleteCases, PurgeCases, TakeOverCases


class ConductorCases(
    CreateCases,
    ScheduleCases,
    FailureCases,
    DeleteCases,
    TakeOverCases,
    AuditCases,
    ServiceCases,
    CatalogueCases,
    PurgeCases,
    InterleavingCases,
    AggregateCases,
    GroupCases,
    GroupCommitCases,
    QuotaCases,
    KeyPairCases,
    NetworkCases,
    NetworkPoolCases,
    ConsoleCases,
    SecurityGroupCases,
    ServerPortCases,
    GuestMetadataCases,
):
    """All of them. A subclass gives the fixture `harness`."""
