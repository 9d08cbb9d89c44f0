"""Security groups and their rules: made, changed and deleted, each in one transaction; then hosts get a hint.

Every transaction locks ports, networks, groups and usages in this order. So there are no deadlocks.
"""

import uuid
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import TypeVar

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.conductor.network.revisions import changed, require_revision
from minova.conductor.network.security.address_groups import lock_address_groups
from minova.conductor.quotas import Quotas
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.networks import SecurityGroupsApi
from minova.db.models import SecurityGroup as Row
from minova.db.networks import security_groups
from minova.db.quotas import give
from minova.objects.network.network import DEFAULT_GROUP, EGRESS, INGRESS, SecurityGroup, SecurityGroupRule
from minova.objects.network.security_rules import normalized
from minova.races import Race

T = TypeVar("T")


class DefaultGroupMissing(Exception):
    """A new port of this project needs its default group, which another transaction has to make."""

    def __init__(self, project_id: str) -> None:
        super().__init__(project_id)
        self.project_id = project_id


class SecurityGroups(SecurityGroupsApi):
    def __init__(self, worker: TaskWorker, quotas: Quotas, hints: InterfaceNotifier) -> None:
        self._worker = worker
        self._quotas = quotas
        self._hints = hints
        self.race = Race(DefaultGroupMissing, self._make_missing, _too_many_changes)

    def ensure_default_security_group(self, ctx: RequestContext, project_id: str) -> None:
        self.ensure_default([project_id])

    def ensure_default(self, project_ids: Iterable[str]) -> None:
        """Makes the default group of each project that has none. No quota applies, because each port needs one."""
        projects = set(project_ids)
        with self._worker.db.read() as session:
            missing = security_groups.without_default(session, projects)
        for project_id in missing:
            try:
                self._quotas.run(lambda session, owner=project_id: self._add_default(session, owner))  # type: ignore[misc]
            except IntegrityError:  # another transaction has just made it
                continue

    def _make_missing(self, lost: DefaultGroupMissing) -> None:
        self.ensure_default([lost.project_id])

    def _add_default(self, session: Session, project_id: str) -> None:
        group = SecurityGroup(
            id=str(uuid.uuid4()),
            name=DEFAULT_GROUP,
            description="Default security group",
            project_id=project_id,
            is_default=True,
        )
        rules = [*_egress(group), *_own_members(group)]
        row_id = security_groups.add(session, group, self._worker.at())
        security_groups.add_rules(session, row_id, rules, {group.id: row_id}, self._worker.at())
        self._quotas.take_always(session, project_id, {"security_group": 1, "security_group_rule": len(rules)})

    def create_security_groups(
        self, ctx: RequestContext, groups: tuple[SecurityGroup, ...]
    ) -> tuple[SecurityGroup, ...]:
        self.ensure_default(group.project_id for group in groups)

        def work(session: Session) -> tuple[SecurityGroup, ...]:
            for project_id, count in sorted(Counter(group.project_id for group in groups).items()):
                rules = count * len(_egress(groups[0]))
                self._quotas.take(session, project_id, {"security_group": count, "security_group_rule": rules})
            for group in groups:
                row_id = security_groups.add(session, group, self._worker.at())
                security_groups.add_rules(session, row_id, _egress(group), {}, self._worker.at())
            return tuple(_require(security_groups.find(session, group.id), group.id) for group in groups)

        return self._quotas.counted(work)

    def update_security_group(self, ctx: RequestContext, group: SecurityGroup) -> SecurityGroup:
        def work(session: Session) -> SecurityGroup:
            lock_groups(session, [group.id])
            if not security_groups.replace(session, group, self._worker.at()):
                raise changed("security group", group.id)
            return _require(security_groups.find(session, group.id), group.id)

        return self._worker.run(work)

    def delete_security_group(self, ctx: RequestContext, group_id: str, revision: int | None = None) -> None:
        """Deletes the group, and the rules of other groups that refer to it.

        Raises SecurityGroupInUse if a port has it, or a new rule refers to it just now.
        """

        def work(session: Session) -> set[str]:
            naming = security_groups.groups_with_rules_for(session, group_id)
            # All of them, because the deletion of one of the rules also locks its group, and gives its quota back.
            locked = security_groups.lock_several(session, {group_id, *naming})
            if group_id not in locked:
                raise not_found(group_id)
            row = locked[group_id]
            require_revision(row, revision)
            if (
                security_groups.is_used(session, row.id)
                or security_groups.groups_with_rules_for(session, group_id) - naming
            ):
                raise errors.SecurityGroupInUse(f"Security Group {group_id} in use.")
            freed_quota = {row.project_id: {"security_group": 1}}
            for owner, count in security_groups.remove(session, row.id).items():
                freed_quota.setdefault(owner, {})["security_group_rule"] = count
            for owner, counts in sorted(freed_quota.items()):
                give(session, owner, counts)
            return naming & locked.keys()

        self._hints.rules_changed(sorted(self._worker.run(work)))

    def create_security_group_rules(
        self, ctx: RequestContext, rules: tuple[SecurityGroupRule, ...]
    ) -> tuple[SecurityGroupRule, ...]:
        """Raises SecurityGroupRuleExists if a group has a rule already. Raises SecurityGroupNotFound or
        AddressGroupNotFound if a group, or one to which a rule refers, is deleted.
        """
        by_group: dict[str, dict[Hashable, SecurityGroupRule]] = {}
        for rule in rules:
            of_group = by_group.setdefault(rule.security_group_id, {})
            if of_group.setdefault(_traffic(rule), rule) is not rule:
                raise errors.DuplicateSecurityGroupRuleInPost("Duplicate Security Group Rule in POST.")

        def work(session: Session) -> tuple[SecurityGroupRule, ...]:
            group_ids = {*by_group, *(rule.remote_group_id for rule in rules if rule.remote_group_id is not None)}
            ids = {group_id: row.id for group_id, row in lock_groups(session, group_ids).items()}
            named_ranges = {rule.remote_address_group_id for rule in rules if rule.remote_address_group_id is not None}
            ranges = {each: row.id for each, row in lock_address_groups(session, named_ranges).items()}
            # Before the work that it limits.
            for project_id, count in sorted(Counter(rule.project_id for rule in rules).items()):
                self._quotas.take(session, project_id, {"security_group_rule": count})
            rules_by_id: dict[str, SecurityGroupRule] = {}
            for group_id, of_group in by_group.items():
                _require_new(_require(security_groups.find(session, group_id), group_id), of_group)
                security_groups.add_rules(session, ids[group_id], of_group.values(), ids, self._worker.at(), ranges)
                rules_by_id |= {
                    rule.id: rule for rule in _require(security_groups.find(session, group_id), group_id).rules
                }
            return tuple(rules_by_id[rule.id] for rule in rules)

        created = self._quotas.counted(work)
        self._hints.rules_changed(sorted(by_group))
        return created

    def delete_security_group_rule(self, ctx: RequestContext, rule_id: str, revision: int | None = None) -> None:
        """Raises SecurityGroupRuleNotFound if there is no such rule. `revision`: that the request requires; None: any. Raises
        PreconditionFailed if the rule has another one.
        """

        def work(session: Session) -> str:
            rule = security_groups.find_rule(session, rule_id)
            if rule is None:
                raise errors.SecurityGroupRuleNotFound(f"Security group rule {rule_id} does not exist")
            lock_groups(session, [rule.security_group_id])
            if not security_groups.remove_rule(session, rule_id, revision):
                current_rule = security_groups.find_rule(session, rule_id)
                if current_rule is None:
                    raise errors.SecurityGroupRuleNotFound(f"Security group rule {rule_id} does not exist")
                require_revision(current_rule, revision)
                raise changed("security group rule", rule_id)
            give(session, rule.project_id, {"security_group_rule": 1})
            return rule.security_group_id

        self._hints.rules_changed([self._worker.run(work)])


def _too_many_changes(_: DefaultGroupMissing) -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable("The default security group of this project changes too often. Please try again.")


def lock_groups(session: Session, group_ids: Collection[str]) -> Mapping[str, Row]:
    """Returns the locked groups by id. Raises SecurityGroupNotFound."""
    locked = security_groups.lock_several(session, group_ids)
    for missing in sorted(set(group_ids) - locked.keys()):
        raise not_found(missing)
    return locked


def lock_for_ports(session: Session, group_ids: Collection[str], project_ids: Collection[str]) -> Mapping[str, Row]:
    """Returns these groups and the default groups of these projects, locked, by id.

    Raises SecurityGroupNotFound or DefaultGroupMissing.
    """
    locked: Mapping[str, Row]
    if group_ids:
        # One statement locks them all, in the order that all writers use.
        defaults = security_groups.defaults_of(session, project_ids)
        locked = lock_groups(session, {*group_ids, *defaults.values()})
    else:
        locked = security_groups.lock_defaults(session, project_ids)
    for missing in sorted(set(project_ids) - {row.default_of for row in locked.values()}):
        raise DefaultGroupMissing(missing)
    return locked


def not_found(group_id: str) -> errors.SecurityGroupNotFound:
    return errors.SecurityGroupNotFound(f"Security group {group_id} does not exist")


def _require(group: SecurityGroup | None, group_id: str) -> SecurityGroup:
    if group is None:
        raise not_found(group_id)
    return group


def _egress(group: SecurityGroup) -> list[SecurityGroupRule]:
    """Rules that allow all outgoing traffic."""
    return [_rule(group, EGRESS, ethertype) for ethertype in ("IPv4", "IPv6")]


def _own_members(group: SecurityGroup) -> list[SecurityGroupRule]:
    """Rules that allow incoming traffic from members of the same group."""
    return [_rule(group, INGRESS, ethertype, remote_group_id=group.id) for ethertype in ("IPv4", "IPv6")]


def _rule(
    group: SecurityGroup, direction: str, ethertype: str, remote_group_id: str | None = None
) -> SecurityGroupRule:
    return SecurityGroupRule(
        id=str(uuid.uuid4()),
        security_group_id=group.id,
        project_id=group.project_id,
        direction=direction,
        ethertype=ethertype,
        remote_group_id=remote_group_id,
    )


def _require_new(group: SecurityGroup, new_traffic: Iterable[Hashable]) -> None:
    """`new_traffic`: of the new rules. Raises SecurityGroupRuleExists if the group has one of them already."""
    existing = {_traffic(rule): rule.id for rule in group.rules}
    for traffic in new_traffic:
        if traffic in existing:
            raise errors.SecurityGroupRuleExists(f"Security group rule already exists. Rule id is {existing[traffic]}.")


def _traffic(rule: SecurityGroupRule) -> Hashable:
    """Returns what the rule allows: a group has no two rules with the same."""
    return (
        rule.direction,
        rule.ethertype,
        rule.protocol,
        rule.port_range_min,
        rule.port_range_max,
        rule.remote_group_id,
        rule.remote_address_group_id,
        normalized(rule.remote_ip_prefix),
    )
