"""What travels to a cluster and what comes back."""

import pytest

from fedgraph_sim.configuration import load_config
from fedgraph_sim.engine.launch import Folders, load_partition
from fedgraph_sim.errors import ConfigError, RunError
from fedgraph_sim.remote import bundle as bundles
from fedgraph_sim.remote import parcel
from fedgraph_sim.remote.bundle import bundle, upload_size


@pytest.fixture
def store(tmp_path):
    config = load_config(None, {"clients": 3}, ("dataset.num_nodes=300",))
    folders = Folders(run=tmp_path, cache=tmp_path / "cache", data=None)
    return config, load_partition(config, folders)[0]


def test_a_bundle_holds_the_package_the_configuration_and_the_partition(store):
    config, partition = store
    with bundle(config, partition) as folder:
        assert {path.name for path in folder.iterdir()} == {"fedgraph_sim", "config.toml", "store"}
        assert load_config(folder / "config.toml", {}, ()) == config
        assert (folder / "fedgraph_sim" / "recipes" / "fedpub" / "paper.toml").is_file()
        assert not list(folder.rglob("__pycache__"))
        assert not list(folder.rglob(".git"))
        assert {path.name for path in (folder / "store").iterdir()} == {
            path.name for path in partition.folder.iterdir()
        }
    assert not folder.exists()
    with bundle() as folder:
        assert {path.name for path in folder.iterdir()} == {"fedgraph_sim"}


def test_a_partition_that_is_too_large_does_not_travel(store, monkeypatch):
    _, partition = store
    size = upload_size(partition)
    assert size == sum(path.stat().st_size for path in partition.folder.iterdir())
    monkeypatch.setattr(bundles, "MAX_UPLOAD", size - 1)
    with pytest.raises(ConfigError, match="name its folder there with --data-dir"):
        upload_size(partition)


@pytest.fixture
def run_folder(tmp_path):
    folder = tmp_path / "run"
    (folder / "checkpoints" / "round-000001").mkdir(parents=True)
    (folder / "summary.json").write_text("{}\n")
    (folder / "checkpoints" / "round-000001" / "server.safetensors").write_bytes(bytes(range(256)) * 1000)
    return folder


def test_a_folder_comes_back_as_it_was_through_a_log(run_folder, tmp_path):
    text = f"starting\nwarning: something\n{parcel.pack(run_folder)}\nbye\n"
    parcel.unpack(text, tmp_path / "back")
    before = {path.relative_to(run_folder): path.read_bytes() for path in run_folder.rglob("*") if path.is_file()}
    back = tmp_path / "back"
    assert {path.relative_to(back): path.read_bytes() for path in back.rglob("*") if path.is_file()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"run", "back"}


DAMAGES = {
    "end lost": lambda text: text[:-100],
    "letter changed": lambda text: text.replace("A", "B", 1),
    "letter lost": lambda text: text.replace("UEs", "UE", 1),
    "no ASCII": lambda text: text.replace("UEs", "UÉs", 1),
    "nothing": lambda _: "oops",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_half_a_folder_is_none(run_folder, tmp_path, damage):
    with pytest.raises(RunError, match="did not come back whole"):
        parcel.unpack(damage(parcel.pack(run_folder)), tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_what_cannot_be_sent_is_named(run_folder, tmp_path, monkeypatch):
    with pytest.raises(RunError, match="there is no folder"):
        parcel.pack(tmp_path / "none")
    monkeypatch.setattr(parcel, "MAX_PARCEL", 1000)
    with pytest.raises(RunError, match="copy it from the head"):
        parcel.pack(run_folder)
