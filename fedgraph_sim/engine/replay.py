"""Programs: what a batched step did to its tensors, written down once and then done again without the step's Python.

A batched step is a pure function of tensors, so that its list of tensor operations depends on the shapes alone. Doing
the list again costs microseconds per operation, where the transforms that led to it (``vmap`` of ``grad`` of a model)
cost milliseconds per step.
"""

import operator
from collections.abc import Callable
from itertools import count
from typing import Any

from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.weak import WeakTensorKeyDictionary

from fedgraph_sim.engine.tree import Tree, leaves
from fedgraph_sim.engine.tree import tree_map as map_leaves

MAX_OPERATIONS = 5000
"""Longer programs (thousands of local epochs) are not kept: they gain nothing and their text takes seconds to build."""

Program = Callable[[Tree], Tree]


class Programs:
    """The programs of the steps of one batch of clients."""

    def __init__(self) -> None:
        self._seen: set[tuple[Any, ...]] = set()
        self._programs: dict[tuple[Any, ...], Program | None] = {}

    def run(self, function: Program, inputs: Tree, *, name: tuple[Any, ...]) -> Tree:
        """Return ``function(inputs)``; `name` says what the function is. What is asked for again is written down."""
        key = (*name, *_signature(inputs))
        if key in self._programs:
            return (self._programs[key] or function)(inputs)
        if key not in self._seen:  # a batch of sampled clients may never come back
            self._seen.add(key)
            return function(inputs)
        result, self._programs[key] = recorded(function, inputs)
        return result


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down every tensor operation, from the registered inputs to the registered outputs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = Graph()
        self.root = nn.Module()
        self.faithful = True
        self._nodes = WeakTensorKeyDictionary()  # an intermediate result is freed as early as it is without a recorder

    def input(self, tensor: Tensor) -> None:
        """Register what the program will be given."""
        self._nodes[tensor] = self.graph.placeholder(f"input_{len(self.graph.nodes)}")

    def node(self, value: Any) -> Any:
        """Return what stands for a tensor in the program: a result, or a constant, which is kept."""
        if not isinstance(value, Tensor):
            return value
        if value not in self._nodes:
            name = f"constant_{len(self.graph.nodes)}"
            self.root.register_buffer(name, value)
            self._nodes[value] = self.graph.get_attr(name)
        return self._nodes[value]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        inputs = tree_map(self.node, (args, kwargs))
        result = func(*args, **kwargs)
        node = self.graph.call_function(func, *inputs)
        self._enter(node, result)
        return result

    def _enter(self, node: Node, result: Any) -> None:
        if isinstance(result, Tensor):
            self._nodes[result] = node
        elif isinstance(result, tuple | list):
            for place, part in enumerate(result):
                self._enter(self.graph.call_function(operator.getitem, (node, place)), part)
        elif result is not None:
            self.faithful = False  # a value that left the tensors may decide what comes next


def recorded(function: Program, inputs: Tree) -> tuple[Tree, Program | None]:
    """Return ``function(inputs)``, and a program that gives the same for other inputs of the same shapes.

    There is no program where a value left the tensors on the way, as by ``bool(tensor)``, or if it is too long.
    """
    recorder = _Recorder()
    for _, leaf in leaves(inputs):
        recorder.input(leaf)
    with recorder:
        result = function(inputs)
    if not recorder.faithful or len(recorder.graph.nodes) > MAX_OPERATIONS:
        return result, None
    recorder.graph.output([recorder.node(leaf) for _, leaf in leaves(result)])
    recorder.graph.eliminate_dead_code()
    module = GraphModule(recorder.root, recorder.graph)
    numbers = count()
    places = map_leaves(lambda leaf: next(numbers), result)

    def program(inputs: Tree) -> Tree:
        outputs = module(*(leaf for _, leaf in leaves(inputs)))
        return map_leaves(lambda place: outputs[place], places)

    return result, program


def _signature(tree: Tree) -> tuple[Any, ...]:
    """Return what a program depends on: the places, shapes, types and devices of a tree's leaves."""
    return tuple((path, leaf.shape, leaf.dtype, leaf.device) for path, leaf in leaves(tree))
