"""All settings: built-in value, then project, then profile, then environment, then what the caller gives.

``Settings()`` reads the environment (``LAKESTREAM_MASTER`` for ``master``); ``Settings(profile="server")``
reads ``conf/server.toml`` too, or the profile of that name in the project of the working directory, whose
``lakestream.toml`` is read first; any other keyword wins over all of them. A name that is not a setting is
an error, wherever it stands. Settings say how and how fast lakestream works, never what a stream's rows are:
the one exception is ``timezone``, in which days and longer windows are cut.
"""

from __future__ import annotations

import os
import sys
import tomllib
from copy import copy
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from lakestream.covered import redacted, redacted_values
from lakestream.errors import ConfigError, Place, SettingsError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import SecretStr

PREFIX = "LAKESTREAM_"

OTHER_VARIABLES = frozenset({"LAKESTREAM_CRASH_AT", "LAKESTREAM_FAIL_AT"})
"""Environment variables of lakestream that are not settings: the hooks of the fault tests."""

PROJECT_FILE = "lakestream.toml"
"""What makes a folder a project: its settings, its profiles, and the parameters of its statements."""

_PROFILES = Path(str(files("lakestream"))) / "conf"
_STORE_POLL_SECONDS = 1.0


def _setting(default: object, description: str, **limits: object) -> Any:  # noqa: ANN401 - as field() does
    """Declare a setting: its built-in value, what it is for, and what holds of a value that is given."""
    said = {"description": description, "limits": limits}
    return field(default_factory=lambda: copy(default), metadata=said)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Settings:
    """The settings of one lake object; frozen. Sizes take units (``16MiB``), times are seconds."""

    profile: str | None = _setting(default=None, description="a profile's name (conf/NAME.toml) or file")
    lake: str | None = _setting(
        default=None, min_length=1, description="path or URI of the lake that the command line works with"
    )
    timezone: str = _setting(
        default="UTC",
        description="zone in which days, weeks, months and years are cut, for example Europe/Helsinki",
    )

    master: str = _setting(
        default="local[*]",
        description="Spark's master: local[*], local[N], spark://HOST:PORT, yarn or k8s://HOST:PORT",
    )
    driver_memory: str = _setting(
        default="2g", description="heap of the Spark driver, for example 2g; 512m is the least"
    )
    jars: Path | None = _setting(
        default=None,
        description="folder with the Delta jars, and those for an object store; found or resolved once "
        "when not given",
    )
    spark_conf: dict[str, str] = _setting(
        default={}, description="further Spark settings by their own names; as text, a JSON object"
    )

    executor_wait_seconds: float = _setting(
        default=60.0,
        gt=0,
        description="how long a query waits for an executor of a Spark cluster before it fails with "
        "NO_EXECUTORS",
    )

    transport: Literal["auto", "arrow", "spark"] = _setting(
        default="auto", description="how changes travel: by Arrow, by Spark, or chosen by size"
    )
    small_bytes: int = _setting(
        of_bytes=True, default=16 * 1024**2, ge=0, description="changes up to this size travel as Arrow"
    )
    small_rows: int = _setting(
        default=200_000, ge=0, description="changes up to this many rows travel as Arrow"
    )

    small_path: Literal["auto", "spark"] = _setting(
        default="auto",
        description="who computes what travels as Arrow: DuckDB in this process where it does so exactly as "
        "Spark, or Spark always",
    )

    duckdb_memory: int = _setting(
        of_bytes=True,
        default=2 * 1024**3,
        ge=0,
        description="memory for a tick of more rows that DuckDB computes by windows: larger ones are for "
        "Spark, and with 0 all of them",
    )

    durability: Literal["full", "process"] = _setting(
        default="full",
        description="what a commit outlasts on a local disk: a power cut, being forced to the disk before "
        "anything builds on it, or the end of the process only",
    )

    max_commits_per_tick: int = _setting(default=1_000, ge=1, description="source commits taken by one tick")
    max_rows_per_tick: int = _setting(default=5_000_000, ge=1, description="changed rows taken by one tick")
    max_bytes_per_tick: int = _setting(
        of_bytes=True, default=512 * 1024**2, ge=1, description="size of the changes taken by one tick"
    )
    max_windows_per_tick: int = _setting(
        default=1_000_000,
        ge=1,
        description="windows of one tick, which takes fewer commits for it; where one commit makes a group "
        "need more, that waits, and without groups the stream stops",
    )

    sink_commits_per_second: float = _setting(
        default=50.0, ge=0, description="output commits a second of one stream; 0 for no limit"
    )
    sink_bytes_per_second: int = _setting(
        of_bytes=True, default=0, ge=0, description="output bytes a second of one stream; 0 for no limit"
    )

    recalculation_rows: int = _setting(
        default=1_000_000, ge=1, description="rows read by one part of a recalculation, between live ticks"
    )

    exact: bool = _setting(
        default=False,
        description="new streams follow every change (EXACT) unless they name another policy",
    )

    checkpoint_seconds: float = _setting(
        default=180.0, gt=0, description="a stream's state is saved at least this often while it works"
    )
    checkpoint_ticks: int = _setting(
        default=100, ge=1, description="a stream's state is saved every so many ticks"
    )
    state_memory: int = _setting(
        of_bytes=True,
        default=1024**3,
        ge=0,
        description="memory for the states of streams: beyond it those of most groups lie in files of the "
        "folder for temporary files, where a tick finds its groups",
    )

    notify_hosts: tuple[str, ...] = _setting(
        default=(),
        description="hosts that notifications may go to beside public ones by wss: names, addresses, "
        "host:port or networks, separated by commas",
    )
    secrets: dict[str, SecretStr] = _setting(
        default={},
        description="what `{{secrets.NAME}}` in the url of a notification stands for; as text, a JSON object",
    )
    alert_urls: tuple[str, ...] = _setting(
        default=(),
        description="who is told that a stream has failed, is tried again, or runs again: urls of webhooks "
        "(https) and websockets (wss), separated by commas",
    )
    notify_keep_seconds: float = _setting(
        default=86_400.0,
        ge=0,
        description="how long events wait for a target that cannot be reached; 0 drops them at once",
    )

    openlineage_url: str | None = _setting(
        default=None,
        min_length=1,
        description="who is told of every tick by OpenLineage: the address of a server (http, https), or the "
        "path of a file that events are put behind one another in",
    )
    openlineage_token: SecretStr | None = _setting(
        default=None, description="key that events to a server of OpenLineage carry"
    )
    openlineage_namespace: str = _setting(
        default="lakestream", min_length=1, description="namespace of the streams in OpenLineage"
    )

    history_ticks: int = _setting(
        default=100, ge=1, description="ticks of each stream that the run history keeps at least"
    )
    event_retention_seconds: float = _setting(
        default=604_800.0,
        ge=0,
        description="maintenance deletes events that are older and that every target was told of",
    )
    audit_retention_seconds: float = _setting(
        default=31_536_000.0, ge=0, description="maintenance deletes what was noted of requests so long ago"
    )
    compact_files: int = _setting(
        default=8, ge=2, description="maintenance puts the small files of a table with so many files together"
    )

    compact_commits: int = _setting(
        default=100,
        ge=0,
        description="after so many commits of ticks a table's small files are put together, and a source "
        "that its writers give no checkpoints gets one; 0 leaves that to maintenance",
    )

    maintenance_at: str = _setting(
        default="03:30",
        description="time of day, in the lake's time zone, at which `serve` maintains the lake; or never",
    )

    parallel_ticks: int = _setting(
        default=0,
        ge=0,
        description="how many streams tick at a time by Spark, which those that need none do not wait for; "
        "0: as many as this machine has cores",
    )
    tick_priorities: dict[str, int] = _setting(
        default={},
        description="streams (`database.name`) whose ticks by Spark come before others when they wait for "
        "their turn, or after them: each of the number counts as 10 s of waiting, one that is not named has "
        "0; in the environment a JSON object",
    )

    continuous_query_submit_thread_count: int = _setting(
        default=2, ge=1, description="executions of continuous queries that are computed at a time"
    )
    continuous_query_min_every_interval_in_ms: int = _setting(
        default=1_000, ge=1, description="the least EVERY of a continuous query, in milliseconds"
    )
    trigger_modules: tuple[str, ...] = _setting(
        default=(),
        description="Python modules that CREATE TRIGGER may load classes from, separated by commas",
    )
    trigger_lib_dir: Path | None = _setting(
        default=None, description="folder of modules, .zip and .whl files that CREATE TRIGGER may load"
    )

    lock_wait_seconds: float = _setting(
        default=30.0, ge=0, description="how long to wait for another process that writes to the lake"
    )
    share_streams: bool = _setting(
        default=False,
        description="whether daemons of a lake on a file system run a part of its streams each, as those "
        "of a lake in an object store do; else one serves it and the others wait",
    )
    poll_seconds: float = _setting(
        default=0.01,
        gt=0,
        description="pause between two looks at the sources while nothing changes (1 in an object store); "
        "a quarter of it right after a tick, all of it after a second, ten times as long after ten seconds",
    )

    server_host: str = _setting(default="127.0.0.1", description="address that `serve` listens on")
    server_port: int = _setting(
        default=8600, ge=0, le=65_535, description="port that `serve` listens on; 0 for any that is free"
    )
    server_token: SecretStr | None = _setting(
        default=None,
        min_length=16,
        description="token that requests to `serve` must carry; needed beyond the machine itself",
    )
    server_names: tuple[str, ...] = _setting(
        default=(),
        description="further host names that `serve` is reached by, separated by commas",
    )
    server_tls_cert: Path | None = _setting(
        default=None, description="file with the certificate, and its chain, by which `serve` answers https"
    )
    server_tls_key: Path | None = _setting(
        default=None, description="file with the key of the certificate, not encrypted"
    )
    connect_port: int = _setting(
        default=0, ge=0, le=65_535, description="port of Spark Connect under `serve`, such as 15002; 0: none"
    )
    server_connections: int = _setting(
        default=1_000, ge=1, description="how many connections clients of `serve` may have at once"
    )
    postgres_port: int = _setting(
        default=0,
        ge=0,
        le=65_535,
        description="port of `serve` for PostgreSQL's clients, such as 5432; 0: none",
    )
    postgres_rows: int = _setting(
        default=0, ge=0, description="most rows of a result for PostgreSQL's clients; 0: any number"
    )
    stuck_seconds: float = _setting(
        default=3_600.0,
        ge=0,
        description="how long a round of `serve` may take before `/healthz` calls it stuck; 0: any time",
    )
    statement_seconds: float = _setting(
        default=600.0,
        ge=0,
        description="how long a statement that `serve` runs for a client may take before it is interrupted; "
        "0: as long as it does",
    )

    client_statements: int = _setting(
        default=32,
        ge=0,
        description="how many statements of one client of `serve`, by its token or its address, may run or "
        "wait; 0: any number",
    )

    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        default="info", description="the least that `serve` writes to its log; debug has every tick"
    )
    log_format: Literal["text", "json"] = _setting(
        default="text", description="how `serve` writes its log: lines of text, or of JSON"
    )

    _sources: ClassVar[Mapping[str, Origin]] = {}
    """Where the values come from that are not built in; each object has its own."""

    def __init__(self, **values: Any) -> None:  # noqa: ANN401 - each value is checked
        """Read the settings; ``values`` win over environment and profile.

        Raises ConfigError: SETTING_UNKNOWN, SETTING_INVALID, UNSAFE_SPARK_CONF, PROFILE_NOT_FOUND or
        PROFILE_INVALID; SETTINGS_INVALID with all of them where there are several.
        """
        argument = Origin("argument")
        files, wrong = _files(values)
        wrong = [*_unknown_variables(), *_unknown(values, argument), *wrong]
        said = [*reversed(files), *_environment(), (argument, values)]
        known = self.described()
        given = {name: value for _, part in said for name, value in part.items() if name in known}
        origins = {name: origin for origin, part in said for name in part if name in known}
        if given:
            # What checks values takes longer to load than all else that settings are.
            from lakestream.given import checked

            given, invalid = checked(given, origins)
            wrong += invalid
        _refuse(wrong)
        built_in = {one.name: one.default_factory() for one in fields(self) if callable(one.default_factory)}
        self.__dict__.update(built_in | given)
        self.__dict__["_sources"] = origins

    def but(self, **others: Any) -> Self:  # noqa: ANN401 - each has the type of its setting
        """Return the settings with others in the place of some; they are not checked."""
        changed = copy(self)
        changed.__dict__.update(others)
        return changed

    def shown(self) -> dict[str, object]:
        """Return each setting's value as JSON has it; what is secret in it is covered."""
        values = {one.name: _shown(getattr(self, one.name)) for one in fields(self)}
        values["alert_urls"] = [redacted(url) for url in self.alert_urls]
        values["spark_conf"] = redacted_values(self.spark_conf)
        return values

    def __repr__(self) -> str:
        """Return what is shown of the settings."""
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.shown().items())})"

    @classmethod
    def described(cls) -> dict[str, str]:
        """Return what each setting is for, by its name."""
        return {one.name: one.metadata["description"] for one in fields(cls)}

    def for_lake(self, root: str) -> Settings:
        """Return the settings for a lake: in an object store a look is a request, and costs as one.

        Where a Spark of ours cannot read the store, Arrow carries everything. It reads S3, all of them on
        Databricks, and those that ``spark_conf`` has a file system for by ``spark.hadoop.fs.SCHEME.impl``.
        """
        scheme, separator, _ = root.partition("://")
        if not separator:
            return self
        update: dict[str, Any] = {}
        if "poll_seconds" not in self._sources:
            update["poll_seconds"] = _STORE_POLL_SECONDS
        reads = scheme == "s3" or f"spark.hadoop.fs.{scheme}.impl" in self.spark_conf
        if not reads and "DATABRICKS_RUNTIME_VERSION" not in os.environ:
            update |= {"transport": "arrow", "small_bytes": sys.maxsize, "small_rows": sys.maxsize}
        return self.but(**update)

    def with_spark_conf(self, conf: Mapping[str, str]) -> Settings:
        """Return the settings with some of Spark's, before which those go that ``spark_conf`` has."""
        return self.but(spark_conf={**conf, **self.spark_conf})

    def sources(self) -> dict[str, str]:
        """Return for each setting where its value comes from.

        One of ``built-in``, ``project lakestream.toml``, ``profile PATH``, ``environment NAME`` and
        ``argument``; of a project's profile the path is ``lakestream.toml [profiles.NAME]``.
        """
        built_in = Origin("built-in")
        return {name: self._sources.get(name, built_in).said for name in self.described()}

    def origin(self, name: str) -> Origin:
        """Return where the value of a setting comes from."""
        return self._sources.get(name, Origin("built-in"))


def _shown(value: object) -> object:
    if isinstance(value, dict):
        return {name: _shown(one) for name, one in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    return list(value) if isinstance(value, tuple) else str(value)


def profile_path(name: str) -> Path:
    """Return the file of a profile: a path as it is, a bare name as ``conf/NAME.toml``.

    A bare name is looked up in the working directory, then in the package.
    Raises ConfigError PROFILE_NOT_FOUND.
    """
    if name.endswith(".toml") or os.sep in name:
        candidates = [Path(name).expanduser()]
    else:
        candidates = [folder / f"{name}.toml" for folder in (Path("conf"), _PROFILES)]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    known = {file.stem for candidate in candidates for file in candidate.parent.glob("*.toml")}
    known |= _project(Path())[0].profiles.keys()
    raise ConfigError("PROFILE_NOT_FOUND", f"there is no profile {name}", hint=did_you_mean(name, known))


@dataclass(frozen=True)
class Origin:
    """Where values of settings come from: what is ``said`` of it, and of a file the ``table`` in it."""

    said: str
    file: Path | None = None
    table: tuple[str, ...] = ()

    def place(self, *keys: str, shown: bool = True) -> Place | None:
        """Return where in the file a key has its value; one that may not be ``shown`` is left out."""
        if self.file is None:
            return None
        lines = self.file.read_text(encoding="utf-8").splitlines()
        number = _line_of(lines, (*self.table, *keys))
        line = lines[number - 1] if number <= len(lines) else ""
        text = (line if shown else line.partition("=")[0]).rstrip()
        column = len(text) - len(text.lstrip()) + 1
        return Place(number, column, len(text) - column + 1, "\n" * (number - 1) + text, str(self.file))

    def __str__(self) -> str:
        """Return what is said of it, as messages have it."""
        return "an argument" if self.said == "argument" else self.said


def _line_of(lines: Sequence[str], path: Sequence[str]) -> int:
    """Return the line that a value of a TOML text begins in: the one behind what can be read without it."""
    begun = 0
    for number in range(1, len(lines) + 1):
        try:
            value: Any = tomllib.loads("\n".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            continue
        for key in path:
            # An item of a list begins where the list does.
            value = value.get(key) if isinstance(value, dict) else value
        if value is not None:
            break
        begun = number
    return begun + 1


@dataclass(frozen=True)
class ProjectFile:
    """What a project's ``lakestream.toml`` says: settings, parameters, and by profile both of its own."""

    settings: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, str | int | float | bool] = field(default_factory=dict)
    profiles: dict[str, ProjectFile] = field(default_factory=dict)

    def parameters_of(self, profile: str | None) -> dict[str, str | int | float | bool]:
        """Return the parameters with those of a profile in their place."""
        own = self.profiles.get(profile or "")
        return {**self.parameters, **(own.parameters if own else {})}


def project_file(folder: Path) -> ProjectFile:
    """Return what a folder's ``lakestream.toml`` says, nothing where there is none.

    Raises ConfigError PROFILE_INVALID, SETTING_UNKNOWN, SETTINGS_INVALID.
    """
    project, wrong = _project(folder)
    _refuse(wrong)
    return project


def _project(folder: Path) -> tuple[ProjectFile, list[ConfigError]]:
    """Return what a project's file says, and all that is wrong with its names.

    Raises ConfigError PROFILE_INVALID for one that cannot be read.
    """
    path = folder / PROJECT_FILE
    if not path.is_file():
        return ProjectFile(), []
    values = _toml(path)
    profiles = values.pop("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(one, dict) for one in profiles.values()):
        raise ConfigError("PROFILE_INVALID", f"{path}: profiles are tables", hint="[profiles.dev]")
    own = {name: _part(one, _project_origin(path, name)) for name, one in profiles.items()}
    project = _part(values, _project_origin(path))
    wrong = [*_unknown(project.settings, _project_origin(path))]
    for name, profile in own.items():
        wrong += _wrong_names(profile.settings, _project_origin(path, name))
    return replace(project, profiles=own), wrong


def _refuse(wrong: Sequence[ConfigError]) -> None:
    """Raise what is wrong, if anything is."""
    if wrong:
        raise wrong[0] if len(wrong) == 1 else SettingsError(wrong)


def _project_origin(path: Path, profile: str | None = None) -> Origin:
    if profile is None:
        return Origin(f"project {PROJECT_FILE}", path)
    return Origin(f"profile {PROJECT_FILE} [profiles.{profile}]", path, ("profiles", profile))


def _part(values: dict[str, Any], origin: Origin) -> ProjectFile:
    parameters = values.pop("parameters", {})
    wanted = (str, int, float, bool)
    if not isinstance(parameters, dict) or not all(isinstance(one, wanted) for one in parameters.values()):
        raise ConfigError(
            "PROFILE_INVALID",
            f"{origin}: a parameter is a text, a number, true or false",
            hint="a time stands in quotes",
            place=origin.place("parameters"),
        )
    return ProjectFile(values, parameters)


def profile_name(given: Mapping[str, Any], project: Path = Path()) -> str | None:
    """Return the profile that is chosen: as given, else by the environment, else by the project."""
    return _chosen(given, project_file(project))


def _chosen(given: Mapping[str, Any], project: ProjectFile) -> str | None:
    own = given.get("profile") or os.environ.get(f"{PREFIX}PROFILE") or project.settings.get("profile")
    # What is no name is refused with the other values.
    return own if isinstance(own, str) and all(character >= " " for character in own) else None


def _files(given: Mapping[str, Any]) -> tuple[list[tuple[Origin, dict[str, Any]]], list[ConfigError]]:
    """Return what files say, the stronger first, each with what it is; and what is wrong with them."""
    found: list[tuple[Origin, dict[str, Any]]] = []
    wrong: list[ConfigError] = []
    try:
        project, wrong = _project(Path())
        path = Path(PROJECT_FILE)
        found = [(_project_origin(path), project.settings)] if project.settings else []
        name = _chosen(given, project)
        if name in project.profiles:
            return [(_project_origin(path, name), project.profiles[name].settings), *found], wrong
        if name is not None:
            path = profile_path(name)
            values, origin = _toml(path), Origin(f"profile {path}", path)
            return [(origin, values), *found], [*wrong, *_wrong_names(values, origin)]
    except ConfigError as error:
        wrong = [*wrong, error]
    return found, wrong


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError("PROFILE_INVALID", f"{path} cannot be read: {error}") from None


def _unknown(values: Mapping[str, Any], origin: Origin) -> Iterator[ConfigError]:
    for key, value in values.items():
        if key not in Settings.described():
            listed = did_you_mean(key, Settings.described()) or "docs/configuration.md lists the settings"
            own = f"a profile of a project is a table [profiles.{key}]" if isinstance(value, dict) else ""
            yield ConfigError(
                "SETTING_UNKNOWN",
                f"{key} ({origin}) is not a setting",
                hint=own or listed,
                place=origin.place(key, shown=False),
            )


def _wrong_names(values: Mapping[str, Any], origin: Origin) -> Iterator[ConfigError]:
    """Give what may not stand in a profile: unknown names, and another profile, which nothing would read."""
    yield from _unknown(values, origin)
    if "profile" in values:
        yield ConfigError(
            "PROFILE_INVALID",
            f"{origin} names a profile itself",
            hint="what both have in common stands in the project's lakestream.toml",
            place=origin.place("profile"),
        )


def _unknown_variables() -> Iterator[ConfigError]:
    known = {PREFIX + name.upper() for name in Settings.described()} | OTHER_VARIABLES
    for name in os.environ:
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            yield ConfigError(
                "SETTING_UNKNOWN",
                f"the environment variable {name} is not a setting",
                hint=did_you_mean(name, known) or "docs/configuration.md lists the settings",
            )


def _environment() -> Iterator[tuple[Origin, dict[str, str]]]:
    """Give what each variable that is not empty says."""
    for name, value in os.environ.items():
        if name.upper().startswith(PREFIX) and name.upper() not in OTHER_VARIABLES and value:
            yield Origin(f"environment {name.upper()}"), {name[len(PREFIX) :].lower(): value}
