import numpy as np
import pyarrow.compute as pc
import pytest
import torch

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.algorithms.local import Local
from fedgraph_sim.engine.algorithm import client_step
from fedgraph_sim.engine.ledger import SERVER, Ledger, num_bytes, num_bytes_each, standing_for


def test_num_bytes_counts_every_tensor_by_its_type():
    assert num_bytes({"a": torch.zeros(2, 3), "b": {"c": torch.zeros(5, dtype=torch.float64)}, "d": None}) == 24 + 40
    assert num_bytes(None) == 0
    assert num_bytes({"empty": torch.zeros(0, 7)}) == 0


def test_num_bytes_each_takes_stacked_and_ragged_leaves():
    tree = {"a": torch.zeros(2, 3), "b": [torch.zeros(1, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)]}
    assert num_bytes_each(tree, 2).tolist() == [12 + 8, 12 + 32]


def test_sparse_tensors_count_as_values_and_positions_or_as_they_are():
    leaf = torch.zeros(10, 10)
    assert num_bytes({"w": leaf}, sparse=True) == 0
    leaf.view(-1)[:49] = 1.0
    assert num_bytes({"w": leaf}, sparse=True) == 49 * (4 + 4)
    leaf.view(-1)[:51] = 1.0
    assert num_bytes({"w": leaf}, sparse=True) == 100 * 4
    assert num_bytes({"w": leaf}) == 100 * 4
    assert num_bytes({"w": leaf.double()}, sparse=True) == 51 * (8 + 4)


def test_sparse_messages_are_counted_one_by_one():
    stacked, ragged = torch.zeros(2, 8), [torch.zeros(4), torch.ones(4)]
    stacked[1, :3] = 1.0
    assert num_bytes_each({"a": stacked, "b": ragged}, 2, sparse=True).tolist() == [0, 3 * 8 + 4 * 4]
    assert num_bytes_each({"a": stacked, "b": ragged}, 2).tolist() == [48, 48]


def test_totals_go_by_kind_and_direction():
    ledger = Ledger()
    numbers = np.array([0, 1])
    ledger.add(round=1, call=0, step="train", kind="train", sender=SERVER, receiver=numbers, num_bytes=np.array([5, 6]))
    ledger.add(round=1, call=0, step="train", kind="train", sender=numbers, receiver=SERVER, num_bytes=np.array([1, 2]))
    ledger.add(round=1, call=0, step="judge", kind="eval", sender=numbers, receiver=SERVER, num_bytes=np.array([9, 9]))
    assert ledger.total("down", "train") == 11
    assert ledger.total("up", "train") == 3
    assert ledger.total("up", "train", "eval") == 21
    assert ledger.total("up", "setup") == 0
    table = ledger.table()
    assert table["bytes"].to_pylist() == [5, 6, 1, 2, 9, 9]
    assert table["sender"].to_pylist() == [-1, -1, 0, 1, 0, 1]
    assert table["kind"].to_pylist() == ["train"] * 4 + ["eval"] * 2


def test_rows_are_taken_once_and_totals_stay():
    ledger, whole = Ledger(), Ledger()
    tables = []
    for round in (0, 1, 2):
        for each in (ledger, whole):
            kind = "train" if round else "setup"
            ends = {"sender": SERVER, "receiver": np.array([0, 1])}
            each.add(round=round, call=0, step="s", kind=kind, num_bytes=np.array([5, 6]), **ends)
            ends = {"sender": np.array([0, 1]), "receiver": SERVER}
            each.add(round=round, call=0, step="s", kind=kind, num_bytes=np.array([1, 2]), **ends)
        tables.append(ledger.take())
    assert ledger.table().num_rows == 0
    rows = [row for table in tables for row in table.to_pylist()]
    assert rows == whole.table().to_pylist()
    again = Ledger()
    again.restore(table.filter(pc.field("round") <= 1) for table in tables)
    totals = {"down": (11, 11), "up": (3, 3)}
    assert {way: (again.total(way, "setup"), again.total(way, "train")) for way in totals} == totals
    assert (ledger.total("down", "train"), ledger.total("up", "train")) == (22, 6)
    assert again.table().num_rows == 0


def test_an_empty_ledger_has_a_table():
    assert Ledger().table().num_rows == 0


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_fedavg_sends_its_weights_both_ways_each_round(path_graphs, make_federation, train, fraction):
    algorithm = FedAvg(hidden=4)
    fed = make_federation(algorithm, path_graphs * 2, fraction=fraction)
    rounds, participants = 3, int(4 * fraction)
    train(algorithm, fed, rounds)
    parameters = (2 * 4 + 4) + (4 * 4 + 4) + (4 * 2 + 2)
    ledger = fed.ledger
    assert ledger.total("down", "train") == rounds * participants * parameters * 4
    assert ledger.total("up", "train") == rounds * participants * parameters * 4
    assert ledger.total("down", "setup") == 4 * parameters * 4
    assert ledger.total("up", "setup") == 4 * 8  # one int64 per client: its number of training nodes


def test_local_training_sends_nothing(path_graphs, make_federation, train):
    algorithm = Local(hidden=4)
    fed = make_federation(algorithm, path_graphs)
    train(algorithm, fed, 2)
    assert fed.ledger.total("down", "train") + fed.ledger.total("up", "train") == 0


def test_a_part_of_a_message_may_stand_for_another():
    factors = {"u": torch.zeros(5), "v": torch.zeros(7)}
    message = {"weights": torch.ones(1), "matrix": standing_for(factors, 4 * 5 * 7)}
    assert num_bytes(message) == num_bytes(message, sparse=True) == 4 + 140
    stacked = {"weights": torch.zeros(2, 3), "matrix": standing_for({"u": torch.zeros(2, 5)}, 140, count=2)}
    assert num_bytes_each(stacked, 2).tolist() == [12 + 140, 12 + 140]


class Factored(Local):
    @client_step(batched=True)
    def both_ways(self, client, message):
        return {"back": standing_for({"u": message["there"]["u"] * 2}, 50)}


@pytest.mark.parametrize("batched", [False, True])
def test_what_stands_for_another_travels_as_it_is(path_graphs, make_federation, batched):
    algorithm = Factored(hidden=4)
    fed = make_federation(algorithm, path_graphs, batched=batched)
    for _ in range(3):
        replies = fed.call_each(algorithm.both_ways, {"there": standing_for({"u": torch.ones(2, 4)}, 70, count=2)})
        assert replies.stack("back")["u"].tolist() == [[2.0] * 4] * 2
    fed.settle()
    assert (fed.ledger.total("down", "setup"), fed.ledger.total("up", "setup")) == (3 * 2 * 70, 3 * 2 * 50)
