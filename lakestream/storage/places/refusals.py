"""What an object store refuses, and why it does not answer, by name.

It is asked by delta-rs, obstore and Spark. All three say so in texts: that of the store itself (S3's error
codes), of the client in Rust that two of them share, and of Hadoop's classes in a Java exception.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lakestream.errors import LakeError, LakestreamError, PrerequisiteError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE = "docs/object-stores.md"
_OF_A_STORE = re.compile(
    r"Error performing|error sending request|\bGeneric \w+ error|software\.amazon\.awssdk|hadoop\.fs\.s3a|"
    r"No FileSystem for scheme|Server returned non-2xx"
)
"""What stands in the texts of those who ask object stores, and in no others."""

_COLOURS_AND_ARROWS = re.compile(r"\x1b\[[0-9;]*m|\s*↳\s*")
_ADDRESS = re.compile(r"https?://[^/\s\"'`,)]+")
_MOST_CAUSES = 8


class _Sign(NamedTuple):
    """A refusal by what is said of it, and its name."""

    said: re.Pattern[str]
    error: LakestreamError


_SIGNS = (
    _Sign(
        re.compile(r"No FileSystem for scheme|org\.apache\.hadoop\.fs\.s3a\.S3AFileSystem not found"),
        PrerequisiteError(
            "STORE_NOT_IN_SPARK",
            "the Spark session does not read the object store: it has no file system for it",
            hint=f"give the session Hadoop's jars for the store ({_PAGE}); or open the lake without a "
            "session of yours, first in its process",
        ),
    ),
    _Sign(
        re.compile(r"NoSuchBucket|ContainerNotFound|UnknownStoreException"),
        StorageError(
            "NO_BUCKET",
            "there is no such bucket",
            hint="make the bucket, or name another; AWS_ENDPOINT_URL says in which store it is looked for",
        ),
    ),
    _Sign(
        re.compile(r"501 Not Implemented|Status Code: 501"),
        LakeError(
            "STORE_WITHOUT_CONDITIONS",
            "the store does not take conditional writes: two writers would write over one another",
            hint="take a store that has conditional writes (If-None-Match and If-Match)",
        ),
    ),
    _Sign(
        re.compile(r"RequestTimeTooSkewed|RequestExpired"),
        StorageError(
            "CLOCK_SKEW",
            "the object store refuses requests of this machine, whose clock is another than the store's",
            hint="set the clock, by NTP",
        ),
    ),
    _Sign(
        re.compile(r"169\.254\.169\.254|NoAuthWithAWSException|Unable to load credentials"),
        StorageError(
            "STORE_REFUSED",
            "no credentials for the object store were found",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role",
        ),
    ),
    _Sign(
        re.compile(
            r"InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|ExpiredToken|InvalidToken|40[13] \w+|"
            r"lacked the necessary privileges|Status Code: 40[13]"
        ),
        StorageError(
            "STORE_REFUSED",
            "the object store refuses these credentials, or they may not do this",
            hint=f"see AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and what they are allowed ({_PAGE})",
        ),
    ),
    _Sign(
        re.compile(
            r"error sending request|Connection refused|UnknownHostException|ConnectTimeout|SocketTimeout|"
            r"Unable to execute HTTP request|builder error"
        ),
        StorageError(
            "STORE_UNREACHABLE",
            "the object store does not answer",
            hint="see AWS_ENDPOINT_URL and the network; a store without TLS needs AWS_ALLOW_HTTP=true",
        ),
    ),
    _Sign(
        re.compile(r"status code: (?:5\d\d|429)|Status Code: (?:5\d\d|429)|response body|body error"),
        StorageError(
            "STORE_FAILED",
            "the object store fails, has too much to do, or its answer broke off",
            hint="streams ask it again by themselves; see the store's own state and its limits of requests",
        ),
    ),
)
_CODE = re.compile(r"<Code>(\w+)</Code>|Status Code: \d+.*?\)\s*:\s*(\w+)")


_OF_A_DISK = (
    (re.compile(r"No space left|[Qq]uota exceeded"), "make room on that disk"),
    (
        re.compile(r"Permission denied|not permitted|Read-only file system"),
        "let the user of this process read and write there",
    ),
    (re.compile(r"File too large"), "allow the process larger files: ulimit -f"),
    (re.compile(r"Too many open files"), "allow the process more open files: ulimit -n"),
)


def system_message(error: OSError) -> str:
    """Return what the operating system refused, and of which file where it says so."""
    message = error.strerror or str(error)
    where = " -> ".join(str(name) for name in (error.filename, error.filename2) if name)
    return f"{where}: {message}" if where else message


def disk_remedy(said: str) -> str:
    """Return what to do about what a disk said, "" where nothing is known."""
    return next((remedy for sign, remedy in _OF_A_DISK if sign.search(said)), "")


def store_refusal(error: BaseException, folder: str = "") -> LakestreamError | None:
    """Return what an object store refused, by an error or what it was raised from; None where none did.

    ``folder`` is the URI that was asked for, where it is known.
    """
    if isinstance(error, LakestreamError) and any(error.code == sign.error.code for sign in _SIGNS):
        return error
    of = f"{folder}: " if folder else ""
    for cause in _causes(error):
        text = str(cause)
        if _OF_A_STORE.search(text) is None:
            continue
        said = _COLOURS_AND_ARROWS.sub(": ", text)
        sign = next((sign for sign in _SIGNS if sign.said.search(said)), None)
        if sign is not None:
            known = sign.error
            return type(known)(known.code, of + known.message + _details(said), hint=known.hint)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__


def _details(text: str) -> str:
    """Return the store's own code and address, as far as they are told."""
    code, address = _CODE.search(text), _ADDRESS.search(text)
    found = [code[1] or code[2]] if code else []
    return f" ({', '.join([*found, *([address[0]] if address else [])])})" if found or address else ""
