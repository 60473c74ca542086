"""What is given of settings: texts of the environment, tables of files, arguments; checked by pydantic."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path  # noqa: TC003 - of the kinds of settings
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    Field,
    SecretStr,
    ValidationError,
    create_model,
)

from lakestream.covered import SECRET_NAME, redacted
from lakestream.errors import ConfigError
from lakestream.settings import Settings
from lakestream.targets import WEBHOOKS, WEBSOCKETS, HostPolicy, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_core import ErrorDetails

    from lakestream.errors import Place
    from lakestream.settings import Origin

PASSING_OVER = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
"""Settings of Spark by which rows would be missing without a word."""


_GREATEST = 2**63 - 1
_LONGEST = 100 * 365.25 * 86_400
"""Seconds that any time may take: beyond a hundred years the calendar's arithmetic ends."""


def checked(
    given: Mapping[str, object], origins: Mapping[str, Origin]
) -> tuple[dict[str, Any], list[ConfigError]]:
    """Return given values as what the settings are, each with where it comes from; and what is wrong.

    That is SETTING_INVALID or UNSAFE_SPARK_CONF, one for each setting; its value is left out.
    """
    wrong: dict[str, ConfigError] = {}
    try:
        made = _model(frozenset(given))(**given)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_context=False):
            wrong.setdefault(str(one["loc"][0]), _invalid(one, origins))
        right = {name: value for name, value in given.items() if name not in wrong}
        made = _model(frozenset(right))(**right)
    values = {name: getattr(made, name) for name in given if name not in wrong}
    for name, refuse in _BEYOND_THEIR_KIND.items():
        try:
            refuse(values, origins)
        except ConfigError as refused:
            wrong.setdefault(name, refused)
    return values, list(wrong.values())


def _refuse_conf(values: Mapping[str, Any], origins: Mapping[str, Origin]) -> None:
    if conf := values.get("spark_conf"):
        refuse_silent_loss(conf, origins["spark_conf"].place("spark_conf"))


def refuse_silent_loss(conf: Mapping[str, str], place: Place | None = None) -> None:
    """Raise ConfigError UNSAFE_SPARK_CONF where Spark is set to pass over files that are not there."""
    for key in PASSING_OVER:
        if conf.get(key, "false").lower() == "true":
            raise ConfigError(
                "UNSAFE_SPARK_CONF",
                f"{key} is true: Spark would pass over lost files, and rows would be missing without a word",
                hint=f"set {key} to false",
                place=place,
            )


def _refuse_missing(values: Mapping[str, Any], origins: Mapping[str, Origin]) -> None:
    """Refuse a module that is nowhere to be found; nothing is imported for it."""
    folder = values.get("trigger_lib_dir") is not None or "trigger_lib_dir" in origins.keys() - values.keys()
    modules: Sequence[str] = () if folder else values.get("trigger_modules", ())
    for module in modules:
        top = module.partition(".")[0]
        if top not in sys.modules and find_spec(top) is None:
            origin = origins["trigger_modules"]
            raise ConfigError(
                "SETTING_INVALID",
                f"trigger_modules is {', '.join(modules)!r} ({origin}): there is no module {module}",
                hint="install it where lakestream runs, or give its folder by trigger_lib_dir",
                place=origin.place("trigger_modules"),
            )


def _refuse_alerts(values: Mapping[str, Any], origins: Mapping[str, Origin]) -> None:
    """Refuse urls that may not be sent to; of wrong hosts nothing is known."""
    hosts = None if "notify_hosts" in origins.keys() - values.keys() else values.get("notify_hosts", ())
    policy = HostPolicy(hosts or (), {**WEBHOOKS, **WEBSOCKETS})
    for url in values.get("alert_urls", ()) if hosts is not None else ():
        try:
            policy.check(url)
        except (Refused, ValueError) as refused:
            origin = origins["alert_urls"]
            raise ConfigError(
                "SETTING_INVALID",
                f"alert_urls ({origin}) may not be sent to {redacted(url)}: {refused}",
                hint="alert_urls: https:// or wss:// to a public host, or one that notify_hosts lists",
                place=origin.place("alert_urls", shown=False),
            ) from None


_BEYOND_THEIR_KIND = {
    "spark_conf": _refuse_conf,
    "trigger_modules": _refuse_missing,
    "alert_urls": _refuse_alerts,
}
"""What is refused of values that are of the kind of their setting."""


@cache
def _model(names: frozenset[str]) -> type[BaseModel]:
    """Return a model of some settings: to make one of all takes as long as a small tick."""
    kinds = get_type_hints(Settings, localns={"SecretStr": SecretStr, "Mapping": Mapping})
    asked: dict[str, Any] = {}
    for one in fields(Settings):
        if one.name in names:
            limits = dict(one.metadata["limits"])
            kind = ByteSize if limits.pop("of_bytes", False) else kinds[one.name]
            checks = (*_BY_KIND.get(kind, ()), Field(**limits), *_CHECKS.get(one.name, ()))
            asked[one.name] = Annotated[kind, *checks, BeforeValidator(_plain)]
    return create_model("Given", **asked)


def _plain(value: object) -> object:
    """Refuse characters that stand in no setting: a path, an address or a name with one of them is none."""
    for text in value if isinstance(value, list | tuple) else [value]:
        if isinstance(text, str) and any(unicodedata.category(one) in ("Cc", "Cs") for one in text):
            raise ValueError("it holds a control character")
    return value


def _no_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("true and false are no numbers")  # noqa: TRY004 - pydantic makes its error of it
    return value


_NUMBER = BeforeValidator(_no_truth)
_BY_KIND: dict[object, tuple[object, ...]] = {
    int: (Field(le=_GREATEST), _NUMBER),
    ByteSize: (Field(le=_GREATEST), _NUMBER),
    float: (Field(le=_LONGEST, allow_inf_nan=False), _NUMBER),
}
"""What holds of every number."""


def _known_zone(zone: str) -> str:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {zone!r}; write it like Europe/Helsinki or UTC") from None
    return zone


def _from_list(items: object) -> object:
    if isinstance(items, str):
        return tuple(item.strip() for item in items.split(",") if item.strip())
    return items


def _known_hosts(hosts: tuple[str, ...]) -> tuple[str, ...]:
    for item in hosts:
        if not _is_host(item):
            raise ValueError(f"{item!r} is neither a host nor a network such as 10.0.0.0/8")
    return hosts


def _is_host(item: str) -> bool:
    """Return whether a text can stand in the list of hosts."""
    if "/" in item:
        try:
            ip_network(item, strict=False)
        except ValueError:
            return False
        return True
    return bool(item) and not any(character in item for character in " @?#\\")


def _from_json(conf: object) -> object:
    if not isinstance(conf, str):
        return conf
    try:
        return json.loads(conf)
    except ValueError as error:
        raise ValueError(f"not a JSON object: {error}") from None


def _whole_numbers(priorities: object) -> object:
    if isinstance(priorities, dict):
        for value in priorities.values():
            _no_truth(value)
    return priorities


def _with_names(secrets: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name in secrets:
        if not SECRET_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name: letters, digits and underscores")
    return secrets


def _known_master(master: str) -> str:
    if not _MASTER.fullmatch(master):
        raise ValueError(
            "write local[*], local[2], spark://host:7077, yarn or k8s://host:443; a server of Spark Connect "
            "is named by the environment variable SPARK_REMOTE"
        )
    return master


def _enough_memory(memory: str) -> str:
    size = _MEMORY.fullmatch(memory)
    if size is None:
        raise ValueError("write a number with k, m, g or t behind it, such as 2g")
    held = int(size[1]) * 1024 ** (" kmgt".index(size[2].lower()))
    if held < _LEAST_HEAP:
        raise ValueError("Spark needs 512m at least")
    if held > _MOST_HEAP:
        raise ValueError("no Java has more than 64t")
    return memory


def _known_time(time: str) -> str:
    if not _TIME.fullmatch(time):
        raise ValueError("write a time of day such as 03:30, or never")
    return time


def _known_host(host: str) -> str:
    if not _HOST.fullmatch(host):
        raise ValueError(f"{host!r} is no host: a name or an address, without scheme, port or path")
    return host


def _known_names(names: tuple[str, ...]) -> tuple[str, ...]:
    # What clients ask for is compared without its case.
    return tuple(_known_host(name).lower() for name in names)


def _known_modules(modules: tuple[str, ...]) -> tuple[str, ...]:
    for module in modules:
        if not all(part.isidentifier() for part in module.split(".")):
            raise ValueError(f"{module!r} is no Python module: write its name as in `import`")
    return modules


def _known_streams(priorities: dict[str, int]) -> dict[str, int]:
    for name, priority in priorities.items():
        database, _, stream = name.partition(".")
        if not (database and stream):
            raise ValueError(f"{name!r} is no stream: write database.name, such as main.hourly")
        if abs(priority) > _MOST_PRIORITY:
            raise ValueError(f"{priority} is beyond {_MOST_PRIORITY:,}")
    return {name.lower(): priority for name, priority in priorities.items()}


def _known_spark(conf: dict[str, str]) -> dict[str, str]:
    for key in conf:
        if not key.startswith("spark."):
            raise ValueError(
                f"{key!r} is no setting of Spark: their names begin with spark., Hadoop's with spark.hadoop."
            )
    return conf


def _known_receiver(url: str | None) -> str | None:
    if url is not None and "://" in url and not url.startswith(("http://", "https://")):
        raise ValueError("events are sent by http and https, or written into a file")
    return url


def _is_folder(path: Path | None) -> Path | None:
    if path is not None and not path.is_dir():
        raise ValueError("there is no such folder")
    return path


def _may_be_folder(path: Path | None) -> Path | None:
    if path is not None and path.exists() and not path.is_dir():
        raise ValueError("it is no folder")
    return path


_MASTER = re.compile(
    r"local(\[(\*|[1-9]\d{0,4})(\s*,\s*[1-9]\d{0,4})?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|spark://[\w.\-\[\]:]+:\d+(,[\w.\-\[\]:]+:\d+)*|yarn|k8s://\S+"
)
_MEMORY = re.compile(r"(\d{1,15})([kmgtKMGT])")
_LEAST_HEAP, _MOST_HEAP = 512 * 1024**2, 64 * 1024**4
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d|never")
_HOST = re.compile(r"[\w.\-]+|[0-9a-fA-F:.]+(%\w+)?")
_MOST_PRIORITY = 1_000_000
_LIST, _JSON = (BeforeValidator(_from_list),), (BeforeValidator(_from_json),)
_CHECKS: dict[str, tuple[object, ...]] = {
    "timezone": (AfterValidator(_known_zone),),
    "master": (AfterValidator(_known_master),),
    "driver_memory": (AfterValidator(_enough_memory),),
    "jars": (AfterValidator(_is_folder),),
    "maintenance_at": (AfterValidator(_known_time),),
    "notify_hosts": (*_LIST, AfterValidator(_known_hosts)),
    "alert_urls": _LIST,
    "openlineage_url": (AfterValidator(_known_receiver),),
    "trigger_modules": (*_LIST, AfterValidator(_known_modules)),
    "trigger_lib_dir": (AfterValidator(_may_be_folder),),
    "server_host": (AfterValidator(_known_host),),
    "server_names": (*_LIST, AfterValidator(_known_names)),
    "secrets": (*_JSON, AfterValidator(_with_names)),
    "spark_conf": (*_JSON, AfterValidator(_known_spark)),
    "tick_priorities": (BeforeValidator(_whole_numbers), *_JSON, AfterValidator(_known_streams)),
}
_HIDDEN = ("server_token", "openlineage_token", "openlineage_url", "alert_urls", "secrets", "spark_conf")
"""Settings whose values may let somebody in: they are not repeated."""
_MOST_SHOWN = 80


def _invalid(first: ErrorDetails, origins: Mapping[str, Origin]) -> ConfigError:
    keys = [str(part) for part in first["loc"]]
    setting, name = keys[0], ".".join(keys)
    origin, hides = origins[setting], setting in _HIDDEN
    given = repr(first["input"])
    shown = "not shown" if hides else given if len(given) <= _MOST_SHOWN else f"{given[:_MOST_SHOWN]}…"
    why = re.sub("^(Input|String|Value) should", "it should", first["msg"].removeprefix("Value error, "))
    return ConfigError(
        "SETTING_INVALID",
        f"{name} is {shown} ({origin}): {why}",
        hint=f"{name}: {Settings.described()[setting]}",
        place=origin.place(*keys, shown=not hides),
    )
