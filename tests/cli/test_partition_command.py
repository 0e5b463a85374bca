import re


def test_partition_shows_every_client_and_keeps_the_store(invoke, own_graph, tmp_path):
    options = own_graph(["train", "val", "train", "test"])
    result = invoke("partition", *options)
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines() if re.match(r" +\d ", line)]
    #               client nodes edges train val test classes isolated
    assert rows == [["0", "2", "2", "1", "1", "0", "2", "0"], ["1", "2", "2", "1", "0", "1", "2", "0"]]
    assert "folder, 4 nodes, 6 directed edges, 2 features, 2 classes; 2 clients by column" in result.stdout
    assert "edges lost: 2 (33.3 %)" in result.stdout
    store = re.search(r"Written: (\S+)", result.stdout)[1]
    assert f"Reused: {store}" in invoke("partition", *options).stdout
    assert {path.name for path in tmp_path.iterdir()} == {"graph"}


def test_run_uses_the_partition(invoke, own_graph, cache):
    options = own_graph(["train", "test", "train", "test"])
    assert invoke("partition", *options).exit_code == 0
    stores = set((cache / "partitions").iterdir())
    assert invoke("run", "--inline", "--rounds", "1", *options).exit_code == 0
    assert set((cache / "partitions").iterdir()) == stores
