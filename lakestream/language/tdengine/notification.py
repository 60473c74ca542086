"""Reader of NOTIFY: where events are sent, which ones, and what happens when a target cannot be reached.

Sources: TDengine, ``NOTIFY(url, …) [ON (…)] [WHERE …] [NOTIFY_OPTIONS(…)]``, and before 3.3.7 ``NOTIFY (…)
ON (…) [NOTIFY_HISTORY 0|1] [ON_FAILURE DROP|PAUSE]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.covered import redacted
from lakestream.errors import did_you_mean
from lakestream.language.model import IDLE, ON_TIME, RESUME, WINDOW_CLOSE, WINDOW_OPEN, Notification
from lakestream.language.reading.literals import take_string
from lakestream.language.reading.words import Kind
from lakestream.language.tdengine.idle import IDLE_EVENTS
from lakestream.targets import read_target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakestream.language.reading.reader import Reader
    from lakestream.language.tdengine.draft import Draft

MAX_TARGETS = 16
_EVENTS = (WINDOW_OPEN, WINDOW_CLOSE, ON_TIME, IDLE, RESUME)
_OPTIONS = ("NOTIFY_HISTORY", "ON_FAILURE_PAUSE")


def read_notify(reader: Reader, draft: Draft, ends: Sequence[str]) -> None:
    """Take the clause in the syntax with the trigger first; ``ends`` are the clauses that may follow."""
    reader.expect("NOTIFY")
    urls, places = _urls(reader)
    events = _events(reader, draft) if reader.accept("ON") else _events_without_on(reader, draft)
    where = None
    if reader.accept("WHERE"):
        where = reader.until(lambda: any(map(reader.sees, ("NOTIFY_OPTIONS", *ends))), "a condition")
    options: tuple[str, ...] = ()
    if reader.accept("NOTIFY_OPTIONS"):
        options = _bars(reader, _OPTIONS, "an option of NOTIFY", ("UNKNOWN_OPTION", "OPTION_TWICE"))
    history, pauses = (name in options for name in _OPTIONS)
    draft.notification = Notification(urls, events, where, history=history, pauses=pauses, places=places)


def read_classic_notify(reader: Reader, draft: Draft) -> None:
    """Take the clause as it stands behind the window of the classic syntax."""
    reader.expect("NOTIFY")
    urls, places = _urls(reader)
    events = _events(reader, draft) if reader.accept("ON") else _events_without_on(reader, draft)
    said: dict[str, bool] = {}
    readers: dict[str, Callable[[], bool]] = {
        "NOTIFY_HISTORY": lambda: _choice(reader, "NOTIFY_HISTORY", ("0", "1")),
        "ON_FAILURE": lambda: _choice(reader, "ON_FAILURE", ("DROP", "PAUSE")),
    }
    while name := next((name for name in readers if reader.sees(name)), ""):
        if name in said:
            raise reader.error("OPTION_TWICE", f"{name} is given twice")
        reader.expect(name)
        said[name] = readers[name]()
    history, pauses = said.get("NOTIFY_HISTORY", False), said.get("ON_FAILURE", True)
    draft.notification = Notification(
        urls, events, None, history=history, pauses=pauses, classic=True, places=places
    )


def _choice(reader: Reader, name: str, choices: tuple[str, str]) -> bool:
    """Take one of two words; True for the second."""
    word = reader.peek()
    if word.kind not in (Kind.WORD, Kind.NUMBER) or word.text.upper() not in choices:
        raise reader.unexpected(f"{' or '.join(choices)} behind {name}", choices)
    return reader.take().text.upper() == choices[1]


def _urls(reader: Reader) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
    urls: list[str] = []
    places: list[tuple[int, int]] = []

    def one() -> None:
        word = reader.peek()
        url = take_string(reader, "a url in quotes")
        try:
            read_target(url)
        except ValueError as wrong:
            raise reader.error(
                "NOTIFY_URL",
                f"NOTIFY cannot send to {redacted(url)[:80]}: {wrong}",
                word=word,
                hint="such as 'ws://localhost:8080/notify'",
            ) from None
        if url in urls:
            raise reader.error("NOTIFY_URL", f"NOTIFY names {redacted(url)} twice", word=word)
        if len(urls) == MAX_TARGETS:
            raise reader.error("NOTIFY_URL", f"NOTIFY sends to at most {MAX_TARGETS} urls", word=word)
        urls.append(url)
        places.append(reader.source.position(word.start))

    reader.list_of(one)
    return tuple(urls), tuple(places)


def _events(reader: Reader, draft: Draft) -> tuple[str, ...]:
    own = (*_own_events(draft), *IDLE_EVENTS)

    def check(event: str) -> str:
        if event in own:
            return ""
        kind = "windows" if draft.trigger.is_window else "no windows: without ON each instant is told"
        return f"{event} is no event of {draft.trigger.name}, which has {kind}"

    return _bars(reader, _EVENTS, "an event", ("UNKNOWN_EVENT", "NOTIFY_EVENTS"), check)


def _events_without_on(reader: Reader, draft: Draft) -> tuple[str, ...]:
    if draft.trigger.is_window:
        raise reader.error(
            "NOTIFY_EVENTS",
            f"NOTIFY of {draft.trigger.name} must name its events",
            word=draft.words["NOTIFY"],
            hint="NOTIFY(…) ON (WINDOW_OPEN | WINDOW_CLOSE)",
        )
    return _own_events(draft)


def _own_events(draft: Draft) -> tuple[str, ...]:
    return (WINDOW_OPEN, WINDOW_CLOSE) if draft.trigger.is_window else (ON_TIME,)


def _bars(
    reader: Reader,
    known: tuple[str, ...],
    what: str,
    codes: tuple[str, str],
    check: Callable[[str], str] = lambda _: "",
) -> tuple[str, ...]:
    """Take names in brackets joined by ``|`` (or commas and in quotes, as older examples have them).

    ``codes`` are those of an unknown name and of one that is wrong here; returned in the order of ``known``.
    """
    found: list[str] = []
    reader.expect_symbol("(")
    while True:
        word = reader.take()
        name = word.text.upper()
        if name not in known:
            hint = did_you_mean(word.text, known) or f"there are {', '.join(known)}"
            raise reader.error(codes[0], f"{word.text or 'nothing'} is not {what}", word=word, hint=hint)
        wrong = f"{name} is given twice" if name in found else check(name)
        if wrong:
            raise reader.error(codes[1], wrong, word=word)
        found.append(name)
        if not (reader.accept_symbol("|") or reader.accept_symbol(",")):
            break
    reader.expect_symbol(")")
    return tuple(name for name in known if name in found)
