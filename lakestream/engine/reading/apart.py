"""What a statement asks that takes long, asked while it holds no lock.

A statement that changes the lake is tried with the lake's lock. Where it comes to a question that takes
long, such as what Spark makes of a calculation, the try is given up and the question is asked without the
lock; the next try, which looks at everything anew, has the answer. An answer counts for what it was asked
about, and no longer.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    T = TypeVar("T")


_MOST = 32
"""So many questions are asked apart: where tables change faster than they are answered, the lock is held."""


class _UnansweredError(BaseException):
    """What a try of a statement cannot go on without; nothing has been done by then."""

    def __init__(self, about: object, question: Callable[[], object]) -> None:
        super().__init__(about)
        self.about, self.question = about, question


class Apart:
    """The questions of the statement that runs, which is one at a time."""

    def __init__(self) -> None:
        self._answers: list[tuple[object, Future[Any]]] | None = None

    @property
    def is_trying(self) -> bool:
        """Whether a statement is being tried, so that nothing may take long."""
        return self._answers is not None

    def run(self, attempt: Callable[[], T]) -> T:
        """Return what a statement gives, tried until all that it asks has its answer.

        A try does nothing before it has asked all that it has to.
        """
        answers: list[tuple[object, Future[Any]]] = []
        while True:
            self._answers = answers
            try:
                return attempt()
            except _UnansweredError as error:
                asked = error
            finally:
                self._answers = None
            answers.append((asked.about, _answer(asked.question)))

    def kept(self, about: object, make: Callable[[], T]) -> T:
        """Return what is made by the first try of a statement, and is to be the same for the others."""
        for known, answer in self._answers or ():
            if known == about:
                return cast("T", answer.result())
        made = _answer(make)
        if self._answers is not None:
            self._answers.append((about, made))
        return cast("T", made.result())

    def ask(self, about: object, question: Callable[[], T]) -> T:
        """Return the answer to a question, or raise what it raises.

        It is the same question wherever what it is ``about`` is equal; one whose answer may change with
        anything else says that too.
        """
        if self._answers is None or len(self._answers) >= _MOST:
            return question()
        for known, answer in self._answers:
            if known == about:
                return cast("T", answer.result())
        raise _UnansweredError(about, question)


def _answer(question: Callable[[], object]) -> Future[Any]:
    answer: Future[Any] = Future()
    try:
        answer.set_result(question())
    except Exception as error:  # noqa: BLE001 (whatever it is, the try is to meet it)
        answer.set_exception(error)
    return answer
