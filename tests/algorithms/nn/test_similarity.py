import pytest
import torch

from fedgraph_sim.algorithms.nn.similarity import cosine_similarity, same_community


def test_cosine_of_vectors_in_parts():
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(4, 3, 5, generator=generator), torch.randn(4, 7, generator=generator)
    whole = torch.cat([first.flatten(1), second], dim=1)
    expected = torch.nn.functional.cosine_similarity(whole[:, None], whole[None], dim=2)
    torch.testing.assert_close(cosine_similarity([first, second]), expected)


def test_a_zero_vector_resembles_none():
    similarity = cosine_similarity([torch.tensor([[3, 4], [0, 0], [-3, -4]])])
    torch.testing.assert_close(similarity, torch.tensor([[1.0, 0.0, -1.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 1.0]]))


def test_vectors_of_any_length_count_the_same():
    tiny = torch.tensor([[1e-15, 0.0], [1.0, 1.0]])
    assert cosine_similarity([tiny])[0, 1].item() == pytest.approx(0.5**0.5, rel=1e-4)


def test_communities_are_groups_of_similar_clients():
    similarity = torch.full((5, 5), 0.1)
    for group in ([0, 3], [1, 2, 4]):
        for i in group:
            similarity[i, group] = 0.9
    similarity.fill_diagonal_(1)
    together = same_community(similarity, 2)
    assert together.int().tolist() == [
        [1, 0, 0, 1, 0],
        [0, 1, 1, 0, 1],
        [0, 1, 1, 0, 1],
        [1, 0, 0, 1, 0],
        [0, 1, 1, 0, 1],
    ]
    assert same_community(similarity, 1).all()


@pytest.mark.parametrize("num_clients", [1, 2, 3])
def test_no_more_clients_than_communities_stay_alone(num_clients):
    assert torch.equal(same_community(torch.ones(num_clients, num_clients), 3), torch.eye(num_clients).bool())
