import json

import torch
from safetensors.torch import load_file

from fedgraph_sim.engine.checkpoint import save_checkpoint


def test_a_checkpoint_is_readable_by_safetensors(tmp_path):
    shared = torch.arange(6.0).reshape(2, 3)
    server = {"weights": {"head.bias": shared.T}, "step": torch.tensor(4)}
    clients = {0: {"weights": {"w": shared}}, 11: {"weights": {"w": shared}, "moments": {"w": shared[0]}}}
    folder = save_checkpoint(tmp_path / "checkpoints", round=7, server=server, clients=clients)
    assert folder == tmp_path / "checkpoints" / "round-000007"
    assert {path.name for path in folder.iterdir()} == {"server.safetensors", "clients.safetensors", "checkpoint.json"}
    loaded = load_file(folder / "server.safetensors")
    assert loaded["weights/head.bias"].tolist() == shared.T.tolist()
    assert loaded["step"].item() == 4
    states = load_file(folder / "clients.safetensors")
    assert set(states) == {"0/weights/w", "11/weights/w", "11/moments/w"}
    assert states["11/moments/w"].tolist() == [0, 1, 2]
    assert json.loads((folder / "checkpoint.json").read_text()) == {"round": 7, "num_clients": 2}


def test_a_leftover_of_a_killed_run_does_not_hinder(tmp_path):
    leftover = tmp_path / ".round-000001.tmp"
    leftover.mkdir()
    (leftover / "server.safetensors").write_text("half")
    save_checkpoint(tmp_path, round=1, server={}, clients={0: {}})
    assert [path.name for path in tmp_path.iterdir()] == ["round-000001"]
