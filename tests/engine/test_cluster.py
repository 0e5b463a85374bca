import pytest
import ray

from fedgraph_sim.engine.cluster import connect
from fedgraph_sim.errors import ConfigError, RunError


@pytest.mark.parametrize("kind", [Exception, RuntimeError, TimeoutError])
def test_ray_that_does_not_start_is_one_sentence(monkeypatch, kind):
    def late(**options):
        raise kind("The current node timed out during startup.\nMore of it.")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", late)
    with pytest.raises(RunError, match=r"^Ray did not start on this machine: .* startup; free CPUs .* --inline$"):
        connect()


def test_a_cluster_that_is_not_there_is_bad_input(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:1"):
        connect("127.0.0.1:1")


def test_a_cluster_of_this_machine_that_is_not_there_is_bad_input(monkeypatch, tmp_path):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    with pytest.raises(ConfigError, match="address=auto finds no cluster on this machine"):
        connect("auto")
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:1 does not answer"):
        connect("auto")
