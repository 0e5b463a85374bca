import json
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from fedgraph_sim.datasets.partition_info import PartitionInfo
from fedgraph_sim.engine.evaluation import Evaluation
from fedgraph_sim.engine.report import RoundReport
from fedgraph_sim.engine.tensorboard import EventFile

INFO = PartitionInfo(
    dataset="d", partition="p", num_clients=2, num_features=1, num_classes=2, num_nodes=5, num_edges=4, nodes=(2, 3),
    edges=(1, 2), train=(1, 1), val=(1, 1), test=(0, 1), isolated=(0, 0), class_counts=((2, 0), (1, 1)), edges_lost=1,
    cut=((0, 1), (0, 0)),
)  # fmt: skip
EVALUATION = Evaluation(
    metrics={"val_accuracy": 0.5, "val_loss": 1.0, "conv1_sparsity": 0.1},
    clients=(0, 1),
    values={"val_accuracy": np.array([0.25, np.nan]), "val_loss": np.ones(2), "conv1_sparsity": np.ones(2)},
    counts={},
)
REPORT = RoundReport(
    round=3, num_participants=2, seconds=1.0, seconds_compute=0.5, seconds_transport=0.25, seconds_server=0.125,
    seconds_evaluation=0.125, seconds_simulated=0.0, bytes_up=10, bytes_down=20, evaluation=EVALUATION,
)  # fmt: skip


@pytest.fixture
def events(tmp_path):
    (tmp_path / "partition.json").write_text(json.dumps(asdict(INFO)))
    (tmp_path / "config.toml").write_text('clients = 2\n[algorithm]\nname = "fedavg"\nlr = 0.5\nsteps = [1, 2]\n')
    file = EventFile(tmp_path)
    file.round(REPORT)
    file.close({"status": "completed", "rounds": 3, "val_accuracy": 0.5, "test_accuracy": None})
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    return EventAccumulator(str(tmp_path)).Reload()


def test_scalars_that_are_alike_stand_together(events):
    tags = {"accuracy/val", "loss/val", "sparsity/conv1", "bytes/up", "final/val_accuracy"}
    assert tags <= set(events.Tags()["scalars"])


def test_histograms_count_the_clients_that_have_a_value(events):
    assert set(events.Tags()["histograms"]) == {"accuracy/val_clients", "partition/nodes"}
    (histogram,) = events.Histograms("accuracy/val_clients")
    assert (histogram.step, histogram.histogram_value.num, histogram.histogram_value.sum) == (3, 1.0, 0.25)


def test_the_partition_is_shown_before_the_first_round(events):
    names = {"missing_edges", "class_shares"}
    assert set(events.Tags()["images"]) == {f"partition/{name}" for name in names}


def test_hyper_parameters_stand_beside_the_final_metrics(events):
    content = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    written = HParamsPluginData.FromString(content).session_start_info.hparams
    assert written["algorithm.name"].string_value == "fedavg"
    assert written["algorithm.lr"].number_value == 0.5
    assert written["clients"].number_value == 2
    assert written["algorithm.steps"].string_value == "[1, 2]"
    experiment = events.summary_metadata["_hparams_/experiment"].plugin_data.content
    metrics = HParamsPluginData.FromString(experiment).experiment.metric_infos
    assert [each.name.tag for each in metrics] == ["final/val_accuracy"]


def test_a_run_without_a_result_has_no_hyper_parameters(tmp_path):
    EventFile(tmp_path).close({"status": "failed"})
    assert not EventAccumulator(str(tmp_path)).Reload().Tags()["scalars"]


FULL_DISK = """
import sys
from pathlib import Path

from tensorboard.summary.writer.record_writer import RecordWriter

from fedgraph_sim.engine.tensorboard import EventFile


def write(self, data):
    raise OSError(28, "No space left on device")


file = EventFile(Path(sys.argv[1]))
RecordWriter.write = write
try:
    file.close({"val_accuracy": 0.5, "rounds": 1})
    file.flush()
except OSError as error:
    print(error)
"""


def test_a_full_disk_is_told_once(tmp_path):
    (tmp_path / "config.toml").write_text("rounds = 1\n")
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[Errno 28] No space left on device\n", "")
