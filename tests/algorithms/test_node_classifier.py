import torch

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.engine.algorithm import Client
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream


def test_each_local_epoch_has_its_own_dropout(path_graphs, make_federation):
    algorithm = FedAvg(hidden=8, lr=0.05, local_epochs=3)
    graph = GraphTensors.of(path_graphs[0], torch.device("cpu"))
    weights = algorithm.initial_weights(make_federation(algorithm, path_graphs))
    stream = RandomStream(torch.tensor(5))
    client = Client(graph=graph, random=stream, state={"optimizer": algorithm.optimizer.init(weights)})
    trained = algorithm.fit(client, weights)
    parameters = {name: leaf.clone().requires_grad_() for name, leaf in weights.items()}
    optimizer = torch.optim.Adam(parameters.values(), lr=0.05, weight_decay=algorithm.weight_decay)
    for epoch in range(3):
        optimizer.zero_grad()
        logits = algorithm.network(parameters, graph, stream.fold(epoch))
        torch.nn.functional.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask]).backward()
        optimizer.step()
    for name, parameter in parameters.items():
        torch.testing.assert_close(trained[name], parameter.detach(), rtol=1e-5, atol=1e-5)
        assert client.state["weights"][name] is trained[name]


def test_evaluation_draws_nothing(path_graphs, make_federation):
    algorithm = FedAvg(hidden=8)
    fed = make_federation(algorithm, path_graphs)
    algorithm.setup(fed)
    first, second = (fed.call(algorithm.evaluate).tree for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert first["train_accuracy"][:, 1].tolist() == [2, 1]
