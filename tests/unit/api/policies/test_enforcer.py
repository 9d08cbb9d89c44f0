"""Policies: defaults, overrides, and files that change or are wrong."""

import logging
from pathlib import Path

import pytest
from oslo_config import cfg

from minova import conf as configuration
from minova import errors
from minova.api.policies.enforcer import LOOK_AGAIN, Caller, Policy, Target
from minova.api.policies.registry import RULES
from minova.api.policies.users import Scope

DELETE, SERVICES, GET_IMAGE = "os_compute_api:servers:delete", "os_compute_api:os-services:list", "get_image"
OWN, FOREIGN = Target(project_id="acme", user_id="alice"), Target(project_id="globex", user_id="bob")


class Policies:
    """A policy over a policy.yaml, and a clock that tests move."""

    def __init__(self, folder: Path, text: str = "") -> None:
        self.now = 0.0
        self.file = folder / "policy.yaml"
        self.file.write_text(text)
        self.conf: cfg.ConfigOpts = configuration.load([], "test", files=[])
        self.conf.set_override("policy_file", str(self.file), group="oslo_policy")
        self.policy = Policy(self.conf, clock=lambda: self.now)

    def change(self, text: str) -> None:
        self.file.write_text(text)
        self.now += LOOK_AGAIN

    def permits(self, rule: str, *roles: str, target: Target = OWN, user: str = "alice") -> bool:
        caller = self.policy.with_admin_flag(Caller(user_id=user, project_id="acme", roles=roles))
        return self.policy.permits(rule, caller, target)


@pytest.fixture
def policies(tmp_path: Path) -> Policies:
    return Policies(tmp_path)


@pytest.mark.parametrize(
    ("rule", "role", "target", "permitted"),
    [
        (DELETE, "member", OWN, True),
        (DELETE, "member", FOREIGN, False),
        (DELETE, "reader", OWN, False),
        (DELETE, "admin", FOREIGN, True),
        (SERVICES, "member", OWN, False),
        (SERVICES, "admin", OWN, True),
        (GET_IMAGE, "reader", FOREIGN, False),
        (GET_IMAGE, "reader", Target(project_id="globex", visibility="public"), True),
        (GET_IMAGE, "service", Target(project_id="globex", visibility="public"), False),
        (DELETE, "member", Target(project_id=""), False),
    ],
)
def test_defaults(policies: Policies, rule: str, role: str, target: Target, permitted: bool) -> None:
    assert policies.permits(rule, role, target=target) is permitted


def test_empty_project_is_not_the_own_one(policies: Policies) -> None:
    """A caller without a project owns nothing that has none."""
    caller = Caller(user_id="", project_id="", roles=("member",))
    assert not policies.policy.permits(DELETE, caller, Target(project_id=""))


def test_override_counts_within_a_second_of_the_change(policies: Policies) -> None:
    assert not policies.permits(SERVICES, "reader")
    policies.change(f'"{SERVICES}": "role:reader"\n')
    assert policies.permits(SERVICES, "reader")
    policies.change("{}\n\n")
    assert not policies.permits(SERVICES, "reader")


def test_override_can_compare_the_user_of_a_resource(tmp_path: Path) -> None:
    policies = Policies(tmp_path, f'"{DELETE}": "user_id:%(user_id)s"\n')
    assert policies.permits(DELETE, "member", user="alice")
    assert not policies.permits(DELETE, "member", user="carol")


def test_context_is_admin_can_be_another_role(tmp_path: Path) -> None:
    policies = Policies(tmp_path, '"context_is_admin": "role:cloud_admin"\n')
    assert policies.permits(SERVICES, "cloud_admin")
    assert not policies.permits(SERVICES, "admin")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1, 2", "policy"),
        ("just words\n", "policy"),
        (f'"{SERVICES}": "role:reader or"\n', "is not an expression"),
        (f'"{SERVICES}": "admins only"\n', "is not an expression"),
        (f'"{SERVICES}": "rule:nothing"\n', "refers to the rule nothing"),
        ('"project_reader_api": "rule:project_reader_or_admin"\n', "refers to itself"),
    ],
)
def test_file_that_cannot_be_used(
    policies: Policies, tmp_path: Path, text: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At the start it is refused; later the policies stay as they were, and the log says why."""
    policies.change(f'"{SERVICES}": "role:auditor"\n')
    assert policies.permits(SERVICES, "auditor")
    with caplog.at_level(logging.ERROR):
        policies.change(text)
        assert policies.permits(SERVICES, "auditor")
        policies.now += LOOK_AGAIN
        assert policies.permits(SERVICES, "auditor")
    assert [reason in record.message for record in caplog.records if "stay as they are" in record.message] == [True]
    (tmp_path / "other").mkdir()
    with pytest.raises(errors.InvalidConfiguration, match=reason):
        Policies(tmp_path / "other", text)


def test_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    conf = configuration.load([], "test", files=[])
    conf.set_override("policy_file", str(tmp_path / "none.yaml"), group="oslo_policy")
    with pytest.raises(errors.InvalidConfiguration, match=r"none\.yaml: there is no such file"):
        Policy(conf)


def test_policies_of_nova_that_minova_lacks_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = '"os_compute_api:os-volumes:list": "rule:mine"\n"mine": "role:mine"\n"compute:typo": "@"\n'
    policies = Policies(tmp_path, text)
    assert policies.permits(DELETE, "member")
    warnings = [record.message for record in caplog.records if "has no policies" in record.message]
    assert len(warnings) == 1
    assert warnings[0].endswith("compute:typo, os_compute_api:os-volumes:list")


def test_rule_that_is_not_registered_is_an_error(policies: Policies) -> None:
    with pytest.raises(KeyError):
        policies.permits("os_compute_api:servers:delte", "admin")


def test_names_are_unique() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))


def test_decision_is_evaluated_once(policies: Policies, monkeypatch: pytest.MonkeyPatch) -> None:
    assert policies.permits(DELETE, "member")
    monkeypatch.setattr(type(policies.policy.current), "evaluate", lambda *_: pytest.fail("evaluated again"))
    assert policies.permits(DELETE, "member")


def test_answers_of_a_remote_service_are_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policies = Policies(tmp_path, f'"{DELETE}": "http://127.0.0.1:1/%(name)s"\n')
    answers = iter([True, False])
    monkeypatch.setattr(type(policies.policy.current), "evaluate", lambda *_: next(answers))
    caller = Caller(user_id="alice", project_id="acme")
    assert [policies.policy.permits(DELETE, caller, OWN) for _ in range(2)] == [True, False]


@pytest.mark.parametrize(
    ("scope", "permitted"),
    [
        (Scope(), True),
        (Scope(user_domain_id="default", project_domain_id="default"), True),
        (Scope(domain_id="default"), False),
        (Scope(system_scope="all"), False),
    ],
)
def test_policies_are_for_tokens_of_projects(policies: Policies, scope: Scope, permitted: bool) -> None:
    caller = policies.policy.with_admin_flag(Caller(user_id="root", project_id="acme", roles=("admin",), scope=scope))
    assert caller.is_admin is permitted
    assert policies.policy.permits(SERVICES, caller, OWN) is permitted
    # Not even one that lets every user in.
    assert policies.policy.permits("os_compute_api:limits", caller, OWN) is permitted


@pytest.mark.parametrize(
    ("check", "permitted"),
    [
        ("service_roles:service", True),
        ("service_roles:admin", False),
        ("user_domain_id:sales", True),
        ("service_user_id:neutron and project_domain_id:sales", True),
        ("domain_id:sales", False),
    ],
)
def test_rules_see_what_a_token_says(tmp_path: Path, check: str, permitted: bool) -> None:
    policies = Policies(tmp_path, f'"{SERVICES}": "{check}"\n')
    scope = Scope(
        user_domain_id="sales",
        project_domain_id="sales",
        service_user_id="neutron",
        service_roles=("reader", "service"),
    )
    caller = Caller(user_id="alice", project_id="acme", roles=("member",), scope=scope)
    assert policies.policy.permits(SERVICES, caller, OWN) is permitted


def test_caller_without_a_project_owns_nothing(policies: Policies) -> None:
    caller = Caller(user_id="alice", project_id="", roles=("member",))
    assert not policies.policy.permits(DELETE, caller, Target(project_id=""))
