"""`minova-manage policy`: lists the policies, and shows whether and why a policy permits an action."""

import sys
from argparse import Namespace

from oslo_config import cfg

from minova import errors
from minova.api.policies.enforcer import Caller, LoadedRules, Policy, Target
from minova.api.policies.explain import explain
from minova.api.policies.users import Users, with_implied


def list_policies(conf: cfg.ConfigOpts) -> None:
    """Prints each policy on a line, in the format of policy.yaml. An override follows its default."""
    policy = Policy(conf)
    overrides = policy.current.overrides
    for rule in policy.rules:
        if conf.command.overridden and rule.name not in overrides:
            continue
        print(f"# {rule.description}")
        mark = "# " if rule.name in overrides else ""
        print(f'{mark}"{rule.name}": "{rule.check}"')
        if rule.name in overrides:
            print(f'"{rule.name}": "{overrides[rule.name]}"  # override')


def check_policy(conf: cfg.ConfigOpts) -> bool:
    """Prints whether the policy permits the action, and the result of each part of the rule. Returns True if it is
    denied.
    """
    policy = Policy(conf)
    loaded, options = policy.current, conf.command
    if options.rule not in {rule.name for rule in policy.rules}:
        raise errors.NotFound(f"There is no policy {options.rule}; `minova-manage policy list` shows them.")
    caller = policy.with_admin_flag(_caller(conf, options))
    target = Target(
        project_id=options.target_project or caller.project_id,
        user_id=options.target_user or ("" if options.target_project else caller.user_id),
        visibility=options.target_visibility or "",
    )
    permitted = loaded.permits(options.rule, caller, target)
    roles = ", ".join(caller.roles) or "no role"
    print(
        f"{'permitted' if permitted else 'denied'}: {options.rule} for user {caller.user_id} "
        f"({roles} in project {caller.project_id}) on project {target.project_id}"
    )
    _print_reasons(loaded, options.rule, caller, target)
    return not permitted


def _print_reasons(loaded: LoadedRules, rule: str, caller: Caller, target: Target) -> None:
    source = "override" if rule in loaded.overrides else "default"
    print(f'"{rule}": "{loaded.enforcer.rules[rule]}"  ({source})')
    sys.stdout.writelines(f"{line}\n" for line in explain(loaded, rule, caller, target))


def _caller(conf: cfg.ConfigOpts, options: Namespace) -> Caller:
    """Project and roles come from the configuration, unless the command names others."""
    identity = Users(conf.api.admin_users, conf.api.user_roles).identity(options.user)
    roles = identity.roles if options.roles is None else with_implied(options.roles)
    return Caller(user_id=options.user, project_id=options.project or identity.project_id or "", roles=roles)
