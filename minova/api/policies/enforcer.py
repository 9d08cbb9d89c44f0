"""Decides by oslo.policy's rules what a caller may do. Reads the file of overrides again when it changes.

oslo.policy checks its files at every decision, and inspects the signature of every part of a rule: that takes a few
tenths of a millisecond. Here the rules of one state of the files are parsed once, and decisions are cached for that
state.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from oslo_config import cfg
from oslo_policy import policy as oslo

from minova import errors
from minova.api.policies.base import PolicyRule
from minova.api.policies.registry import RULES
from minova.api.policies.users import Scope

LOG = logging.getLogger(__name__)

# Seconds between two checks of the files.
LOOK_AGAIN = 1.0
MAX_DECISIONS = 10_000
DEFAULT_FILE = "policy.yaml"
IS_ADMIN = "context_is_admin"


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The user of a request. `roles`: those in the project, with the roles that they imply."""

    user_id: str
    project_id: str
    roles: tuple[str, ...] = ()
    is_admin: bool = False
    scope: Scope = Scope()


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The resource of a request: its project and user, an image's `visibility`, and the caller's project if the image
    is shared with it.
    """

    project_id: str
    user_id: str = ""
    visibility: str = ""
    member_id: str = ""


Stamp = tuple[tuple[str, int, int, int], ...]


class LoadedRules:
    """The rules of one state of the files."""

    def __init__(self, enforcer: oslo.Enforcer, overrides: Mapping[str, str]) -> None:
        self.enforcer = enforcer
        self.overrides = overrides
        self._decisions: dict[tuple[str, Caller, Target], bool] = {}
        # Decisions of a remote service are not cached: they may change.
        self._remembers = not any(
            isinstance(part, oslo.Check) and part.kind in ("http", "https")
            for check in enforcer.rules.values()
            for part in parts_of(check)
        )

    def permits(self, rule: str, caller: Caller, target: Target) -> bool:
        """Returns False for a token of a domain or of the system: every policy is for projects, as in Nova.

        Raises KeyError if the rule is not registered.
        """
        if not caller.scope.is_of_project:
            return False
        key = (rule, caller, target)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self.evaluate(self._check(rule), caller, target)
            if self._remembers:
                if len(self._decisions) >= MAX_DECISIONS:
                    self._decisions = {}
                self._decisions[key] = decision
        return decision

    def evaluate(self, check: Any, caller: Caller, target: Target) -> bool:
        # Empty values are left out. Lists, because oslo.policy does not look into tuples.
        scope = {name: value for name, value in msgspec.structs.asdict(caller.scope).items() if value}
        lists = {"roles": list(caller.roles), "service_roles": list(caller.scope.service_roles)}
        credentials = msgspec.structs.asdict(caller) | scope | lists
        del credentials["scope"]
        # An empty value must not equal another empty value.
        about = {key: value for key, value in msgspec.structs.asdict(target).items() if value}
        if target.project_id:
            about["owner"] = about["tenant_id"] = target.project_id
        return bool(self.enforcer.enforce(check, about, credentials))

    def _check(self, rule: str) -> Any:
        if rule not in self.enforcer.registered_rules:
            raise KeyError(rule)
        return self.enforcer.rules[rule]


class Policy:
    """Raises InvalidConfiguration if a file of overrides cannot be used. If that happens after a later change, the
    error is logged, and the old rules stay in force.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, rules: Sequence[PolicyRule] = RULES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rules = rules
        self._conf = conf
        self._clock = clock
        self._lock = threading.Lock()
        self._look_at = clock() + LOOK_AGAIN
        self._stamp = self._stamp_now()
        self._loaded = self._load()

    @property
    def current(self) -> LoadedRules:
        now = self._clock()
        if now >= self._look_at and self._lock.acquire(blocking=False):
            try:
                self._look_at = now + LOOK_AGAIN
                self._reload()
            finally:
                self._lock.release()
        return self._loaded

    def permits(self, rule: str, caller: Caller, target: Target) -> bool:
        return self.current.permits(rule, caller, target)

    def with_admin_flag(self, caller: Caller) -> Caller:
        """Returns the caller with `is_admin` as the policy decides."""
        own = Target(project_id=caller.project_id, user_id=caller.user_id)
        return msgspec.structs.replace(caller, is_admin=self.permits(IS_ADMIN, caller, own))

    def _reload(self) -> None:
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._loaded = self._load()
        except errors.InvalidConfiguration as error:
            LOG.error("The policies stay as they are, because the changed ones cannot be used: %s", error)
            return
        LOG.info("The policies were read again: %d overrides", len(self._loaded.overrides))

    def _files(self) -> Iterator[Path]:
        options = self._conf.oslo_policy
        for name in (options.policy_file, *options.policy_dirs):
            location = self._conf.find_file(name)
            if location:
                path = Path(location)
                yield path
                yield from sorted(path.iterdir()) if path.is_dir() else ()

    def _stamp_now(self) -> Stamp:
        stamps = []
        try:
            for path in self._files():
                status = path.stat()
                stamps.append((str(path), status.st_mtime_ns, status.st_size, status.st_ino))
        except OSError:  # a file changes just now; the next check sees the result
            return ()
        return tuple(stamps)

    def _load(self) -> LoadedRules:
        name = self._conf.oslo_policy.policy_file
        option_text = f"[oslo_policy] policy_file = {name}"
        if name != DEFAULT_FILE and not self._conf.find_file(name):
            raise errors.InvalidConfiguration(f"{option_text}: there is no such file.")
        enforcer = oslo.Enforcer(self._conf)
        enforcer.skip_undefined_check = True
        for rule in self.rules:
            default = oslo.RuleDefault(rule.name, rule.check, rule.description, scope_types=["project"])
            enforcer.register_default(default)
        try:
            enforcer.load_rules(force_reload=True)
        except (ValueError, TypeError, AttributeError, OSError) as error:
            raise errors.InvalidConfiguration(f"{option_text}: {error}") from None
        # From here on the enforcer only evaluates, and reads no files.
        enforcer.use_conf = False
        overrides = {name: rule.check_str for name, rule in enforcer.file_rules.items()}
        _check_expressions(option_text, enforcer)
        for rule in self.rules:
            _check_references(option_text, enforcer, rule.name, ())
        unknown = sorted(overrides.keys() - {rule.name for rule in self.rules} - _referenced(enforcer, overrides))
        if unknown:
            LOG.warning("%s: minova has no policies %s", option_text, ", ".join(unknown))
        return LoadedRules(enforcer, overrides)


def parts_of(check: Any) -> Iterator[Any]:
    """Yields the check and all its parts, without the rules that it refers to by `rule:`."""
    yield check
    for part in children_of(check):
        yield from parts_of(part)


def children_of(check: Any) -> Sequence[Any]:
    if isinstance(check, oslo.AndCheck | oslo.OrCheck):
        return check.rules
    return [check.rule] if isinstance(check, oslo.NotCheck) else []


def _check_expressions(shown: str, enforcer: oslo.Enforcer) -> None:
    """Raises InvalidConfiguration for invalid expressions, which oslo.policy turns into `!`: no user may."""
    for name, rule in enforcer.file_rules.items():
        if "!" not in str(rule.check_str) and "!" in map(str, parts_of(rule.check)):
            raise errors.InvalidConfiguration(f'{shown}: "{name}": "{rule.check_str}" is not an expression.')


def _check_references(shown: str, enforcer: oslo.Enforcer, name: str, above: tuple[str, ...]) -> None:
    if name in above:
        raise errors.InvalidConfiguration(f"{shown}: the rule {name} refers to itself.")
    if name not in enforcer.rules:
        raise errors.InvalidConfiguration(f"{shown}: {above[-1]} refers to the rule {name}, which there is not.")
    for referred in _references(enforcer.rules[name]):
        _check_references(shown, enforcer, referred, (*above, name))


def _references(check: Any) -> list[str]:
    return [part.match for part in parts_of(check) if isinstance(part, oslo.RuleCheck)]


def _referenced(enforcer: oslo.Enforcer, overrides: Mapping[str, str]) -> set[str]:
    """Returns the rules that overrides refer to: they may have names of the operator's own."""
    return {referred for name in overrides for referred in _references(enforcer.rules[name])}
