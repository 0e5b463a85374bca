"""What each machine of a cluster has, as Ray tells and as torch sees it there."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedgraph_sim.counts import counted
from fedgraph_sim.engine.placement import Node

TIMEOUT = 60.0
"""Seconds after which a machine that says nothing is left out."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """What a process sees: the devices of torch with its threads, and the versions of packages."""

    devices: tuple[str, ...]
    versions: Mapping[str, str]

    def differences(self, other: "Process") -> str:
        """Return the versions that are not those of `other`."""
        return ", ".join(
            f"{name} {version} (here {other.versions.get(name)})"
            for name, version in self.versions.items()
            if other.versions.get(name) != version
        )


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine of a cluster; without `process` it did not answer, and `error` says why."""

    node: Node
    process: Process | None
    error: str = ""


def this_process() -> Process:
    """Return what this process sees."""
    import torch

    from fedgraph_sim.engine.summary import versions

    gpus = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    names = (f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB" for gpu in gpus)
    return Process(devices=(counted(os.cpu_count() or 1, "core"), *names), versions=versions())


def machines(nodes: Sequence[Node]) -> list[Machine]:
    """Ask every machine, through a process of its own that reserves next to nothing there."""
    ask = ray.remote(num_cpus=0, max_retries=0)(this_process)
    asked = [
        ask.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
            num_gpus=0.0001 if node.gpus >= 1 else 0,  # without a share torch sees no GPU
        ).remote()
        for node in nodes
    ]
    return [_answer(node, reference) for node, reference in zip(nodes, asked, strict=True)]


def _answer(node: Node, reference: "ray.ObjectRef[Process]") -> Machine:
    try:
        return Machine(node=node, process=ray.get(reference, timeout=TIMEOUT))
    except GetTimeoutError:
        return Machine(node=node, process=None, error="busy: no GPU share is free" if node.gpus else "busy")
    except RayError as error:
        return Machine(node=node, process=None, error=str(error).strip().splitlines()[-1])
