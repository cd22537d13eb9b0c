"""Play games side by side that all ask the same oracle, and answer their questions together.

A library that calls us back (fairlearn's reductions train one estimator at a time) would train M
lanes one after the other. Here each game runs in its own thread until it asks; when every game that
still runs is waiting, all questions are answered by one call. Which questions meet depends on the
games alone, never on the speed of a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition
from typing import Generic, TypeVar

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

__all__ = ["Desk", "side_by_side"]

Question = TypeVar("Question")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


class _Closed(Exception):
    """Another game failed: this one ends as well."""


class Desk(Generic[Question, Answer]):
    """Where one game asks its questions."""

    def __init__(self, game: int, hall: _Hall[Question, Answer]) -> None:
        self.game, self.hall = game, hall

    def ask(self, question: Question) -> Answer:
        """The answer, once all games that still run have asked."""
        hall = self.hall
        with hall.changed:
            if hall.closed:
                raise _Closed
            hall.questions[self.game] = question
            hall.changed.notify_all()
            hall.changed.wait_for(lambda: self.game in hall.answers or hall.closed)
            if self.game not in hall.answers:
                raise _Closed
            return hall.answers.pop(self.game)


class _Hall(Generic[Question, Answer]):
    def __init__(self, games: int) -> None:
        self.changed = Condition()
        self.playing = games
        self.closed = False
        self.questions: dict[int, Question] = {}
        self.answers: dict[int, Answer] = {}

    def leave(self) -> None:
        with self.changed:
            self.playing -= 1
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def waiting(self) -> dict[int, Question]:
        """The questions of all running games, in order; empty when all ended or one failed."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed or len(self.questions) == self.playing)
            if self.closed:
                return {}
            asked, self.questions = self.questions, {}
            return dict(sorted(asked.items()))

    def reply(self, answers: dict[int, Answer]) -> None:
        with self.changed:
            self.answers.update(answers)
            self.changed.notify_all()


def side_by_side(
    games: Sequence[Callable[[Desk[Question, Answer]], Result]],
    oracle: Callable[[dict[int, Question]], dict[int, Answer]],
    progress: bool = False,
) -> list[Result]:
    """The results of all games.

    Args:
        games: game(desk) plays to its end and asks `desk.ask(question)` on the way.
        oracle: answers the questions of several games, by the number of the game.
        progress: show how many questions have been answered.

    >>> def guess(desk):
    ...     return [desk.ask(number) for number in range(2)]
    >>> side_by_side([guess, guess], lambda asked: {game: -q for game, q in asked.items()})
    [[0, -1], [0, -1]]
    """
    hall: _Hall[Question, Answer] = _Hall(len(games))

    def play(number: int) -> Result:
        try:
            return games[number](Desk(number, hall))
        except BaseException:
            hall.close()
            raise
        finally:
            hall.leave()

    columns, console = (SpinnerColumn(), TextColumn("{task.description}")), Console(stderr=True)
    with (
        Progress(*columns, console=console, disable=not progress, transient=True) as bar,
        ThreadPoolExecutor(len(games)) as pool,
    ):
        task = bar.add_task("training")
        running = [pool.submit(play, number) for number in range(len(games))]
        answered = 0
        try:
            while asked := hall.waiting():
                hall.reply(oracle(asked))
                answered += len(asked)
                games_on = f"{hall.playing} of {len(games)} games on"
                bar.update(task, description=f"{answered:,} networks trained, {games_on}")
        except BaseException:
            hall.close()
            raise
    return _results(running)


def _results(running: list[Future[Result]]) -> list[Result]:
    failed = [error for future in running if (error := future.exception()) is not None]
    for error in failed:
        if not isinstance(error, _Closed):
            raise error
    return [future.result() for future in running]
