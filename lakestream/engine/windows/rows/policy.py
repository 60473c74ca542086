"""What a stream of row windows has to know besides, by its policy for late rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import Stream


def keeps_expired(stream: Stream) -> bool:
    """Return whether it must know of expired rows: by its values a row may cut the window it lies in."""
    return stream.expiry is not None and stream.cut is not None and stream.cut.looks_inside


def counts_on(stream: Stream) -> bool:
    """Return whether windows go on by what was counted: no late row is ever counted in them."""
    return stream.cut is not None and stream.cut.counts and not stream.late.expires_closed


def keeps_closed(stream: Stream) -> bool:
    """Return whether it must know up to where windows have closed: late rows join open ones only."""
    return stream.cut is not None and not stream.refires and stream.late.expires_closed
