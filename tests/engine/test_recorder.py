import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fedgraph_sim.engine.evaluation import Evaluation
from fedgraph_sim.engine.ledger import SERVER, Ledger
from fedgraph_sim.engine.matrices import ClientMatrix
from fedgraph_sim.engine.recorder import Recorder
from fedgraph_sim.engine.report import RoundReport
from fedgraph_sim.engine.schema import column_of, type_name


def report(number, evaluation=None):
    return RoundReport(
        round=number,
        num_participants=1,
        seconds=1.0,
        seconds_compute=0.5,
        seconds_transport=0.25,
        seconds_server=0.125,
        seconds_evaluation=0.125,
        seconds_simulated=2.0,
        bytes_up=10,
        bytes_down=20,
        evaluation=evaluation,
    )


EVALUATION = Evaluation(
    metrics={"val_accuracy": 0.25, "test_accuracy": None},
    clients=(0, 1),
    values={"val_accuracy": np.array([0.25, np.nan]), "test_accuracy": np.array([np.nan, np.nan])},
    counts={"val_accuracy": np.array([4, 0]), "test_accuracy": np.array([0, 0])},
)


MATRICES = [
    ClientMatrix(name="before", round=0, clients=(0, 1), values=np.zeros((2, 2), np.float32)),
    ClientMatrix(name="likeness", round=2, clients=(3, 1), values=np.array([[1.0, 0.5], [0.25, 1.0]], np.float32)),
]


@pytest.fixture
def folder(tmp_path):
    ledger = Ledger()
    ledger.add(round=1, call=0, step="s", kind="train", sender=SERVER, receiver=np.array([0]), num_bytes=np.array([20]))
    recorder = Recorder(tmp_path, ledger)
    recorder.record(report(1), (0,))
    recorder.record(report(2, EVALUATION), (0,), MATRICES)
    recorder.close({"status": "completed"})
    return tmp_path


def test_rounds(folder):
    assert pq.read_table(folder / "rounds.parquet").to_pylist() == [
        {
            "round": number,
            "num_participants": 1,
            "seconds": 1.0,
            "seconds_compute": 0.5,
            "seconds_transport": 0.25,
            "seconds_server": 0.125,
            "seconds_evaluation": 0.125,
            "seconds_simulated": 2.0,
            "bytes_up": 10,
            "bytes_down": 20,
            "val_accuracy": accuracy,
            "test_accuracy": None,
        }
        for number, accuracy in ((1, None), (2, 0.25))
    ]


def test_clients(folder):
    names = ("round", "client", "participated")
    names += ("val_accuracy", "test_accuracy", "val_accuracy_count", "test_accuracy_count")
    rows = [(2, 0, True, 0.25, None, 4, 0), (2, 1, False, None, None, 0, 0)]
    table = pq.read_table(folder / "clients.parquet")
    assert table.to_pylist() == [dict(zip(names, row, strict=True)) for row in rows]


def test_ledger(folder):
    assert pq.read_table(folder / "ledger.parquet")["bytes"].to_pylist() == [20]


def test_matrices(folder):
    rows = pq.read_table(folder / "matrices.parquet").to_pylist()
    assert list(rows[0]) == ["round", "name", "row", "column", "value"]
    assert [tuple(row.values()) for row in rows if row["name"] == "likeness"] == [
        (2, "likeness", 3, 3, 1.0),
        (2, "likeness", 3, 1, 0.5),
        (2, "likeness", 1, 3, 0.25),
        (2, "likeness", 1, 1, 1.0),
    ]
    assert {row["round"] for row in rows if row["name"] == "before"} == {0}
    events = EventAccumulator(str(folder)).Reload()
    assert set(events.Tags()["images"]) == {"partition/before", "likeness"}
    assert [(image.step, image.width, image.height) for image in events.Images("likeness")] == [(2, 256, 256)]


def test_one_event_file_with_all_scalars(folder):
    assert len(list(folder.glob("events.out.tfevents.*"))) == 1
    events = EventAccumulator(str(folder)).Reload()
    parts = {f"seconds/{part}" for part in ("round", "compute", "server", "evaluation")}
    assert set(events.Tags()["scalars"]) == {"bytes/up", "bytes/down", "accuracy/val"} | parts
    assert [(event.step, event.value) for event in events.Scalars("accuracy/val")] == [(2, 0.25)]


def test_summary_and_nothing_half_written(folder):
    assert json.loads((folder / "summary.json").read_text()) == {"status": "completed"}
    assert not list(folder.glob("*.tmp"))


def test_a_run_that_ends_before_its_first_round_has_files(tmp_path):
    Recorder(tmp_path, Ledger()).close({"status": "failed"})
    rounds = pq.read_table(tmp_path / "rounds.parquet")
    assert rounds.num_rows == 0
    assert all(type_name(field.type) == column_of("rounds", field.name).type for field in rounds.schema)
    assert not (tmp_path / "clients.parquet").exists()
    assert not (tmp_path / "matrices.parquet").exists()


def test_rounds_that_are_measured_otherwise_share_the_tables(tmp_path):
    before = replace(EVALUATION, metrics={"count_loss": 3.0}, values={"count_loss": np.array([2.0, 4.0])})
    before = replace(before, counts={"count_loss": np.array([1, 1])})
    recorder = Recorder(tmp_path, Ledger())
    recorder.record(report(1, before), (0,))
    recorder.record(report(2, EVALUATION), (0,))
    recorder.close({})
    for table in ("rounds", "clients"):
        columns = pq.read_table(tmp_path / f"{table}.parquet").to_pydict()
        count = len(columns["round"]) // 2
        assert columns["count_loss"][count:] == [None] * count
        assert columns["val_accuracy"][:count] == [None] * count
        assert columns["val_accuracy"][count] == 0.25
