"""Check Terraform files against the schema of the AWS provider, without Terraform and network.

    awscheck.py FILE.tf...

The package cdktf-cdktf-provider-aws has a class for each resource, data source and nested block, generated from the provider's schema.
This program compares arguments, blocks and references to attributes with these classes. It refuses what the provider does not know, a missing
required argument, and a block that is there more often than the provider takes it, as a second service registry.
"""

import ast
import functools
import importlib.util
import pathlib
import re
import sys
from dataclasses import dataclass, field

import hcl2

PACKAGE = "cdktf_cdktf_provider_aws"
# Arguments that Terraform knows in each resource. CDKTF has some of them in each class.
META = {"connection", "count", "depends_on", "for_each", "lifecycle", "provider", "provisioner", "provisioners"}
# A for_each of one element or none.
AT_MOST_ONE = re.compile(r"\? \[1\] : \[\]\W*$")
REFERENCE = re.compile(r"\b((?:data\.|ephemeral\.)?aws_\w+)\.(\w+)(?:\[[^]]*\])?\.(\w+)")


@dataclass
class Argument:
    required: bool
    nested: str | None  # class of the block
    many: bool  # whether the block may be there several times


@dataclass
class Schema:
    """Classes of one resource or data source."""

    config: str  # name of the class of the resource's own arguments
    classes: dict[str, dict[str, Argument]] = field(default_factory=dict)
    attributes: set[str] = field(default_factory=set)


def parse_schema(source: str) -> Schema:
    """Return the schema of a module of the package."""
    schema = Schema("")
    found = [c for c in ast.parse(source).body if isinstance(c, ast.ClassDef)]
    names = {c.name for c in found}
    for c in found:
        bases = " ".join(ast.unparse(b) for b in c.bases)
        resource = re.search(r"\.Terraform(Resource|DataSource)$", bases) is not None
        if bases.endswith(".TerraformMetaArguments"):
            schema.config = c.name
        for f in c.body:
            if not isinstance(f, ast.FunctionDef):
                continue
            if resource and any(ast.unparse(d) == "builtins.property" for d in f.decorator_list):
                schema.attributes.add(f.name.rstrip("_"))
            if f.name == "__init__":
                schema.classes[c.name] = {a.arg.rstrip("_"): argument(a, default, names) for a, default in zip(f.args.kwonlyargs, f.args.kw_defaults)}
    return schema


def argument(a: ast.arg, default: ast.expr | None, names: set[str]) -> Argument:
    kind = ast.unparse(a.annotation)
    # A class is quoted only if it comes later in the module.
    nested = [n for n in re.findall(r"\w+", kind) if n in names]
    return Argument(default is None and a.arg not in META, nested[0] if nested else None, "Sequence" in kind)


@functools.cache
def load_schema(block_type: str) -> Schema | None:
    """Return the schema of aws_lb or data.aws_subnet, or None.

    The package has no ephemeral resources. The provider's aws_secretsmanager_random_password has the arguments of the data source of that name.
    """
    _, dot, name = block_type.rpartition(".")
    kind = "data_" + name if dot else name.removeprefix("aws_")
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None:
        sys.exit(f"awscheck: {PACKAGE} is not installed: tools/deploy/requirements.txt has its version")
    path = pathlib.Path(spec.submodule_search_locations[0], kind, "__init__.py")
    return parse_schema(path.read_text()) if path.exists() else None


def check_body(where: str, body: dict, name: str, schema: Schema) -> list[str]:
    """Return the faults of the body of a resource or block."""
    known, faults = schema.classes[name], []
    present = {k: v for k, v in body.items() if not k.startswith("__") and k not in META and k != "dynamic"}
    for block in body.get("dynamic", []):
        for label, content in block.items():
            if isinstance(content, dict):
                label = label.strip('"')
                if label in known and not known[label].many and not AT_MOST_ONE.search(str(content["for_each"])):
                    faults.append(f"{where}: {label} is taken once, so its for_each must be CONDITION ? [1] : []")
                present[label] = present.get(label, []) + content["content"]
    for key, value in present.items():
        if key not in known or key in META:
            faults.append(f"{where}: no argument or block {key}")
            continue
        blocks = [b for b in value if isinstance(b, dict) and "__is_block__" in b] if isinstance(value, list) else []
        if bool(blocks) != bool(known[key].nested):
            faults.append(f"{where}: {key} is {'a block' if known[key].nested else 'no block'}")
            continue
        if len(blocks) > 1 and not known[key].many:
            faults.append(f"{where}: {key} is taken once, and is there {len(blocks)} times")
        for block in blocks:
            faults += check_body(f"{where}.{key}", block, known[key].nested, schema)
    faults += [f"{where}: {key} is missing" for key, a in known.items() if a.required and key not in present]
    return faults


def check(name: str, text: str) -> list[str]:
    """Return the faults of a file's text."""
    faults = []
    document = hcl2.loads(text)
    for block, prefix in (("resource", ""), ("data", "data."), ("ephemeral", "ephemeral.")):
        for entry in document.get(block, []):
            for quoted, by_name in entry.items():
                if quoted.startswith("__"):
                    continue
                block_type = prefix + quoted.strip('"')
                schema = load_schema(block_type)
                for label, body in by_name.items():
                    if isinstance(body, dict):
                        where = f"{name}: {block_type}.{label.strip(chr(34))}"
                        faults += check_body(where, body, schema.config, schema) if schema else [f"{where}: no such type"]
    # depends_on and comments name a resource without an attribute.
    for block_type, label, attribute in REFERENCE.findall(text):
        schema = load_schema(block_type)
        if schema is None or attribute not in schema.attributes:
            faults.append(f"{name}: {block_type}.{label} has no attribute {attribute}")
    return faults


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: awscheck.py FILE.tf...")
    faults = [f for path in sys.argv[1:] for f in check(path, pathlib.Path(path).read_text())]
    print("\n".join(faults), end="\n" if faults else "")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
