"""Means over seeds, and whether a difference between two of them is more than chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean, pstdev

from fedgraph_sim.results.metrics import lower_is_better
from fedgraph_sim.results.run_folder import RunFolder

SIGNIFICANT = 0.05
"""Probability below which a difference is called significant."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A metric of repeated runs: `values` by seed. `p` is that of the difference to the best score it is shown with.

    None where the two have fewer than two seeds in common, or do not differ at all.
    """

    values: Mapping[int, float]
    best: bool = False
    p: float | None = None

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return fmean(self.values.values())

    @property
    def std(self) -> float | None:
        """The population standard deviation, as in `fedgraph-sim reproduce`; None for one seed."""
        return pstdev(self.values.values()) if len(self.values) > 1 else None

    @property
    def significantly_worse(self) -> bool:
        """Whether the best score is better than this one by more than chance."""
        return self.p is not None and self.p < SIGNIFICANT


def score_of(runs: Sequence[RunFolder], part: str, metric: str) -> Score | None:
    """Return ``<part>_<metric>`` of runs of one setting, each at its own best validation round; None without any.

    Of several runs with one seed the last one counts; what is no finite number does not.
    """
    values = {int(run.get("seed")): run.at_best_round(part) for run in runs if run.metric == metric}
    known = {seed: value for seed, value in values.items() if value is not None and isfinite(value)}
    return Score(values=known) if known else None


def ranked(scores: Sequence[Score | None], metric: str) -> list[Score | None]:
    """Return the scores with the best of them marked, and the probability that each differs from it by chance.

    Two-sided paired t-test over the seeds that two scores have in common (Student, 1908), adjusted for the number of
    scores that are compared with the best (Holm, A Simple Sequentially Rejective Multiple Test Procedure, 1979).
    """
    known = [score for score in scores if score is not None]
    if not known:
        return list(scores)
    best = (min if lower_is_better(metric) else max)(known, key=lambda score: score.mean)
    others = [score for score in known if score is not best]
    adjusted = dict(zip(map(id, others), holm([paired(best, other) for other in others]), strict=True))
    return [
        score and Score(values=score.values, best=score is best and bool(others), p=adjusted.get(id(score)))
        for score in scores
    ]


def paired(one: Score, other: Score) -> float | None:
    """Return p of a two-sided paired t-test over common seeds; None for fewer than two, or without any difference."""
    seeds = sorted(one.values.keys() & other.values.keys())
    if len(seeds) < 2:
        return None
    from scipy.stats import ttest_rel

    a, b = ([score.values[seed] for seed in seeds] for score in (one, other))
    differences = [x - y for x, y in zip(a, b, strict=True)]
    if max(differences) - min(differences) <= 1e-12 * max(map(abs, [*a, *b])):  # no spread: the test has no answer
        return None
    p = float(ttest_rel(a, b).pvalue)
    return p if isfinite(p) else None


def holm(probabilities: Sequence[float | None]) -> list[float | None]:
    """Return the probabilities adjusted for being several: p_(k) times the number of those from rank k on, rising."""
    ranking = sorted((p, index) for index, p in enumerate(probabilities) if p is not None)
    adjusted: list[float | None] = [None] * len(probabilities)
    largest = 0.0
    for rank, (p, index) in enumerate(ranking):
        largest = min(1.0, max(largest, p * (len(ranking) - rank)))
        adjusted[index] = largest
    return adjusted
