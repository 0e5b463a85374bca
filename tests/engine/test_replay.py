"""Programs: a recorded step does for other inputs what the step itself does."""

import torch
from torch import Tensor

from fedgraph_sim.engine.replay import MAX_OPERATIONS, Programs, recorded
from fedgraph_sim.engine.tree import Tree


def step(weights: Tensor, x: Tensor) -> Tree:
    gradient = torch.func.grad(lambda w: (x @ w).square().sum())(weights)
    return {"weights": weights - 0.1 * gradient, "same": x}


def mapped(inputs: Tree) -> Tree:
    result: Tree = torch.vmap(step, in_dims=(None, 0))(inputs["weights"], inputs["x"])
    return {"moved": result, "nothing": None}


def inputs(seed: int, count: int = 3) -> Tree:
    generator = torch.Generator().manual_seed(seed)
    return {"weights": torch.randn(4, generator=generator), "x": torch.randn(count, 5, 4, generator=generator)}


def assert_equal(a: Tree, b: Tree) -> None:
    assert a.keys() == b.keys()
    for name in a["moved"]:
        torch.testing.assert_close(a["moved"][name], b["moved"][name], rtol=0, atol=0)


def test_a_program_gives_what_the_function_gives_for_other_inputs() -> None:
    result, program = recorded(mapped, inputs(0))
    assert program is not None
    assert_equal(result, mapped(inputs(0)))
    for seed in (1, 2):
        assert_equal(program(inputs(seed)), mapped(inputs(seed)))


def test_a_program_sees_what_is_written_into_its_inputs() -> None:
    def move(inputs: Tree) -> Tree:
        view = inputs["x"][0]
        inputs["x"].add_(1)
        return {"moved": {"x": inputs["x"] * 2, "view": view + 0}}

    _, program = recorded(move, inputs(0))
    assert program is not None
    mine, yours = inputs(3), inputs(3)
    assert_equal(program(mine), move(yours))
    torch.testing.assert_close(mine["x"], yours["x"])


def test_what_looks_at_a_value_has_no_program() -> None:
    def branch(inputs: Tree) -> Tree:
        return {"moved": {"x": inputs["x"] if inputs["x"].sum() > 0 else -inputs["x"]}}

    result, program = recorded(branch, inputs(0))
    assert program is None
    assert_equal(result, branch(inputs(0)))
    programs = Programs()
    for sign in (1, -1, 1, -1):
        given = {"x": sign * torch.ones(2)}
        assert programs.run(branch, given, name=("branch",))["moved"]["x"].min() == 1


def test_very_long_programs_are_not_kept() -> None:
    def long(inputs: Tree) -> Tree:
        x = inputs["x"]
        for _ in range(MAX_OPERATIONS):
            x = x + 1
        return {"moved": {"x": x}}

    assert recorded(long, inputs(0))[1] is None


def test_programs_run_from_the_third_time_on_for_each_shape_by_itself() -> None:
    programs = Programs()
    times = []

    def counted(inputs: Tree) -> Tree:
        times.append(len(inputs["x"]))
        return mapped(inputs)

    for count in (3, 7):
        for seed in range(5):
            given = inputs(seed, count)
            assert_equal(programs.run(counted, given, name=("step",)), mapped(given))
    assert times == [3, 3, 7, 7]
    programs.run(counted, inputs(0), name=("other step",))
    assert len(times) == 5
