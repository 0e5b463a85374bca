import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgraph_sim.engine import growing_table
from fedgraph_sim.engine.growing_table import GrowingTable, rows_until


def rows(round, count=4, **others):
    numbers = np.arange(count)
    return pa.table({"round": np.full(count, round), "client": numbers, "participated": numbers % 2 == 0} | others)


def written(folder):
    return pq.read_table(folder / "clients.parquet")


@pytest.mark.parametrize("piece", [3, 16, 1 << 14])
def test_the_file_is_all_rows_in_order_however_often_it_is_written(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(growing_table, "PIECE", piece)
    table = GrowingTable(tmp_path, "clients")
    for round in range(1, 41):
        table.append(rows(round))
        if round % 3 == 0:
            table.flush()
    table.flush()
    assert written(tmp_path).equals(pa.concat_tables([rows(round) for round in range(1, 41)]))
    assert table.num_rows == 160
    assert pq.read_metadata(tmp_path / "clients.parquet").num_row_groups <= 160 // min(piece, 16) + 1


def test_rows_that_are_written_take_no_memory(tmp_path):
    table = GrowingTable(tmp_path, "clients")
    before = pa.total_allocated_bytes()
    for round in range(1, 21):
        table.append(rows(round, 20_000, test_accuracy=np.random.default_rng(round).random(20_000)))
        table.flush()
    assert written(tmp_path).nbytes > 20 * 20_000 * 24
    assert pa.total_allocated_bytes() - before < 20_000 * 24


def test_rounds_that_are_measured_otherwise_share_the_file(tmp_path):
    table = GrowingTable(tmp_path, "clients")
    table.append(rows(1, count_loss=np.ones(4)))
    table.flush()
    table.append(rows(2, test_accuracy=np.zeros(4)))
    table.append(rows(3))
    table.flush()
    found = written(tmp_path).to_pydict()
    assert found["count_loss"] == [1.0] * 4 + [None] * 8
    assert found["test_accuracy"] == [None] * 4 + [0.0] * 4 + [None] * 4


def test_it_goes_back_to_a_round(tmp_path):
    table = GrowingTable(tmp_path, "clients")
    for round in (1, 2, 3):
        table.append(rows(round))
        table.flush()
    table.append(rows(4))
    again = GrowingTable(tmp_path, "clients")
    for each in (table, again):
        each.go_back(2)
        assert each.num_rows == 8
        assert written(tmp_path)["round"].to_pylist()[-1] == 3  # until it is written
    again.append(rows(3))
    again.flush()
    assert written(tmp_path)["round"].to_pylist() == [1] * 4 + [2] * 4 + [3] * 4
    again.go_back(-1)
    again.flush()
    assert written(tmp_path).num_rows == 0
    again.append(rows(1))
    again.flush()
    assert written(tmp_path).equals(rows(1))


def test_a_file_that_cannot_be_written_loses_nothing(tmp_path):
    table = GrowingTable(tmp_path, "clients")
    table.append(rows(1))
    table.flush()
    table.append(rows(2))
    (tmp_path / "clients.tmp").mkdir()
    with pytest.raises(OSError, match=r"clients\.tmp"):
        table.flush()
    assert written(tmp_path).num_rows == 4
    (tmp_path / "clients.tmp").rmdir()
    table.flush()
    assert written(tmp_path)["round"].to_pylist() == [1] * 4 + [2] * 4


def test_there_is_no_file_without_rows(tmp_path):
    table = GrowingTable(tmp_path, "clients")
    table.flush()
    table.go_back(3)
    table.flush()
    assert not list(tmp_path.iterdir())
    assert list(rows_until(tmp_path / "clients.parquet", 1)) == []
