import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import tomli_w

from fedgraph_sim.cli.main import main
from fedgraph_sim.results.run_folder import RunFolder, load_run

CONFIG: dict[str, Any] = {
    "clients": 2,
    "rounds": 3,
    "seed": 0,
    "algorithm": {"name": "fedavg", "lr": 0.01},
    "dataset": {"name": "csbm"},
    "split": {"train": 0.2},
    "engine": {"clients_per_actor": "auto"},
    "evaluation": {"protocol": "local-mean"},
}


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., RunFolder]:
    """Write the folder of a run of three rounds by hand and load it; keys with dots set the configuration."""

    def make(name: str, test: float = 0.5, *, summary: dict[str, Any] | None = None, **changes: Any) -> RunFolder:
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        config = json.loads(json.dumps(CONFIG))
        for key, value in changes.items():
            table, _, inner = key.partition("__")
            if inner:
                config[table][inner] = value
            else:
                config[table] = value
        (folder / "config.toml").write_text(tomli_w.dumps(config))
        rounds = {"round": [1, 2, 3], "bytes_up": [10, 10, 10], "bytes_down": [5, 5, 5], "seconds": [0.3, 0.1, 0.1]}
        parts = ("compute", "transport", "server", "evaluation", "simulated")
        rounds |= {"num_participants": [2, 2, 2]} | {f"seconds_{part}": [0.1, 0.02, 0.02] for part in parts}
        rounds |= {"val_accuracy": [0.1, 0.9, None], "test_accuracy": [0.2, test, None], "test_loss": [1.0, 0.5, None]}
        pd.DataFrame(rounds).to_parquet(folder / "rounds.parquet")
        written = {"status": "completed", "best_round": 2, "test_accuracy": test} if summary is None else summary
        if written:
            (folder / "summary.json").write_text(json.dumps(written))
        return load_run(folder)

    return make


@pytest.fixture(scope="session")
def real_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with real runs: FED-PUB and FedAvg with two seeds each, 4 clients, 4 rounds."""
    from click.testing import CliRunner

    folder = tmp_path_factory.mktemp("real")
    small = ("--clients", "4", "--rounds", "4", "--set", "dataset.num_nodes=300", "--set", "algorithm.hidden=8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDGRAPH_CACHE", str(folder / "cache"))
        for algorithm in ("fedpub", "fedavg"):
            for seed in ("0", "1"):
                options = ("--algorithm", algorithm, "--seed", seed, "--name", f"{algorithm}-{seed}")
                arguments = ["run", "--inline", "--out", str(folder / "runs"), *small, *options]
                result = CliRunner().invoke(main, arguments)
                assert result.exit_code == 0, result.output
    return folder / "runs"
