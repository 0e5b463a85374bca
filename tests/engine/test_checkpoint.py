import json
import resource

import pytest
import torch
from safetensors.torch import load_file

from fedgraph_sim.engine.checkpoint import (
    KEPT,
    Checkpoint,
    SpreadRows,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from fedgraph_sim.engine.matrices import ClientMatrix
from fedgraph_sim.engine.tree import leaves
from fedgraph_sim.errors import ConfigError, RunError

SHARED = torch.arange(6.0).reshape(2, 3)


def checkpoint(round=7):
    return Checkpoint(
        round=round,
        server={
            "weights": {"head.bias": SHARED.T},
            "step": torch.tensor(4),
            "nothing": None,
            "empty": {},
            "ragged": [torch.tensor([True]), torch.tensor([False, True])],
            "personal": SpreadRows((11, 0), {"w": SHARED}),
        },
        public={"graph": torch.tensor([[1, 2]], dtype=torch.int32)},
        clients={0: {"weights": {"w": SHARED}, "none": None}, 11: {"weights": {"w": SHARED}, "m": {"w": SHARED[0]}}},
        matrices=[ClientMatrix(name="similarity", round=6, clients=(11, 0), values=torch.eye(2).numpy())],
    )


@pytest.fixture
def saved(tmp_path):
    return save_checkpoint(tmp_path / "checkpoints", checkpoint(), key="this run")


def test_it_is_readable_by_safetensors(saved, tmp_path):
    assert saved == tmp_path / "checkpoints" / "round-000007"
    weights = load_file(saved / "server.safetensors")
    assert weights["weights/head.bias"].tolist() == SHARED.T.tolist()
    assert weights["step"].item() == 4
    states = load_file(saved / "clients.safetensors")
    assert set(states) == {"0/weights/w", "11/weights/w", "11/m/w"}
    assert states["11/m/w"].tolist() == [0, 1, 2]


def test_it_comes_back_as_it_was(saved):
    before, after = checkpoint(), load_checkpoint(saved, key="this run")
    assert after.round == 7
    assert list(after.server) == list(before.server)
    assert after.server["nothing"] is None
    assert after.server["empty"] == {}
    assert [part.tolist() for part in after.server["ragged"]] == [[True], [False, True]]
    assert after.server["personal"].clients == (11, 0)
    assert after.server["personal"].rows["w"].equal(SHARED)
    assert after.server["step"].dtype == torch.int64
    assert after.public["graph"].equal(before.public["graph"])
    assert after.public["graph"].dtype == torch.int32
    assert after.clients.keys() == before.clients.keys()
    assert after.clients[0]["none"] is None
    for client, state in before.clients.items():
        for (path, expected), (_, found) in zip(leaves(state), leaves(after.clients[client]), strict=True):
            assert found.equal(expected), path
            assert found.data_ptr() % 64 == 0
    (matrix,) = after.matrices
    assert (matrix.name, matrix.round, matrix.clients) == ("similarity", 6, (11, 0))
    assert matrix.values.tolist() == [[1, 0], [0, 1]]


def test_what_is_no_tensor_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"weights/w in a state is a float"):
        save_checkpoint(tmp_path, Checkpoint(round=1, server={"weights": {"w": 1.0}}, public=None, clients={}), key="k")


def test_a_leftover_of_a_killed_run_does_not_hinder(tmp_path):
    leftover = tmp_path / ".round-000001.tmp"
    leftover.mkdir()
    (leftover / "server.safetensors").write_text("half")
    save_checkpoint(tmp_path, checkpoint(1), key="k")
    assert [path.name for path in tmp_path.iterdir()] == ["round-000001"]


def test_the_latest_ones_are_kept(tmp_path):
    for number in (2, 10, 100):
        save_checkpoint(tmp_path, checkpoint(number), key="k")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["round-000010", "round-000100"][-KEPT:]
    assert latest_checkpoint(tmp_path) == tmp_path / "round-000100"
    assert latest_checkpoint(tmp_path / "none") is None


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def other_round(path):
    path.write_text(json.dumps(json.loads(path.read_text()) | {"round": 8}))


def pickled(path):
    path.write_bytes(b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x8c\x06system\x93.")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((name, damage) for name in ("server.safetensors", "clients.safetensors") for damage in (truncate, flip)),
        ("checkpoint.json", other_round),
        ("checkpoint.json", truncate),
        ("checkpoint.json", lambda path: path.write_text("[]")),
        ("checkpoint.json", lambda path: path.unlink()),
        ("public.safetensors", lambda path: path.unlink()),
        ("server.safetensors", pickled),
    ],
)
def test_a_damaged_one_is_refused_by_name(saved, name, damage):
    damage(saved / name)
    if (saved / name).exists() and name == "checkpoint.json" and damage is truncate:
        truncate(saved / name)  # the first byte that went was the line's end
    with pytest.raises(ConfigError, match=r"the checkpoint .*round-000007 is damaged"):
        load_checkpoint(saved, key="this run")


def test_one_of_another_run_is_refused_by_name(saved):
    with pytest.raises(ConfigError, match=r"round-000007 belongs to another run"):
        load_checkpoint(saved, key="that run")


def test_a_full_disk_leaves_the_one_before(tmp_path):
    first = save_checkpoint(tmp_path, checkpoint(1), key="k")
    large = Checkpoint(round=2, server={"w": torch.zeros(100_000)}, public=None, clients={})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(RunError, match=r"cannot write the checkpoint .*round-000002: .*round-000001 is intact"):
            save_checkpoint(tmp_path, large, key="k")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert latest_checkpoint(tmp_path) == first
    assert load_checkpoint(first, key="k").round == 1
    assert [path.name for path in tmp_path.iterdir()] == ["round-000001"]
