"""Algorithms whose client processes die, or hang, when they are told to; actors import them from here."""

import os
import signal
import time
from pathlib import Path

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.algorithms.fedgnn import FedGnn
from fedgraph_sim.algorithms.fedpub import FedPub
from fedgraph_sim.engine.algorithm import Algorithm, client_step

FATAL_ROUNDS = (1, 4)
"""Before the first checkpoint, and after one."""


class Deadly(Algorithm):
    """Kills the process of client 1 inside a call, once in each of the fatal rounds."""

    marks: str

    def round(self, fed, server):
        mark = Path(self.marks) / f"killed-in-{fed.round}"
        if fed.round in FATAL_ROUNDS and not mark.exists():
            mark.touch()
            fed.call(self.die, clients=(1,))
        return super().round(fed, server)

    @client_step
    def die(self, client, message):
        os.kill(os.getpid(), signal.SIGKILL)


class DeadlyFedAvg(Deadly, FedAvg):
    pass


class DeadlyFedPub(Deadly, FedPub):
    pass


class DeadlyFedGnn(Deadly, FedGnn):
    pass


class Dying(FedAvg):
    """Kills the process of client 1 in round 3, whenever it comes there."""

    marks: str

    def round(self, fed, server):
        if fed.round == 3:
            fed.call(self.die, clients=(1,))
        return super().round(fed, server)

    @client_step
    def die(self, client, message):
        os.kill(os.getpid(), signal.SIGKILL)


class DeadlyCoordinator(FedAvg):
    """Kills the coordinator's process once, in round 4."""

    marks: str

    def round(self, fed, server):
        mark = Path(self.marks) / "coordinator-killed"
        if fed.round == 4 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().round(fed, server)


class Patient(FedAvg):
    """Waits in round 4 until somebody says `go`."""

    marks: str

    def round(self, fed, server):
        while fed.round == 4 and not (Path(self.marks) / "go").exists():
            time.sleep(0.1)
        return super().round(fed, server)


class Hanging(FedAvg):
    """Hangs in a call of round 2, of `hanging` clients."""

    marks: str
    hanging: tuple[int, ...] = (1,)

    def round(self, fed, server):
        if fed.round == 2:
            fed.call(self.hang, clients=self.hanging)
        return super().round(fed, server)

    @client_step
    def hang(self, client, message):
        time.sleep(1000)


class AllHanging(Hanging):
    hanging: tuple[int, ...] = (0, 1, 2, 3)
