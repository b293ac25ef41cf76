"""The AWS provider's schema, rebuilt from the typed bindings that cdktf published; the stand-in provider serves it.

It knows each argument, its type and whether it must be given, and what AWS computes; it knows no rules of values.
The result is derived from MPL-2.0 code: it is made where the tests run and never committed.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PRIMITIVE = {"string": "string", "number": "number", "boolean": "bool"}
_ENTRY = (
    r"^\s{%d}(\w+): \{\n\s+value: (.*?),\n\s+isBlock: (true|false),\n"
    r"\s+type: \"(\w+)\",\n\s+storageClassType: \"(\w+)\",\n"
)
_TOP, _INNER = (re.compile(_ENTRY % depth, re.MULTILINE | re.DOTALL) for depth in (12, 8))
_INTERFACE = re.compile(r"^export interface (\w+)([^{]*)\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_PROPERTY = re.compile(r"docs(?:/(?:resources|data-sources)/\w+)?#(\w+) .*?readonly (\w+)(\??):", re.DOTALL)
_TO_HCL = re.compile(r"^function (\w+)ToHclTerraform\(struct\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_COMPUTED = re.compile(
    r"// (\w+) - computed: true, optional: false, required: false\n\s+get \w+\(\) \{\n\s+return ([^;]+);"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Binding:
    """One type's files: its class, what each of its structs holds, and which of that must be given."""

    class_text: str
    functions: dict[str, str]
    required: dict[str, dict[str, bool]]
    arguments: str  # name of the struct with the type's own arguments

    def block(self, body: str, required: dict[str, bool], entry: re.Pattern[str]) -> dict[str, Any]:
        """A schema block from the text that turns a struct into HCL."""
        attributes: dict[str, Any] = {}
        blocks: dict[str, Any] = {}
        for name, value, is_block, kind, storage in entry.findall(body):
            must = required.get(name, False)
            inner = next((f for f in re.findall(r"(\w+?)ToHclTerraform", value) if f in self.functions), None)
            if is_block == "true" and inner:
                blocks[name] = self._nested(name, value, kind, inner, must)
            else:
                attributes[name] = _attribute(name, _type_of(kind, storage), must)
        return {"attributes": attributes, "block_types": blocks}

    def _nested(self, name: str, value: str, kind: str, inner: str, must: bool) -> dict[str, Any]:
        single = "listMapper" not in value
        mode = kind if kind in ("list", "set") else "list" if single and kind != "struct" else "single"
        mode = "single" if name == "timeouts" else mode
        struct = self.required.get(inner[0].upper() + inner[1:], {})
        nested: dict[str, Any] = {"nesting_mode": mode, "block": self.block(self.functions[inner], struct, _INNER)}
        if mode != "single":
            nested |= ({"max_items": 1} if single else {}) | ({"min_items": 1} if must else {})
        return nested


def schema_of(package: Path, name: str, *, is_data: bool = False) -> dict[str, Any]:
    """The schema of one type ('provider' for the provider's own). ValueError if the bindings have none."""
    binding = _read(package, name, is_data=is_data)
    found = re.search(r"synthesizeHclAttributes\(\) \{\n(.*?)\n    \}\n", binding.class_text, re.DOTALL)
    block = binding.block(found[1] if found else "", binding.required[binding.arguments], _TOP)
    for attribute, answer in _COMPUTED.findall(binding.class_text):
        block["attributes"].setdefault(attribute, {"type": _computed_type(answer), "computed": True})
    if "get id()" in binding.class_text:
        block["attributes"].setdefault("id", {"type": "string", "computed": True})
    _without_dynamic(block)
    return {"version": 0, "block": block}


def schemas(package: Path, types: list[str]) -> dict[str, Any]:
    """All of `types` (data sources as 'data.aws_x') in the shape of `terraform providers schema -json`."""
    data = [t.removeprefix("data.") for t in types if t.startswith("data.")]
    return {
        "provider": schema_of(package, "provider"),
        "resource_schemas": {t: schema_of(package, t) for t in types if not t.startswith("data.")},
        "data_source_schemas": {t: schema_of(package, t, is_data=True) for t in data},
    }


def slug_of(name: str, *, is_data: bool = False) -> str:
    """The bindings' folder of a type."""
    return (
        name if name == "provider" else ("data-aws-" if is_data else "") + name.removeprefix("aws_").replace("_", "-")
    )


def _read(package: Path, name: str, *, is_data: bool) -> _Binding:
    folder = package / "lib" / slug_of(name, is_data=is_data)
    if not folder.is_dir():
        raise ValueError(f"{name}: the bindings have no {folder.name}")
    script = "".join(p.read_text() for p in sorted(folder.glob("*.js"), key=lambda p: p.name == "index.js"))
    declared = _INTERFACE.findall("".join(p.read_text() for p in folder.glob("*.d.ts")))
    marker = f'tfResourceType = "{"aws" if name == "provider" else name}"'
    own = [
        n for n, parents, _ in declared if n.endswith("Config") and "extends cdktf.TerraformMetaArguments" in parents
    ]
    return _Binding(
        class_text=script[script.rindex("class ", 0, script.index(marker)) :],
        functions=dict(_TO_HCL.findall(script)),
        required={n: {p: not mark for p, _, mark in _PROPERTY.findall(body)} for n, _, body in declared},
        arguments="AwsProviderConfig" if name == "provider" else own[0],
    )


def _type_of(kind: str, storage: str) -> Any:
    if kind == "simple" and storage in _PRIMITIVE:
        return _PRIMITIVE[storage]
    found = re.fullmatch(r"(string|number|boolean)(List|Map|Set)?", storage)
    return [kind, _PRIMITIVE[found[1]]] if found and kind in ("list", "set", "map") else "dynamic"


def _attribute(name: str, kind: Any, must: bool) -> dict[str, Any]:
    if must:
        return {"type": kind, "required": True}
    # whether AWS also computes an optional one is not kept by the bindings, but for these two
    return {"type": kind, "optional": True} | ({"computed": True} if name in ("id", "tags_all") else {})


def _computed_type(answer: str) -> Any:
    if answer.startswith("this.getListAttribute"):
        return ["list", "string"]
    found = re.match(r"this\.get(String|Number|Boolean)Attribute", answer)
    return _PRIMITIVE[found[1].lower()] if found else "dynamic"


def _without_dynamic(block: dict[str, Any], *, in_set: bool = False) -> None:
    """Engines refuse attributes of dynamic type inside set blocks."""
    for attribute in block["attributes"].values():
        if in_set and attribute["type"] == "dynamic":
            attribute["type"] = "string"
    for nested in block["block_types"].values():
        _without_dynamic(nested["block"], in_set=in_set or nested["nesting_mode"] == "set")
