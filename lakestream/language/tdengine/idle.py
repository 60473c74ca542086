"""Streams of groups that fall idle: IDLE_TIMEOUT with the events IDLE and RESUME.

Source: TDengine, "Stream processing", the idle trigger. There these events stand beside those of windows;
here they make a stream of their own, whose calculation has one set of placeholders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.language.expressions.checks import IDLE_TIMEOUT
from lakestream.language.model import IDLE, ON_TIME, RESUME, WINDOW_CLOSE, IdleTrigger

if TYPE_CHECKING:
    from lakestream.language.reading.reader import Reader
    from lakestream.language.tdengine.draft import Draft

IDLE_EVENTS = (IDLE, RESUME)
_STREAM = "STREAM_OPTIONS(IDLE_TIMEOUT(5m) | EVENT_TYPE(IDLE | RESUME)) NOTIFY(…) ON (IDLE | RESUME)"


def idle_trigger(reader: Reader, draft: Draft) -> IdleTrigger | None:
    """Return the trigger of a stream of groups that fall idle, None for any other stream.

    Raises StatementError IDLE_TIMEOUT_MISSING, OPTION_WITHOUT_EFFECT, and NotSupportedError for events of
    windows beside those of idle groups.
    """
    computed, told = _computed(draft), draft.notification.events if draft.notification else ()
    asked = [event for event in IDLE_EVENTS if event in (*computed, *told)]
    word = draft.options.words.get(IDLE_TIMEOUT)
    if word is None:
        if asked:
            raise reader.error(
                "IDLE_TIMEOUT_MISSING",
                f"{' and '.join(asked)} without IDLE_TIMEOUT: after how long a group is idle",
                word=draft.words["STREAM_OPTIONS" if asked[0] in computed else "NOTIFY"],
                hint=_STREAM,
            )
        return None
    if not asked:
        raise reader.error(
            "OPTION_WITHOUT_EFFECT",
            "IDLE_TIMEOUT is about IDLE and RESUME, and neither is asked for",
            word=word,
            hint=_STREAM,
        )
    others = [event for event in (*computed, *told) if event not in IDLE_EVENTS]
    if others:
        what = f"{others[0]} beside {' and '.join(asked)} in one stream"
        raise reader.unsupported(what, word=word, hint=f"a stream for each: {_STREAM}")
    assert draft.trigger.value is not None  # every kind that is read has a value
    return IdleTrigger(draft.options.durations[IDLE_TIMEOUT], computed, draft.trigger.value)


def _computed(draft: Draft) -> tuple[str, ...]:
    """Return the events that a stream computes, in the order in which they come."""
    if draft.calculation is None:
        return ()
    if "EVENT_TYPE" not in draft.options.words:
        return (WINDOW_CLOSE if draft.trigger.is_window else ON_TIME,)
    return tuple(sorted(draft.options.events))
