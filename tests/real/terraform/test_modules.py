"""Every module by itself: format, arguments, its own tests, and the example in its README."""

import re

import pytest

from tests.real.terraform.engine import MODULES, SOURCES, resources

HCL = re.compile(r"^```hcl\n(.*?)^```", re.DOTALL | re.MULTILINE)
PROVIDER = """
provider "aws" {
  region = "us-east-1"
}
"""


def example_of(module):
    (block,) = HCL.findall((SOURCES / "modules" / module / "README.md").read_text())
    return block


def test_all_files_have_the_format_of_the_engine(engine):
    engine.run(engine.tree, "fmt", "-check", "-diff", "-recursive")


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_valid_and_its_own_tests_pass(engine, module):
    folder = engine.tree / "modules" / module
    engine.init(folder)
    engine.run(folder, "validate", "-no-color")
    told = engine.run(folder, "test", "-no-color")
    runs = (folder / "tests" / "inputs.tftest.hcl").read_text().count("\nrun ")
    assert f"{runs} passed, 0 failed" in told, told


def planned_examples(engine, name, *, more=""):
    """Plan of a root with the examples of all READMEs; `more` is a line added to each call."""
    folder = engine.tree / "examples" / name
    folder.mkdir()
    calls = "".join(example_of(m).replace('  owner = "desk"\n', f'  owner = "desk"\n{more}') for m in MODULES)
    (folder / "main.tf").write_text(PROVIDER + calls)
    engine.init(folder)
    engine.run(folder, "plan", "-no-color", "-input=false", "-out=all.tfplan")
    return folder, engine.shown(folder, "all.tfplan")["planned_values"]


def test_the_example_of_every_readme_can_be_planned(engine):
    folder, planned = planned_examples(engine, "readmes")
    engine.run(folder, "fmt", "-check", "-diff")
    made = [m["address"] for m in planned["root_module"]["child_modules"]]
    assert sorted(made) == sorted(f"module.{m.replace('-', '_')}" for m in MODULES)


def test_tags_of_the_caller_are_taken_but_cannot_move_the_border(engine, schema):
    line = '  tags  = { "elastic:made-by" = "controller", "elastic:owner" = "others", team = "x" }\n'
    _, planned = planned_examples(engine, "forged", more=line)
    border = {"elastic:made-by": "terraform", "elastic:owner": "desk", "team": "x"}
    tagged = [r for r in resources(planned) if "tags" in schema["resource_schemas"][r["type"]]["block"]["attributes"]]
    assert len({r["address"].split(".")[1] for r in tagged}) == len(MODULES)
    assert [r["address"] for r in tagged if not border.items() <= (r["values"]["tags"] or {}).items()] == []


def test_an_argument_that_does_not_exist_is_caught(engine, tmp_path):
    (tmp_path / "main.tf").write_text('resource "aws_sqs_queue" "q" {\n  nam = "x"\n}\n')
    engine.init(tmp_path)
    told = engine.run(tmp_path, "validate", "-no-color", "-json", codes=(1,))
    assert "Unsupported argument" in told


def declared(module, kind):
    """Text of each variable or output, by name."""
    text = "".join(p.read_text() for p in sorted((SOURCES / "modules" / module).glob("*.tf")))
    return dict(re.findall(rf'^{kind} "(\w+)" {{\n(.*?)^}}', text, re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("module", [*MODULES, "controller-role/policy"])
def test_inputs_and_outputs_say_what_they_are(module):
    for kind in ("variable", "output"):
        found = declared(module, kind)
        assert found
        assert [name for name, body in found.items() if not re.search(r'^  description = ".{10,}"$', body, re.M)] == []


@pytest.mark.parametrize("module", MODULES)
def test_every_link_of_a_readme_leads_to_a_file(module):
    readme = SOURCES / "modules" / module / "README.md"
    links = re.findall(r"\]\((?!https?:)([^)#]+)", readme.read_text())
    assert [link for link in links if not (readme.parent / link).exists()] == []


def test_the_table_names_every_module():
    text = (SOURCES / "README.md").read_text()
    assert [m for m in MODULES if f"| [{m}](modules/{m}/)" not in text] == []
    assert all((SOURCES / link).exists() for link in re.findall(r"\]\((?!https?:)([^)#]+)", text))
