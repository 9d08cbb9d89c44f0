"""The configurations of the services of this machine, each from the files that its unit reads."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from oslo_config import cfg

from minova import conf as configuration
from minova import errors
from minova.health.doctor.findings import Finding

MANAGE, COMPUTE, STANDALONE = "minova-manage", "minova-compute", "minova-standalone"
SERVICES = (
    "minova-api",
    COMPUTE,
    "minova-conductor",
    "minova-consoleproxy",
    "minova-metadata",
    "minova-placement-api",
    "minova-scheduler",
    STANDALONE,
)
Options = Sequence[tuple[str, list[cfg.Opt]]]


class ServiceFiles:
    """`of_libraries`: the options that libraries register when a service uses them, by group."""

    def __init__(self, conf: cfg.ConfigOpts, of_libraries: Options) -> None:
        """`conf`: of minova-manage. If files were named for it, the services have no others."""
        self._confs: dict[str, cfg.ConfigOpts] = {}
        self._refused: dict[str, list[str]] = {}
        for binary in _services(conf):
            try:
                self._confs[binary] = configuration.unchecked([], binary)
            except errors.InvalidConfiguration as error:
                self._refused.setdefault(str(error), []).append(binary)
        if STANDALONE in self._confs and conf.state_dir is not None:
            self._confs[STANDALONE].set_override("state_path", conf.state_path)
        # The last one: a file that a service reads too is that service's.
        self._confs[MANAGE] = conf
        for binary, each in self._confs.items():
            for group, options in of_libraries:
                each.register_opts(options, None if group == configuration.DEFAULT else group)
            try:
                configuration.check(each)
            except errors.InvalidConfiguration as error:
                self._refused.setdefault(str(error), []).append(binary)

    def of(self, binary: str) -> cfg.ConfigOpts:
        """Returns the configuration of this service; that of minova-manage if the service has none, or cannot start with its own."""
        if any(binary in binaries for binaries in self._refused.values()):
            return self._confs[MANAGE]
        return self._confs.get(binary, self._confs[MANAGE])

    def of_compute(self) -> cfg.ConfigOpts:
        """Returns the configuration of the compute: a machine has one of minova-compute and minova-standalone, and a file for its own."""
        compute = self.of(COMPUTE)
        # minova-compute.conf, or a file of minova-compute.conf.d.
        has_own = any(COMPUTE in str(file) for file in configuration.files(compute))
        return compute if has_own else self.of(STANDALONE)

    def files(self) -> list[Path]:
        """Returns every file once."""
        paths: dict[Path, Path] = {}
        for conf in self._confs.values():
            for file in configuration.files(conf):
                paths.setdefault(file.resolve(), file)
        return list(paths.values())

    def distinct(self) -> list[cfg.ConfigOpts]:
        """Returns one configuration of the services that read the same files."""
        confs: dict[tuple[Path, ...], cfg.ConfigOpts] = {}
        for conf in self._confs.values():
            confs.setdefault(tuple(file.resolve() for file in configuration.files(conf)), conf)
        return list(confs.values())

    def check(self) -> Iterator[Finding]:
        """Yields the services that do not start with their files."""
        for reason, binaries in self._refused.items():
            is_every = set(binaries).issuperset(SERVICES)
            yield Finding(
                area="options",
                subject="every service" if is_every else ", ".join(binaries),
                problem="cannot start with the files that it reads",
                detail=reason,
                mend="correct it; minova-manage config check FILE shows what each option does",
            )


def _services(conf: cfg.ConfigOpts) -> Sequence[str]:
    usual = (cfg.find_config_files("minova", MANAGE), cfg.find_config_dirs("minova", MANAGE))
    if (list(conf.config_file or ()), list(conf.config_dir or ())) != usual:
        return ()
    return SERVICES if conf.state_dir is None else (STANDALONE,)
