"""The shape of the project, held by a machine: sizes, names, leftovers, and that what the READMEs show runs."""

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
from io import StringIO
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[1]
ROOMS = ("elastic", "forecast", "providers", "policies", "benchmarks", "tests")
MAX_LINES, MAX_TEST_LINES, MAX_FUNCTION_LINES = 350, 500, 50
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager"}
LINE_LIMIT_S = 120
NOT_USED_YET: set[str] = set()
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
READMES = [
    path for path in (ROOT / "README.md", *(ROOT / room / "README.md" for room in ROOMS)) if path.exists()
]  # fmt: skip
TEXTS = [
    path
    for room in (".", *ROOMS)
    for kind in ("*.py", "*.md", "*.toml", "*.yaml", "*.yml", "*.html", "Makefile")
    for path in ((ROOT / room).glob(kind) if room == "." else (ROOT / room).rglob(kind))
]


def name(path):
    return str(path.relative_to(ROOT))


def test_the_rooms_are_found():
    assert len(SOURCES) > 100
    assert len(READMES) >= 2


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_file_is_short_and_says_what_it_is_for(path):
    text = path.read_text()
    most = MAX_TEST_LINES if "tests" in path.relative_to(ROOT).parts else MAX_LINES
    assert len(text.splitlines()) <= most
    tree = ast.parse(text)
    assert ast.get_docstring(tree) or not tree.body, "no docstring"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= MAX_FUNCTION_LINES, f"{node.name} has {lines} lines"


@pytest.mark.parametrize("path", [p for p in SOURCES if p.parts[len(ROOT.parts)] != "tests"], ids=name)
def test_what_others_may_call_says_what_it_does(path):
    bare = [
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert bare == []


def test_no_module_has_a_name_that_says_nothing():
    vague = [name(p) for p in SOURCES if {p.stem, *p.relative_to(ROOT).parts[:-1]} & VAGUE]
    assert vague == []


def test_nothing_is_left_over():
    leftover = re.compile(r"\b(FIX" + r"ME|TO" + r"DO|XX" + r"X)\b")
    found = [name(p) for p in TEXTS if leftover.search(p.read_text(errors="replace"))]
    assert found == []


def test_every_test_is_a_sentence():
    short = [
        f"{name(path)}: {node.name}"
        for path in SOURCES
        if path.name.startswith("test_")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and node.name.count("_") < 2
    ]
    assert short == []


def test_every_dependency_has_its_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    for dependency in wanted:
        (line,) = [text for text in lines if f'"{dependency}"' in text]
        assert re.search(r"#\s+\S+ \S+", line), f"{dependency} has no reason"


def test_every_dependency_is_used():
    """By its import name where that differs."""
    imports = {"ruamel.yaml": "ruamel", "chinesecalendar": "chinese_calendar", "pyarrow": "pyarrow", "tzdata": ""}
    texts = "\n".join(p.read_text() for p in SOURCES)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for dependency in project["dependencies"]:
        package = re.split(r"[<>=~ ]", dependency)[0]
        module = imports.get(package, package)
        if package == "pyarrow":
            assert "parquet" in texts  # pandas imports it by itself
        elif module:
            used = re.search(rf"^\s*(from|import) {re.escape(module)}\b", texts, re.MULTILINE)
            assert bool(used) != (package in NOT_USED_YET), package


# READMEs


def blocks(path):
    """(language, text) of every fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", READMES, ids=name)
def test_every_yaml_block_of_a_readme_can_be_read(path):
    for language, text in blocks(path):
        if language in ("yaml", "yml"):
            assert YAML(typ="safe", pure=True).load(StringIO(text)) is not None, text


@pytest.mark.parametrize("path", READMES, ids=name)
def test_every_link_of_a_readme_leads_to_a_file(path):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


def command_lines(path):
    """Every `elastic ...` line as its words, without comments."""
    for language, text in blocks(path):
        if language in ("", "sh", "bash", "console"):
            for line in text.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True) if re.match(r"\s*(\$ )?(\S+/)?elastic ", line) else []
                if words:
                    yield words[1:] if words[0] == "$" else words


def runs_here(words):
    """Whether the line ends by itself on what is here: not the service, nothing from outside the project."""
    return words[1] != "run" and not any(w.startswith("..") for w in words)


def elastic(words, folder):
    return subprocess.run(
        [sys.executable, "-m", "elastic", *words], cwd=folder, capture_output=True, text=True, timeout=LINE_LIMIT_S,
        check=False, env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("path", READMES, ids=name)
def test_every_command_line_of_a_readme_runs_in_order(path, tmp_path):
    (tmp_path / "policies").symlink_to(ROOT / "policies")
    for words in command_lines(path):
        if runs_here(words):
            done = elastic(words[1:], tmp_path)
            assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
            assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_command_lines_that_cannot_run_here_name_commands_and_options_that_exist(tmp_path):
    for path in READMES:
        for words in command_lines(path):
            if runs_here(words):
                continue
            command = [w for w in words[1:3] if re.fullmatch(r"[a-z]+", w)]
            done = elastic([*command[:1], "--help"], tmp_path)
            if "COMMAND" in done.stdout:
                done = elastic([*command, "--help"], tmp_path)
            assert done.returncode == 0, (words, done.stderr)
            for option in [w.split("=")[0] for w in words if w.startswith("--")]:
                assert option in done.stdout, (words, option)
