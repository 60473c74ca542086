"""What is given of settings: texts of the environment, tables of files, arguments; checked by pydantic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from ipaddress import ip_network
from typing import Annotated, Any, get_type_hints
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

from lakestream.covered import SECRET_NAME
from lakestream.errors import ConfigError
from lakestream.settings import Settings


def checked(given: Mapping[str, object]) -> dict[str, Any]:
    """Return given values as what the settings are; raises ConfigError SETTING_INVALID."""
    try:
        made = _model(frozenset(given))(**given)
    except ValidationError as error:
        raise _invalid(error) from None
    return {name: getattr(made, name) for name in given}


@cache
def _model(names: frozenset[str]) -> type[BaseModel]:
    """Return a model of some settings: to make one of all takes as long as a small tick."""
    kinds = get_type_hints(Settings, localns={"SecretStr": SecretStr, "Mapping": Mapping})
    asked: dict[str, Any] = {}
    for one in fields(Settings):
        if one.name in names:
            limits = dict(one.metadata["limits"])
            kind = ByteSize if limits.pop("of_bytes", False) else kinds[one.name]
            asked[one.name] = Annotated[kind, Field(**limits), *_CHECKS.get(one.name, ())]
    return create_model("Given", **asked)


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


def _with_names(secrets: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name in secrets:
        if not SECRET_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name: letters, digits and underscores")
    return secrets


_LIST, _JSON = (BeforeValidator(_from_list),), (BeforeValidator(_from_json),)
_CHECKS: dict[str, tuple[object, ...]] = {
    "timezone": (AfterValidator(_known_zone),),
    "notify_hosts": (*_LIST, AfterValidator(_known_hosts)),
    "alert_urls": _LIST,
    "trigger_modules": _LIST,
    "server_names": _LIST,
    "secrets": (*_JSON, AfterValidator(_with_names)),
    "spark_conf": _JSON,
    "tick_priorities": _JSON,
}


def _invalid(error: ValidationError) -> ConfigError:
    first = error.errors(include_url=False, include_context=False)[0]
    name = ".".join(str(part) for part in first["loc"])
    about = Settings.described().get(str(first["loc"][0])) if first["loc"] else None
    shown = (
        "not shown" if name.startswith(("server_token", "alert_urls", "secrets")) else repr(first["input"])
    )
    message = f"{name} is {shown}: {first['msg'].removeprefix('Value error, ')}"
    return ConfigError("SETTING_INVALID", message, hint=f"{name}: {about}" if about else "")
