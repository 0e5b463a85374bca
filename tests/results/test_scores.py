from math import sqrt
from statistics import fmean, stdev

import pytest
from scipy.stats import t

from fedgraph_sim.results.scores import Score, holm, paired, ranked, score_of

ONE = {0: 0.81, 1: 0.84, 2: 0.80, 3: 0.85}
OTHER = {0: 0.79, 1: 0.80, 2: 0.79, 3: 0.82}


def test_the_paired_test_is_students_on_the_differences_of_common_seeds():
    differences = [ONE[seed] - OTHER[seed] for seed in ONE]
    statistic = fmean(differences) / (stdev(differences) / sqrt(4))
    expected = 2 * t.sf(statistic, 3)
    assert paired(Score(values=ONE | {9: 0.1}), Score(values=OTHER | {7: 0.9})) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("one", "other"), [({0: 0.5}, {0: 0.4}), ({0: 0.5, 1: 0.6}, {2: 0.5, 3: 0.6}), ({0: 0.5, 1: 0.6}, {0: 0.4, 1: 0.5})]
)
def test_without_pairs_or_without_spread_there_is_no_probability(one, other):
    assert paired(Score(values=one), Score(values=other)) is None


def test_holm_on_a_worked_example():
    # p_(1) * 3, then the larger of that and p_(2) * 2, then of that and p_(3); by hand.
    assert holm([0.04, None, 0.01, 0.03]) == pytest.approx([0.06, None, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_best_is_marked_and_the_others_are_compared_with_it():
    best, other, alone, nothing = ranked(
        [Score(values=ONE), Score(values=OTHER), Score(values={5: 0.1}), None], "accuracy"
    )
    assert (best.best, other.best, alone.best, nothing) == (True, False, False, None)
    assert best.p is None
    assert alone.p is None
    assert other.p == pytest.approx(paired(Score(values=ONE), Score(values=OTHER)))
    assert other.significantly_worse


def test_of_an_error_the_smallest_is_the_best():
    first, second = ranked([Score(values=ONE), Score(values=OTHER)], "rmse")
    assert (first.best, second.best) == (False, True)


def test_a_score_alone_is_not_called_the_best():
    assert not ranked([Score(values=ONE)], "accuracy")[0].best


def test_mean_and_population_deviation():
    score = Score(values={0: 1.0, 1: 3.0})
    assert (score.mean, score.std) == (2.0, 1.0)
    assert Score(values={0: 1.0}).std is None


def test_scores_of_runs_by_seed(make_run):
    runs = [make_run("a", 0.5), make_run("b", 0.7, seed=1), make_run("again", 0.6, seed=1)]
    assert score_of(runs, "test", "accuracy").values == {0: 0.5, 1: 0.6}
    assert score_of(runs, "test", "auc") is None
