"""`elastic init` writes a policy that loads, and never over another."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from elastic.cli import app
from elastic.policy_draft import Site, draft_policy
from elastic.policy_file import load_policy
from tests.builders_policy import AT, complaints_of


def run(*words: str, answers: str | None = None) -> Result:
    return CliRunner().invoke(app, ["init", *words], input=answers)


def test_flags_make_a_policy_that_check_takes(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "site"
    flags = ("--nodes", "12", "--gpus-per-node", "4", "--gpu-model", "l40s", "--time-zone", "Asia/Tokyo",
             "--country", "JP", "--cloud", "aws", "--cluster-kind", "kubernetes",
             "--max-cloud-nodes", "6", "--usd-per-day", "250",
             "--team", "vision", "--team", "NO")  # fmt: skip
    result = run(str(folder), *flags)
    assert result.exit_code == 0, result.stderr
    assert f"elastic policy check {folder / 'policy.yaml'}" in result.stdout
    policy = load_policy(folder / "policy.yaml", at=AT)
    assert policy.pools["site"].nodes == 12
    assert policy.pools["cloud"].max_nodes == 6
    assert set(policy.teams) == {"vision", "NO"}
    assert policy.clusters["main"].kind == "kubernetes"
    assert policy.money.usd_per_day == 250
    assert json.loads((folder / "schema.json").read_text())["title"]
    check = CliRunner().invoke(app, ["policy", "check", str(folder / "policy.yaml"), "--at", "2026-12-01"])
    assert check.exit_code == 0
    assert "ok (1 warning)" in check.stdout  # the account is not described yet
    assert "no 'aws' under clouds: it is simulated" in check.output


def test_it_asks_for_what_no_flag_gives_and_asks_again_after_a_wrong_answer(tmp_path: Path) -> None:
    answers = "none\nXX\nDE-BY\n0\n3\n8\na100\nCET\nEurope/Berlin\nslurm\nlab,desk\n"
    result = run(str(tmp_path), answers=answers)
    assert result.exit_code == 0, result.stderr
    policy = load_policy(tmp_path / "policy.yaml", at=AT)
    assert policy.pools["site"].nodes == 3
    assert "cloud" not in policy.pools
    assert not policy.job_class("batch").may_burst
    assert set(policy.teams) == {"lab", "desk"}
    assert "write Europe/Paris" in result.stderr


def test_defaults_ask_nothing(tmp_path: Path) -> None:
    result = run(str(tmp_path), "--defaults", "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["policy"] == str(tmp_path / "policy.yaml")


def test_an_existing_policy_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("mine")
    result = run(str(tmp_path), "--defaults")
    assert result.exit_code == 2
    assert "exists and stays as it is" in result.stderr
    assert (tmp_path / "policy.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    "flags",
    [
        ("--time-zone", "EST"),
        ("--country", "Atlantis"),
        ("--cluster-kind", "pbs"),
        ("--team", "a b"),
        ("--nodes", "0"),
        ("--gpu-model", " "),
    ],
)
def test_a_flag_that_makes_no_sense_is_refused_and_nothing_is_written(tmp_path: Path, flags: tuple[str, ...]) -> None:
    result = run(str(tmp_path / "site"), "--defaults", *flags)
    assert result.exit_code == 2
    assert result.stderr
    assert not (tmp_path / "site").exists()


def test_no_answer_and_no_flags_is_told(tmp_path: Path) -> None:
    result = run(str(tmp_path / "site"), answers="")
    assert result.exit_code == 2
    assert "--defaults" in result.stderr


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "site").write_text("")
    result = run(str(tmp_path / "site"), "--defaults")
    assert result.exit_code == 2


@pytest.mark.parametrize("word", ["true", "1e3", "a: b", "#x", "12", "null", "*x", 'say "hi"', "数据"])
def test_any_name_survives_the_draft(word: str) -> None:
    site = Site(
        nodes=2, gpus_per_node=8, gpu_model=word, time_zone="UTC", country=None, cluster_kind="sim", cloud=word,
        max_cloud_nodes=1, teams=("one",), usd_per_day=12.5,
    )  # fmt: skip
    assert [c for c in complaints_of(draft_policy(site)) if "it is simulated" not in str(c)] == []
