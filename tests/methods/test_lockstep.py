"""Games side by side: their questions meet, and an error ends all of them."""

from __future__ import annotations

import pytest

from separatrix.methods._lockstep import side_by_side


def test_questions_of_all_running_games_are_answered_together():
    calls = []

    def oracle(asked):
        calls.append(sorted(asked))
        return {game: question + 1 for game, question in asked.items()}

    def count_to(limit):
        def game(desk):
            value = 0
            while value < limit:
                value = desk.ask(value)
            return value

        return game

    assert side_by_side([count_to(3), count_to(1), count_to(2)], oracle) == [3, 1, 2]
    assert calls == [[0, 1, 2], [0, 2], [0]]


def test_the_error_of_a_game_is_raised_and_the_others_end():
    def bad(desk):
        desk.ask(1)
        raise ValueError("no such move")

    def endless(desk):
        while True:
            desk.ask(1)

    with pytest.raises(ValueError, match="no such move"):
        side_by_side([endless, bad, endless], lambda asked: asked)


def test_the_error_of_the_oracle_is_raised_and_the_games_end():
    def oracle(asked):
        raise RuntimeError("no answer")

    with pytest.raises(RuntimeError, match="no answer"):
        side_by_side([lambda desk: desk.ask(1), lambda desk: desk.ask(2)], oracle)
