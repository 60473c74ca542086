"""The jobs of a bundle: what of Databricks' asset bundles is understood, and a job's tasks for one target.

The models are the schema: a field that is not among them is refused by name, so that nothing in a bundle is
passed over when it runs elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from lakestream.errors import ConfigError, did_you_mean, extra

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FILE = Path("jobs", "databricks.yml")
_SETTING = re.compile(r"\$\{([\w.]+)\}")
_PARAMETER = re.compile(r"\{\{job\.parameters\.(\w+)\}\}")
_Key = Annotated[str, StringConstraints(pattern=r"^[\w-]{1,100}$")]
_Quartz = Annotated[str, StringConstraints(pattern=r"^\S+( \S+){5,6}$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Named(_Part):
    name: str


class _Variable(_Part):
    description: str
    default: str | None = None


class _Schedule(_Part):
    quartz_cron_expression: _Quartz
    timezone_id: str


class _Parameter(_Part):
    name: _Key
    default: str


class _Wheel(_Part):
    """Runs an entry point of the package; the only one there is here is the command line."""

    package_name: Literal["lakestream"]
    entry_point: Literal["lakestream"]
    parameters: tuple[str, ...]


class _Library(_Part):
    whl: str


class _Before(_Part):
    task_key: _Key


class _Task(_Part):
    task_key: _Key
    depends_on: tuple[_Before, ...] = ()
    job_cluster_key: _Key
    python_wheel_task: _Wheel
    libraries: tuple[_Library, ...]


class _NewCluster(_Part):
    spark_version: str
    node_type_id: str
    num_workers: int = Field(ge=0)
    data_security_mode: Literal["SINGLE_USER", "USER_ISOLATION", "NONE"]


class _Cluster(_Part):
    job_cluster_key: _Key
    new_cluster: _NewCluster


class _Job(_Part):
    name: str
    description: str
    max_concurrent_runs: int = Field(ge=1)
    schedule: _Schedule | None = None
    parameters: tuple[_Parameter, ...]
    tasks: tuple[_Task, ...] = Field(min_length=1)
    job_clusters: tuple[_Cluster, ...]


class _Resources(_Part):
    jobs: dict[_Key, _Job]


class _Workspace(_Part):
    root_path: Annotated[str, StringConstraints(pattern=r"^/")]


class _Target(_Part):
    mode: Literal["development", "production"]
    default: bool = False
    workspace: _Workspace | None = None
    variables: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_copy(self) -> Self:
        if self.mode == "production" and self.workspace is None:
            raise ValueError("mode production needs workspace.root_path, or it cannot be deployed")
        return self


class _File(_Part):
    bundle: _Named
    variables: dict[str, _Variable]
    resources: _Resources
    targets: dict[_Key, _Target] = Field(min_length=1)


@dataclass(frozen=True)
class Task:
    """A task of a job: the arguments of the command line, and the tasks that come before it."""

    key: str
    arguments: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """A job as it stands in a bundle: its name there, what it is for, when it runs, and its parameters."""

    name: str
    description: str
    schedule: str | None
    parameters: tuple[str, ...]


class Bundle:
    """The jobs of a bundle's file."""

    def __init__(self, path: Path) -> None:
        """Read the file; ConfigError BUNDLE_NOT_FOUND, or BUNDLE_INVALID with the place in it."""
        self._path = path
        self._file = _read(path)
        for name, job in self._file.resources.jobs.items():
            self._check(name, job)

    def jobs(self) -> list[Job]:
        """Return the jobs in the order of the file."""
        return [
            Job(
                name,
                job.description,
                job.schedule.quartz_cron_expression if job.schedule else None,
                tuple(parameter.name for parameter in job.parameters),
            )
            for name, job in self._file.resources.jobs.items()
        ]

    def parameters(self, name: str) -> set[str]:
        """Return the names of a job's parameters; ConfigError JOB_NOT_FOUND."""
        return {parameter.name for parameter in self._job(name).parameters}

    def tasks(self, name: str, target: str | None, given: Mapping[str, str]) -> list[Task]:
        """Return a job's tasks in the order they run in, for a target (None: the default one).

        ``given`` are parameters that win over their defaults. Raises ConfigError JOB_NOT_FOUND,
        TARGET_NOT_FOUND, PARAMETER_UNKNOWN or PARAMETER_MISSING.
        """
        job = self._job(name)
        values = self._values(name, job, self._variables(target), given)
        by_key = {task.task_key: task for task in job.tasks}
        return [_task(by_key[key], values) for key in _ordered(job)]

    def _job(self, name: str) -> _Job:
        jobs = self._file.resources.jobs
        if name not in jobs:
            raise ConfigError(
                "JOB_NOT_FOUND", f"{self._path} has no job {name}", hint=did_you_mean(name, jobs)
            )
        return jobs[name]

    def _variables(self, target: str | None) -> dict[str, str]:
        """Return what ``${…}`` stands for in a target."""
        targets = self._file.targets
        if target is None:
            target = next((key for key, one in targets.items() if one.default), next(iter(targets)))
        if target not in targets:
            raise ConfigError(
                "TARGET_NOT_FOUND", f"{self._path} has no target {target}", hint=did_you_mean(target, targets)
            )
        known = {name: v.default for name, v in self._file.variables.items() if v.default is not None}
        known |= targets[target].variables
        own = {"bundle.name": self._file.bundle.name, "bundle.target": target}
        return {**own, **{f"var.{name}": value for name, value in known.items()}}

    def _values(
        self, name: str, job: _Job, variables: Mapping[str, str], given: Mapping[str, str]
    ) -> dict[str, str]:
        known = [parameter.name for parameter in job.parameters]
        for parameter in given:
            if parameter not in known:
                raise ConfigError(
                    "PARAMETER_UNKNOWN",
                    f"the job {name} has no parameter {parameter}",
                    hint=did_you_mean(parameter, known),
                )
        defaults = {p.name: _filled(_SETTING, p.default, variables) for p in job.parameters}
        values = {**defaults, **given}
        for parameter, value in values.items():
            if not value:
                raise ConfigError(
                    "PARAMETER_MISSING",
                    f"the job {name} needs the parameter {parameter}",
                    hint=f"--param {parameter}=…",
                )
        return values

    def _check(self, name: str, job: _Job) -> None:
        """Refuse what refers to something that is not there."""
        keys = [task.task_key for task in job.tasks]
        clusters = [cluster.job_cluster_key for cluster in job.job_clusters]
        for task in job.tasks:
            self._known(name, "task", (before.task_key for before in task.depends_on), keys)
            self._known(name, "job cluster", [task.job_cluster_key], clusters)
            used = (p for text in task.python_wheel_task.parameters for p in _PARAMETER.findall(text))
            self._known(name, "parameter", used, [parameter.name for parameter in job.parameters])
        used = (v for text in _texts(job) for v in _SETTING.findall(text))
        variables = [f"var.{variable}" for variable in self._file.variables]
        self._known(name, "variable", used, ["bundle.name", "bundle.target", *variables])
        if len({*keys}) < len(keys):
            raise self._invalid(f"the job {name} has two tasks of one key")
        try:
            _ordered(job)
        except CycleError as error:
            raise self._invalid(f"tasks of the job {name} wait for each other: {error.args[1]}") from None

    def _known(self, job: str, kind: str, used: Iterable[str], known: Sequence[str]) -> None:
        for name in used:
            if name not in known:
                raise self._invalid(f"the job {job} has no {kind} {name}", did_you_mean(name, known))

    def _invalid(self, message: str, hint: str = "") -> ConfigError:
        return ConfigError("BUNDLE_INVALID", f"{self._path}: {message}", hint=hint)


def find_bundle(given: Path | None) -> Path:
    """Return the bundle's file: the given one, else that of the working folder, else the package's."""
    if given is not None:
        return given
    return FILE if FILE.is_file() else Path(str(files("lakestream.cli.jobs"))) / FILE.name


def _read(path: Path) -> _File:
    with extra("jobs"):
        import yaml
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            "BUNDLE_NOT_FOUND", f"there is no bundle {path}", hint="name one with --bundle FILE"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError("BUNDLE_INVALID", f"{path} is not YAML: {' '.join(str(error).split())}") from None
    try:
        return _File.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        why = "is not known here" if first["type"] == "extra_forbidden" else first["msg"]
        raise ConfigError("BUNDLE_INVALID", f"{path}: {place}: {why}") from None


def _texts(job: _Job) -> list[str]:
    clusters = [cluster.new_cluster for cluster in job.job_clusters]
    of_clusters = [text for cluster in clusters for text in (cluster.spark_version, cluster.node_type_id)]
    return [job.name, *(parameter.default for parameter in job.parameters), *of_clusters]


def _ordered(job: _Job) -> list[str]:
    """Return the keys of the tasks, each after those that it depends on."""
    before = {task.task_key: {one.task_key for one in task.depends_on} for task in job.tasks}
    return list(TopologicalSorter(before).static_order())


def _task(task: _Task, values: Mapping[str, str]) -> Task:
    arguments = tuple(_filled(_PARAMETER, text, values) for text in task.python_wheel_task.parameters)
    return Task(task.task_key, arguments, tuple(before.task_key for before in task.depends_on))


def _filled(pattern: re.Pattern[str], text: str, values: Mapping[str, str]) -> str:
    """Put values in the places of their names; a variable that has none is left empty."""

    def value_of(found: re.Match[str]) -> str:
        return values.get(found[1], "")

    return pattern.sub(value_of, text)
