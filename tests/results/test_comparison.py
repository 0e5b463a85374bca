import pytest

from fedgraph_sim.errors import ConfigError
from fedgraph_sim.results.comparison import compare, tabulate
from fedgraph_sim.results.scores import Score

BETTER = {0: 0.80, 1: 0.83, 2: 0.82}
WORSE = {0: 0.70, 1: 0.74, 2: 0.71}


@pytest.fixture
def runs(make_run):
    """Two algorithms with three seeds each; the second has a key of its own, and ran on other actors."""
    own = {"name": "fedpub", "lr": 0.01, "tau": 3.0}
    return [make_run(f"avg-{seed}", value, seed=seed) for seed, value in WORSE.items()] + [
        make_run(f"pub-{seed}", value, seed=seed, algorithm=own, engine={"clients_per_actor": 2})
        for seed, value in BETTER.items()
    ]


def values(cell):
    return dict(cell.values)


def test_runs_that_differ_in_their_seed_are_one_line(runs):
    table = compare(runs)
    assert table.head == ("algorithm", "seeds", "test accuracy %", "p", "best round", "MB sent", "ms per round")
    (average, personal) = table.rows
    assert average[:2] == ("fedavg", "0-2")
    assert values(average[2]) == WORSE
    assert values(personal[2]) == BETTER
    assert personal[2].best
    assert average[2].significantly_worse
    assert average[3:] == (f"{average[2].p:.3f}", "2", "0.0", "100.0")


def test_what_differs_names_the_lines(make_run):
    table = compare([make_run("a"), make_run("b", algorithm__lr=0.1), make_run("c", algorithm__lr=0.1, seed=3)])
    assert table.head[:3] == ("algorithm", "algorithm.lr", "seeds")
    assert [row[:3] for row in table.rows] == [("fedavg", "0.01", "0"), ("fedavg", "0.1", "0, 3")]


def test_of_many_keys_the_parameters_that_tell_nothing_apart_are_named_below(make_run):
    base = {"name": "fedavg", "lr": 0.01, "hidden": 64, "dropout": 0.5, "local_epochs": 1, "weight_decay": 0.1}
    other = {key: value * 2 for key, value in base.items()} | {"name": "fedpub"}
    runs = [make_run("a", algorithm=base), make_run("b", algorithm=other, clients=3)]
    runs += [make_run("c", algorithm=other | {"lr": 0.5}, clients=3)]
    table = compare(runs)
    assert table.head[: table.num_keys] == ("algorithm", "algorithm.lr", "clients")
    others = ", ".join(f"algorithm.{name}" for name in ("dropout", "hidden", "local_epochs", "weight_decay"))
    assert table.notes[-1] == f"not shown, though it differs: {others}"


def test_runs_on_different_data_are_not_tested_against_each_other(make_run):
    runs = [make_run(f"{name}-{seed}", seed=seed, dataset__name=name) for name in ("csbm", "Cora") for seed in (0, 1)]
    table = compare(runs)
    assert not any(cell.best for row in table.rows for cell in row if isinstance(cell, Score))
    assert table.notes[-1].startswith("nothing is marked")


def test_unfinished_and_failed_runs_are_left_out(make_run):
    make_run("failed", summary={"status": "failed"})
    with pytest.raises(ConfigError, match="none of 1 run is completed"):
        compare([make_run("going-on", summary={})])
    assert len(compare([make_run("going-on-too", summary={}), make_run("done")]).rows) == 1


def test_another_metric_at_the_same_round(runs):
    table = compare(runs, "loss")
    assert values(table.rows[0][2]) == dict.fromkeys((0, 1, 2), 0.5)
    with pytest.raises(ConfigError, match="no run has test_auc; they have accuracy"):
        compare(runs, "auc")


def test_a_table_has_the_best_of_each_column(runs, make_run):
    more = [make_run(f"cora-{seed}", 0.5 + 0.1 * seed, seed=seed, dataset__name="Cora") for seed in (0, 1)]
    table = tabulate([*runs, *more], rows=["algorithm"], columns=["dataset", "clients"])
    assert table.head == ("algorithm", "csbm 2", "Cora 2")
    average, personal = table.rows
    assert average[0] == "fedavg"
    assert (average[1].best, personal[1].best) == (False, True)
    assert values(average[2]) == {0: 0.5, 1: 0.6}
    assert not average[2].best
    assert personal[2] is None


def test_where_only_rows_share_their_data_the_best_is_that_of_the_row(runs, make_run):
    more = [make_run(f"cora-{seed}", 0.9, seed=seed, dataset__name="Cora") for seed in (0, 1)]
    table = tabulate([*runs, *more], rows=["dataset"], columns=["algorithm"])
    assert [[cell and cell.best for cell in row[1:]] for row in table.rows] == [[False, True], [False, None]]


def test_a_cell_of_several_settings_is_refused(make_run):
    runs = [make_run("a"), make_run("b", algorithm__lr=0.1)]
    with pytest.raises(ConfigError, match=r"runs of fedavg, csbm differ in algorithm.lr: add one of these to --rows"):
        tabulate(runs, rows=["algorithm"], columns=["dataset"])
    assert len(tabulate(runs, rows=["algorithm", "algorithm.lr"], columns=["dataset"]).rows) == 2


def test_a_key_that_no_run_has_is_refused(make_run):
    with pytest.raises(ConfigError, match="no run has the key algorithm\\.tua"):
        tabulate([make_run("a")], rows=["algorithm.tua"], columns=[])


def test_a_table_without_columns_has_the_metric_above_it(make_run):
    assert tabulate([make_run("a")], rows=["algorithm"], columns=[]).head == ("algorithm", "test accuracy %")


def test_runs_that_are_left_out_are_named_with_the_reason(make_run):
    going = [make_run(f"going-{number}", summary={}) for number in range(7)]
    runs = [make_run("done"), *going]
    odd = make_run("odd", summary={"status": "completed", "best_round": 2, "test_rmse": 1.0})
    odd.__dict__["metric"] = "rmse"
    odd.__dict__["rounds"] = odd.rounds.drop(columns="test_accuracy")
    for table in (compare([*runs, odd]), tabulate([*runs, odd], rows=("algorithm",), columns=("dataset",))):
        assert table.notes[-2:] == (
            "left out: going-0, going-1, going-2, going-3, going-4 and 2 more (not completed)",
            "left out: odd (without test accuracy)",
        )
