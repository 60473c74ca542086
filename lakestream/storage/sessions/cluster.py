"""A standalone Spark cluster, looked at without Spark: whether its master answers, and what room there is.

What room there is, the master's page tells as JSON. Its port is the one that Spark's setting
``spark.master.ui.port`` says, 8080 unless told.
"""

from __future__ import annotations

import json
import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lakestream.errors import BusyError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REMOTE = "SPARK_REMOTE"
"""Spark's own environment variable with the address of a server of Spark Connect."""

_STANDALONE = "spark://"
_SECONDS = 5.0
"""How long a master, or its page, may take to answer."""
_MEMORY, _CORES, _PAGE = "spark.executor.memory", "spark.executor.cores", "spark.master.ui.port"
_MIB = {"": 1 / 1024**2, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2}


@dataclass(frozen=True)
class Worker:
    """A worker that is alive; memory in MiB."""

    cores: int
    cores_free: int
    memory: int
    memory_free: int

    def __str__(self) -> str:
        """Say what is free of what it has."""
        return f"{self.cores_free} of {self.cores} cores and {self.memory_free:,} of {self.memory:,} MiB free"


@dataclass(frozen=True)
class Executor:
    """What one executor needs of a worker; memory in MiB."""

    memory: int
    cores: int

    @classmethod
    def of(cls, conf: Mapping[str, str]) -> Executor:
        """Return what settings of Spark ask for; without cores it takes all that a worker has free.

        Raises ConfigError SETTING_INVALID for memory that is none.
        """
        text = conf.get(_MEMORY, "1g")
        size = re.fullmatch(r"(\d+)([kmgt]?)b?", text.lower())
        if size is None:
            raise ConfigError(
                "SETTING_INVALID", f"{_MEMORY} is {text!r}", hint="a size such as 2g or 768m: spark_conf"
            )
        return cls(int(int(size[1]) * _MIB[size[2]]), int(conf.get(_CORES, 1)))

    def fits(self, worker: Worker) -> bool:
        """Return whether a worker has room for it now."""
        return self.memory <= worker.memory_free and self.cores <= worker.cores_free

    def __str__(self) -> str:
        """Say what it needs."""
        return f"{self.memory:,} MiB and {self.cores} {'core' if self.cores == 1 else 'cores'}"


def is_standalone(master: str) -> bool:
    """Return whether a master is that of a standalone cluster."""
    return master.startswith(_STANDALONE)


def check_master(master: str) -> None:
    """Raise BusyError SPARK_UNREACHABLE unless a standalone cluster's master, or one of several, answers.

    Spark itself would try for a minute, and then stop.
    """
    hint = "start it, or name the right one by the setting master"
    _check_answer(f"Spark's master {master}", _addresses(master), hint)


def check_server(remote: str) -> None:
    """Raise BusyError SPARK_UNREACHABLE unless a server of Spark Connect answers at an ``sc://`` address.

    Spark's client would try for ten minutes. Raises ConfigError SETTING_INVALID for what is no such address.
    """
    at = urlsplit(remote)
    if at.scheme != "sc" or not at.hostname:
        raise ConfigError(
            "SETTING_INVALID", f"{REMOTE} is {remote!r}", hint="the address of a server: sc://host:15002"
        )
    hint = f"start it, or leave {REMOTE} out to have Spark started here"
    _check_answer(f"the server of Spark Connect at {at.hostname}", [(at.hostname, at.port or 15002)], hint)


def _check_answer(who: str, addresses: Sequence[tuple[str, int]], hint: str) -> None:
    reasons = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), _SECONDS).close()
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    raise BusyError(
        "SPARK_UNREACHABLE",
        f"{who} does not answer ({'; '.join(reasons)})",
        hint=hint,
    )


def workers_of(master: str, conf: Mapping[str, str]) -> list[Worker] | None:
    """Return a standalone cluster's workers that are alive; None where no page of its master tells."""
    for host, port in _addresses(master):
        # Whatever answers there may be something else than the page of this master.
        with suppress(OSError, ValueError, KeyError, TypeError):
            state = _page(host, conf.get(_PAGE, "8080"))
            if state["status"] == "ALIVE" and str(state["url"]).endswith(f":{port}"):
                return [_worker(one) for one in state["workers"] if one["state"] == "ALIVE"]
    return None


def room_said(workers: list[Worker] | None) -> str:
    """Say what room a cluster has; ``workers`` as :func:`workers_of` gives them."""
    if workers is None:
        return f"what room there is, no page of the master tells ({_PAGE})"
    if not workers:
        return "the cluster has no worker"
    return f"its workers: {'; '.join(map(str, workers))}"


def _addresses(master: str) -> list[tuple[str, int]]:
    listed = master.removeprefix(_STANDALONE).split(",")
    named = [one.rpartition(":") for one in listed]
    return [(host.strip("[]"), int(port)) for host, _, port in named if port.isdigit()]


def _page(host: str, port: str) -> dict[str, Any]:
    from urllib.request import urlopen

    name = f"[{host}]" if ":" in host else host
    with urlopen(f"http://{name}:{int(port)}/json/", timeout=_SECONDS) as page:
        found: dict[str, Any] = json.load(page)
    return found


def _worker(one: dict[str, Any]) -> Worker:
    return Worker(int(one["cores"]), int(one["coresfree"]), int(one["memory"]), int(one["memoryfree"]))
