"""Rounds are reported while the next one runs: whatever ends a run, no finished round is lost."""

from collections import Counter

import pyarrow.parquet as pq
import pytest
import torch

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.configuration import load_config
from fedgraph_sim.engine import rounds as round_loop
from fedgraph_sim.engine.algorithm import client_step
from fedgraph_sim.engine.launch import Folders, prepare_run
from fedgraph_sim.engine.report import RoundReport

BAD_ROUND = 4


class ServerFails(FedAvg):
    def round(self, fed, server):
        server = super().round(fed, server)
        if fed.round == BAD_ROUND:
            raise ArithmeticError("the server cannot go on")
        return server


class ClientFails(FedAvg):
    def round(self, fed, server):
        if fed.round == BAD_ROUND:
            fed.call(self.fail, server["weights"])
        return super().round(fed, server)

    @client_step(batched=True)
    def fail(self, client, weights):
        raise ArithmeticError("a client cannot go on")


@pytest.fixture
def run(tmp_path):
    def begin(algorithm, rounds=6):
        small = ("dataset.num_nodes=400", "algorithm=fedavg")
        config = load_config(None, {"rounds": rounds, "clients": 4}, small)
        config = config.model_copy(update={"algorithm": algorithm})
        folders = Folders(run=tmp_path / "run", cache=tmp_path / "cache", data=None)
        return prepare_run(config, folders, inline=True, force=False, started=0.0)

    return begin


@pytest.mark.parametrize("short", [0.0, 60.0], ids=["each waited for", "each behind the next"])
@pytest.mark.parametrize("algorithm", [ServerFails(hidden=8), ClientFails(hidden=8)], ids=["server", "client"])
def test_rounds_before_a_failure_are_kept(run, tmp_path, monkeypatch, algorithm, short):
    monkeypatch.setattr(round_loop, "SHORT_ROUND", short)
    _, *reports, outcome = run(algorithm).events()
    assert [report.round for report in reports] == [1, 2, 3]
    assert outcome.status == "failed"
    assert "cannot go on" in outcome.error
    assert f"round {BAD_ROUND}" in outcome.error
    assert outcome.summary["rounds"] == pq.read_table(tmp_path / "run" / "rounds.parquet").num_rows == 3
    ledger = pq.read_table(tmp_path / "run" / "ledger.parquet").to_pylist()
    evaluated = Counter(row["round"] for row in ledger if row["kind"] == "eval")
    assert evaluated == {1: 2 * 4, 2: 2 * 4, 3: 2 * 4}  # down and up, four clients


def test_stopping_reports_the_round_that_was_behind(run, monkeypatch):
    monkeypatch.setattr(round_loop, "SHORT_ROUND", 60.0)
    started = run(FedAvg(hidden=8))
    rounds = []
    for event in started.events():
        if isinstance(event, RoundReport):
            rounds.append(event.round)
            started.stop()
    assert event.status == "interrupted"
    assert rounds == [1, 2]  # round 1 is reported when round 2 has trained, which then ends, too
    assert event.summary["rounds"] == 2


def test_rounds_are_the_same_waited_for_or_not(run, tmp_path, monkeypatch):
    tables = []
    for short in (0.0, 60.0):
        monkeypatch.setattr(round_loop, "SHORT_ROUND", short)
        *_, outcome = run(FedAvg(hidden=8), rounds=3).events()
        assert outcome.status == "completed"
        rounds = pq.read_table(tmp_path / "run" / "rounds.parquet")
        names = [name for name in rounds.column_names if not name.startswith("seconds")]
        tables.append((rounds.select(names), pq.read_table(tmp_path / "run" / "ledger.parquet")))
        (tmp_path / "run").rename(tmp_path / f"short-{short}")
    (waited, ledger), (behind, ledger_behind) = tables
    assert waited.equals(behind)
    assert ledger.equals(ledger_behind)


class Prepares(FedAvg):
    """Does nothing in the first two rounds, and scores nothing then."""

    @property
    def preparation_rounds(self):
        return 2

    def round(self, fed, server):
        return server if fed.round <= 2 else super().round(fed, server)

    def ask_for_scores(self, fed, server):
        return fed.call(self.prepared) if fed.round <= 2 else super().ask_for_scores(fed, server)

    @client_step
    def prepared(self, client, message):
        return {"readiness": torch.ones(2)}


def test_rounds_of_preparation_come_before_those_asked_for(run, tmp_path):
    _, *reports, outcome = run(Prepares(hidden=8), rounds=3).events()
    assert outcome.status == "completed"
    assert [report.round for report in reports] == [1, 2, 3, 4, 5]
    assert outcome.summary["rounds"] == outcome.summary["rounds_planned"] == 5
    assert outcome.summary["best_round"] > 2
    assert [report.evaluation.metrics.get("readiness") for report in reports] == [1, 1, None, None, None]
    assert pq.read_table(tmp_path / "run" / "rounds.parquet")["bytes_up"].to_pylist()[:2] == [0, 0]
