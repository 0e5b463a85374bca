import os

import pytest

from fedgraph_sim.engine.checks import check_run_folder, check_writable
from fedgraph_sim.errors import ConfigError


def write(folder, *names):
    folder.mkdir()
    for name in names:
        (folder / name).write_text("")
    return folder


def test_a_new_folder_is_fine(tmp_path):
    check_run_folder(tmp_path / "runs" / "a", force=False)
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_exists_needs_force(tmp_path):
    folder = write(tmp_path / "run", "config.toml", "summary.json", "events.out.tfevents.1.host.2.0")
    with pytest.raises(ConfigError, match="exists; choose another --name or --out, or replace it with --force"):
        check_run_folder(folder, force=False)
    check_run_folder(folder, force=True)


@pytest.mark.parametrize("names", [(), ("summary.json",), ("config.toml", "thesis.tex"), ("config.toml", "a.parquet")])
def test_force_spares_a_folder_that_is_no_run_folder(tmp_path, names):
    folder = write(tmp_path / "precious", *names)
    with pytest.raises(ConfigError, match="so --force does not replace"):
        check_run_folder(folder, force=True)


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file is a file; choose another folder"):
        check_writable(tmp_path / "file" / "runs" / "a")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="no permission"):
        check_writable(tmp_path / "runs")
