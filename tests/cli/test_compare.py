import csv
import io

import pytest


@pytest.fixture
def runs(invoke):
    small = ("--inline", "--set", "dataset.num_nodes=300", "--clients", "3", "--rounds", "2")
    for algorithm in ("local", "fedavg"):
        assert invoke("run", *small, "--algorithm", algorithm, "--name", algorithm).exit_code == 0


def test_runs_beside_each_other(invoke, runs):
    result = invoke("compare", "runs/local", "runs/fedavg")
    assert result.exit_code == 0, result.output
    assert [line.split("|")[1].strip() for line in result.stdout.splitlines()[2:4]] == ["local", "fedavg"]
    (first, second) = csv.DictReader(io.StringIO(invoke("compare", "runs", "--format", "csv").stdout))
    assert (first["algorithm"], second["algorithm"], first["seeds"]) == ("fedavg", "local", "1")


def test_a_table_for_a_paper(invoke, runs):
    result = invoke("table", "runs", "--columns", "dataset", "--format", "latex")
    assert result.exit_code == 0, result.output
    assert "algorithm & csbm \\\\" in result.stdout
    assert result.stdout.count("\\textbf{") == 1


def test_a_report_lies_in_the_folder_of_its_run_or_where_it_is_wanted(invoke, runs, tmp_path):
    result = invoke("report", "runs/local")
    assert result.stdout == "Report: runs/local/report.html\n"
    assert (tmp_path / "runs" / "local" / "report.html").stat().st_size > 50_000
    assert invoke("report", "runs/local", "runs/fedavg", "--html", "both.html").exit_code == 0
    assert "<h1>2 runs</h1>" in (tmp_path / "both.html").read_text()
    assert invoke("run", "--inline", "--rounds", "1", "--name", "local", "--force").exit_code == 0, (
        "a report is a run's"
    )


@pytest.mark.parametrize("command", ["report", "compare", "table"])
@pytest.mark.parametrize(
    ("path", "message"),
    [("nothing", "does not exist"), (".", "neither a run folder nor a folder of run folders")],
)
def test_what_is_no_run_is_refused(invoke, command, path, message):
    result = invoke(command, path)
    assert result.exit_code == 2
    assert message in result.output


def test_a_page_that_cannot_be_written_is_an_error_of_one_sentence(invoke, runs):
    result = invoke("report", "runs/local", "--html", "nowhere/page.html")
    assert result.exit_code == 2
    assert "cannot write nowhere/page.html" in result.output
