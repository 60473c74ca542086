"""A history that failed can be run again: what is written down says all of it."""

from __future__ import annotations

from dataclasses import replace

from tests.properties.definitions import WHOLE, Definition, interval
from tests.properties.world import Setup, said, script
from tests.reference.grid import Interval, Span

SETUP = Setup(
    Definition(interval("10s", "5s"), "table", Span(5, "s"), exact=True, figures=WHOLE),
    before=(("t1", "A", 3, None, 0.5),),
    transport="spark",
)


def test_a_setup_is_written_as_python() -> None:
    names = {kind.__name__: kind for kind in (Setup, Definition, Interval, Span)}
    for setup in (SETUP, replace(SETUP, tick=Span(30, "m"))):
        assert eval(said(setup), names) == setup


def test_defaults_are_left_out() -> None:
    assert said(Setup(Definition(interval("10s", "5s")))) == (
        "Setup(definition=Definition(trigger=Interval(length=Span(value=10, unit='s'), "
        "step=Span(value=5, unit='s'))))"
    )


def test_a_script_is_a_program() -> None:
    text = script(SETUP, ["world.insert(('t1', 'A', 5, 7, None))", "world.run()"])
    compile(text, "failure.py", "exec")
    assert text.endswith("    world.insert(('t1', 'A', 5, 7, None))\n    world.run()\n")
