import pytest

from fedgraph_sim.engine.config import EngineConfig
from fedgraph_sim.engine.placement import MEMORY_PER_ACTOR, Node, pack, place
from fedgraph_sim.errors import ConfigError

GIB = 2**30


def node(cpus=64.0, gpus=0.0, memory=256 * GIB):
    return Node(cpus=cpus, gpus=gpus, memory=memory)


def placed(num_clients, nodes, **engine):
    return place([10] * num_clients, EngineConfig(**engine), nodes)


@pytest.mark.parametrize(
    ("num_clients", "nodes", "engine", "num_actors", "cpus", "gpus"),
    [
        (8, [node(gpus=1.0)], {}, 8, 1, 0.125),
        (3, [node(gpus=1.0), node(gpus=1.0)], {}, 3, 1, 0.5),
        (3, [node(gpus=1.0)], {}, 3, 1, 0.3333),
        (2, [node(gpus=4.0)], {}, 2, 1, 1),
        (4, [node(cpus=4.0)], {}, 4, 1, 0),
        (10, [node(cpus=4.0)], {}, 4, 1, 0),
        (10, [node(cpus=4.0)], {"clients_per_actor": 1}, 10, 0.3333, 0),
        (10, [node(cpus=4.0)], {"clients_per_actor": 3}, 4, 1, 0),
        (3, [node(cpus=4.0)], {"clients_per_actor": 100}, 1, 1, 0),
        (10, [node(cpus=4.0)], {"cpus_per_client": 0.5}, 8, 0.5, 0),
        (10, [node(cpus=4.0)], {"cpus_per_client": 2.0}, 2, 2, 0),
        (3, [node(cpus=2.0)], {"cpus_per_client": 0.6}, 3, 0.6, 0),
        (10, [node()], {"cpus_per_client": 0.0}, 10, 0, 0),
        (10, [node(gpus=2.0)], {"gpus_per_client": 0.5}, 4, 1, 0.5),
        (10, [node(gpus=2.0)], {"gpus_per_client": 0.4}, 4, 1, 0.4),
        (10, [node(gpus=2.0)], {"gpus_per_client": 0.0}, 10, 1, 0),
        (10, [node(gpus=5.0)], {"gpus_per_client": 2.0}, 2, 1, 2),
        (10, [node(memory=5 * MEMORY_PER_ACTOR)], {}, 4, 1, 0),
        (10, [node(cpus=16.0), node(cpus=2.0, gpus=1.0)], {}, 2, 1, 0.5),
        (10, [node(cpus=16.0), node(cpus=2.0, gpus=4.0)], {"gpus_per_client": 0.5}, 2, 1, 0.5),
        (3, [node(gpus=1.0)], {"server_gpus": 0.25}, 3, 1, 0.25),
        (3, [node(gpus=1.0)], {"server_gpus": 0.5}, 3, 1, 0.1666),
        (3, [node(gpus=2.0), node(gpus=1.0)], {"server_gpus": 1.0}, 3, 1, 0.5),
        (4, [node(gpus=1.0)], {"server_gpus": 0.5, "gpus_per_client": 0.25}, 2, 1, 0.25),
        (4, [node(gpus=1.0)], {"server_gpus": 0.5, "gpus_per_client": 0.0}, 4, 1, 0),
    ],
)
def test_actors_and_shares(num_clients, nodes, engine, num_actors, cpus, gpus):
    placement = placed(num_clients, nodes, **engine)
    assert (len(placement.actors), placement.cpus, placement.gpus) == (num_actors, cpus, gpus)
    assert sorted(client for clients in placement.actors for client in clients) == list(range(num_clients))


@pytest.mark.parametrize(
    ("num_clients", "nodes", "engine", "message"),
    [
        (10, [node(gpus=1.0)], {"gpus_per_client": 0.25, "clients_per_actor": 1}, "10 actors asks for 2.5 GPUs, .*4"),
        (3, [node(gpus=2.0)], {"gpus_per_client": 0.6, "clients_per_actor": 1}, "has 2 and takes 2 such actors"),
        (1, [node(gpus=1.0)], {"gpus_per_client": 1.0, "server_gpus": 0.5}, "for 1 actor asks for 1 GPUs"),
        (
            1,
            [node(), node(gpus=8.0)],
            {"server_gpus": 0.5},
            "server_gpus=0.5 is more than the GPUs of the server's machine, 0",
        ),
        (1, [node(gpus=1.0)], {"server_gpus": 2.0}, "server_gpus=2 is more than the GPUs of the server's machine, 1"),
        (1, [node()], {"gpus_per_client": 1.0}, "for 1 actor asks for 1 GPUs, but the cluster has 0"),
        (2, [node(cpus=2.0)], {"cpus_per_client": 2.0, "clients_per_actor": 1}, "asks for 4 CPUs, .* has 2"),
        (1, [node(cpus=2.0), node(cpus=2.0)], {"cpus_per_client": 3.0}, "asks for 3 CPUs, but the cluster has 4 .* 0"),
        (10_001, [node(gpus=1.0, memory=10_000 * GIB)], {"clients_per_actor": 1}, "10001 actors cannot share 1 GPU"),
        (40, [node(memory=8 * GIB)], {"clients_per_actor": 1}, "40 actors, but the memory takes about 16"),
        (
            4,
            [node(cpus=4.0), node(cpus=2.0, gpus=4.0)],
            {"cpus_per_client": 1.0, "gpus_per_client": 1.0, "clients_per_actor": 1},
            "4 actors of 1 CPU and 1 GPU each cannot be placed: .* take 2",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(num_clients, nodes, engine, message):
    with pytest.raises(ConfigError, match=message):
        placed(num_clients, nodes, **engine)


def test_pack_balances_sizes_and_counts():
    assert pack([1, 2, 3, 4], 2) == ((0, 3), (1, 2))
    assert pack([100, 1, 1, 1], 2) == ((0, 3), (1, 2))
    assert pack([5, 4, 3, 2, 1], 1) == ((0, 1, 2, 3, 4),)
    assert pack([1, 1, 1], 3) == ((0,), (1,), (2,))
    assert pack([7] * 7, 3) == pack([7] * 7, 3)


def test_description_says_what_was_chosen_and_why():
    assert placed(3, [node(cpus=4.0)]).describe() == "3 actors of 1 client, 1 CPU each (one client per actor fits)"
    assert placed(5, [node(cpus=2.0, gpus=1.0)]).describe() == (
        "2 actors of 2 to 3 clients, 1 CPU and 0.5 GPU each (as many actors as the CPUs take)"
    )
    assert placed(2, [node()], clients_per_actor=2).describe().startswith("1 actor of 2 clients")
