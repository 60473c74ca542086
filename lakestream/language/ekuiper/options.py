"""Reader of ``WITH (TIMESTAMP = 'ts', …)``: what eKuiper says of a stream's time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakestream.errors import StatementError, did_you_mean
from lakestream.language.common.zones import zone_name
from lakestream.language.model import Duration
from lakestream.language.names import check_column_name
from lakestream.language.policies import Drop, DropByArrival
from lakestream.language.reading.durations import read_compound, read_duration
from lakestream.language.reading.literals import take_string
from lakestream.language.reading.words import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.errors import Place
    from lakestream.language.model import Fragment, StreamOptions
    from lakestream.language.reading.reader import Reader
    from lakestream.language.reading.words import Word

_UNBUILT = ("TIMESTAMP_FORMAT", "STRICT_VALIDATION", "SHARED")
_SOURCES = ("DATASOURCE", "FORMAT", "KEY", "TYPE", "CONF_KEY", "SCHEMAID", "DELIMITER")
_TIMES = ("event", "processing")


@dataclass
class SourceOptions:
    """The options as read; ``words`` holds the place of each."""

    timestamp: Fragment | None = None
    zone: str | None = None
    tolerance: Duration | None = None
    characteristic: str | None = None
    exact: bool = False
    words: dict[str, Word] = field(default_factory=dict)

    def applied(self, reader: Reader, values: StreamOptions) -> StreamOptions:
        """Return the options of the stream. Raises StatementError for those that exclude each other.

        Time is that of the events where a TIMESTAMP is named, else that of processing (eKuiper's default).
        """
        processing = (self.characteristic or ("event" if self.timestamp else "processing")) == "processing"
        for name in ("TIMESTAMP", "LATE_TOLERANCE", *(["EXACT"] if self.exact else [])):
            if processing and name in self.words:
                raise reader.error(
                    "OPTION_WITHOUT_EFFECT",
                    f"{name} does not go with processing time, where a row's time is when it arrives",
                    word=self.words[name],
                    hint=f"TIME_CHARACTERISTIC = 'event', or leave {name} out",
                )
        return replace(
            values,
            late=DropByArrival() if processing else Drop(self.timestamp, self.exact),
            watermark=self.tolerance,
            zone=self.zone,
        )


def read_source_options(reader: Reader) -> SourceOptions:
    """Take ``WITH ( name = value, … )``, each name at most once. Raises StatementError naming the option."""
    options = SourceOptions()
    reader.expect("WITH")
    reader.list_of(lambda: _option(reader, options))
    return options


def _option(reader: Reader, options: SourceOptions) -> None:
    word = reader.peek()
    name = word.text.upper()
    if name in _SOURCES:
        raise reader.error(
            "UNKNOWN_OPTION", f"{name} belongs to a source of messages", hint="the query reads a table"
        )
    if name in _UNBUILT:
        raise reader.unsupported(f"the option {name}")
    if word.kind is not Kind.WORD or name not in _READERS:
        hint = did_you_mean(name, _READERS)
        raise reader.error("UNKNOWN_OPTION", f"there is no option {word.text or 'of that kind'}", hint=hint)
    if name in options.words:
        raise reader.error("OPTION_TWICE", f"{name} is given twice")
    options.words[name] = reader.take()
    reader.expect_symbol("=")
    _READERS[name](reader, options)


def _timestamp(reader: Reader, options: SourceOptions) -> None:
    word = reader.peek()
    name = take_string(reader, "the name of a column in quotes")
    check_column_name(name, reader.place(word))
    place = reader.source.fragment(word.start, word.end)
    options.timestamp = replace(place, sql=f"`{name}`")


def _timezone(reader: Reader, options: SourceOptions) -> None:
    word = reader.peek()
    name = take_string(reader, "a time zone in quotes")
    try:
        options.zone = zone_name(name)
    except ValueError:
        raise reader.error(
            "BAD_TIMEZONE",
            f"there is no time zone {name!r}",
            word=word,
            hint="such as 'Asia/Shanghai' or '+08:00'",
        ) from None


def _tolerance(reader: Reader, options: SourceOptions) -> None:
    """Take a duration as lakestream's or as Go's (eKuiper): ``'5s'``, ``'1m30s'``, milliseconds."""
    word = reader.peek()
    text = reader.take().text if word.kind is Kind.NUMBER else take_string(reader, "a duration such as '5s'")
    try:
        tolerance = _duration(text, reader.place(word))
    except StatementError as error:
        raise reader.error(
            error.code, f"LATE_TOLERANCE: {error.message}", word=word, hint="such as '500ms', '5s', '1m30s'"
        ) from None
    if tolerance.is_of_months:
        raise reader.error("BAD_DURATION", "LATE_TOLERANCE takes no months or years", word=word)
    options.tolerance = tolerance


def _duration(text: str, place: Place) -> Duration:
    written = f"{text[:-2]}a" if text.endswith("ms") else text
    try:
        return read_duration(written, place)
    except StatementError as error:
        try:
            return Duration(read_compound(text), "u")
        except StatementError:
            raise error from None


def _characteristic(reader: Reader, options: SourceOptions) -> None:
    word = reader.peek()
    name = take_string(reader, "'event' or 'processing'").lower()
    if name not in _TIMES:
        raise reader.error(
            "BAD_VALUE", f"TIME_CHARACTERISTIC is event or processing, not {name!r}", word=word
        )
    options.characteristic = name


def _exact(reader: Reader, options: SourceOptions) -> None:
    word = reader.take()
    if word.text.upper() not in ("TRUE", "FALSE"):
        raise reader.error("BAD_VALUE", "EXACT is true or false", word=word)
    options.exact = word.text.upper() == "TRUE"


_READERS: dict[str, Callable[[Reader, SourceOptions], None]] = {
    "TIMESTAMP": _timestamp,
    "TIMEZONE": _timezone,
    "LATE_TOLERANCE": _tolerance,
    "TIME_CHARACTERISTIC": _characteristic,
    "EXACT": _exact,
}
