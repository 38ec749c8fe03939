"""The memory of an upstream: what it holds, for whom, and that it is bounded."""

from __future__ import annotations

from teeline.validators.history import LONGEST_ID, MODELS, History, client_of


def test_an_id_is_new_once() -> None:
    history = History()
    assert history.made("a") == (False, 1)
    assert history.made("b") == (False, 1)
    assert history.made("a") == (True, 1)
    assert history.made("a") == (True, 2)


def test_the_ids_that_were_not_met_for_longest_are_forgotten() -> None:
    history = History(answers=2)
    for made in ("a", "b", "a", "c"):
        history.made(made)
    assert history.made("a").before
    assert not history.made("b").before


def test_an_id_of_any_length_costs_nothing() -> None:
    history = History()
    long = "x" * (LONGEST_ID + 1)
    assert history.made(long) == history.made(long) == (False, 1)


def test_whether_an_answer_is_kept_is_known_to_the_client_that_asked() -> None:
    history = History()
    history.made("a")
    history.keep("a", 1, kept=False)
    assert history.kept("a", 1) is False
    assert history.kept("a", 2) is None
    assert history.kept("b", 1) is None


def test_a_deleted_answer_is_as_one_that_nobody_knows_but_its_id_stays_taken() -> None:
    history = History()
    history.made("a")
    history.keep("a", 1, kept=True)
    history.deleted("a")
    history.deleted("b")
    assert history.kept("a", 1) is None
    assert history.made("a").before


def test_an_answer_that_was_never_made_here_is_not_kept() -> None:
    history = History()
    history.keep("a", 1, kept=True)
    assert history.kept("a", 1) is None


def test_the_last_list_of_models_is_each_clients_own() -> None:
    history = History(clients=2)
    assert history.listed_models(1) is None
    history.list_models(["a", "b"], 1)
    history.list_models(["c"], 2)
    history.list_models(["d"], 1)
    assert history.listed_models(1) == frozenset({"d"})
    history.list_models([], 3)
    assert history.listed_models(2) is None
    assert history.listed_models(3) == frozenset()


def test_a_list_too_long_to_keep_leaves_none_behind() -> None:
    history = History()
    history.list_models(["a"], 1)
    history.list_models(map(str, range(MODELS + 1)), 1)
    assert history.listed_models(1) is None


def test_clients_are_told_apart_by_their_keys_which_are_not_kept() -> None:
    one = client_of((("Authorization", "Bearer sk-1"), ("x", "1")))
    assert one == client_of((("authorization", "Bearer sk-1"), ("x", "2")))
    assert one != client_of((("authorization", "Bearer sk-2"),))
    assert client_of(()) == client_of((("x", "1"),))
    assert isinstance(one, int)
