#!/usr/bin/env python3
"""The public API of the library, one line per item: compared with zaro/public-api.txt, or written to it.

    scripts/public-api.py           says what differs; exit code 1 if anything does
    scripts/public-api.py --renew   writes the file anew

rustdoc gives it as JSON, which stable compilers do only when they are told to pass for unstable ones. Only rustdoc is
told so (this script stands in for it as $RUSTDOC), so that no dependency is compiled again.
"""

import difflib
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "zaro" / "public-api.txt"


def rustdoc_json():
    """Runs rustdoc, and gives what it says of the crate."""
    env = dict(os.environ, RUSTDOC=str(Path(__file__).resolve()), RUSTDOCFLAGS="")
    # The packages of all other steps: with fewer, dependencies would have other features and be compiled again.
    packages = ["-p", "zaro", "-p", "zaro-serve", "-p", "zaro-cli", "-p", "zaro-python", "-p", "zaro-r"]
    command = ["cargo", "doc", "--locked", "--quiet", "--no-deps", *packages, "--all-features"]
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return json.loads((target / "doc" / "zaro.json").read_text())


def stand_in(arguments):
    """As cargo calls rustdoc."""
    os.environ["RUSTC_BOOTSTRAP"] = "1"
    if any(a in ("-vV", "-V", "--version") for a in arguments):
        os.execvp("rustdoc", ["rustdoc", *arguments])
    os.execvp("rustdoc", ["rustdoc", *arguments, "-Z", "unstable-options", "--output-format", "json"])


def last(path):
    return path.rsplit("::", 1)[-1]


def arguments_of(args):
    if not args:
        return ""
    if "angle_bracketed" in args:
        inside = args["angle_bracketed"]
        out = []
        for a in inside["args"]:
            (kind, value), = a.items() if isinstance(a, dict) else ((a, "_"),)
            out.append(type_of(value) if kind == "type" else value if isinstance(value, str) else value.get("expr", "_"))
        for c in inside["constraints"]:
            (kind, value), = c["binding"].items()
            out.append(f"{c['name']} = {term(value)}" if kind == "equality" else f"{c['name']}: {bounds(value)}")
        return f"<{', '.join(out)}>" if out else ""
    if "parenthesized" in args:
        inside = args["parenthesized"]
        out = f"({', '.join(map(type_of, inside['inputs']))})"
        return out + (f" -> {type_of(inside['output'])}" if inside["output"] else "")
    return "(..)"


def term(value):
    (kind, inside), = value.items()
    return type_of(inside) if kind == "type" else inside.get("expr", "_")


def bounds(all_):
    out = []
    for b in all_:
        (kind, value), = b.items()
        if kind == "trait_bound":
            mark = {"maybe": "?", "maybe_const": "~const "}.get(value["modifier"], "")
            out.append(mark + last(value["trait"]["path"]) + arguments_of(value["trait"]["args"]))
        elif kind == "outlives":
            out.append(value)
        else:
            out.append("use<..>")
    return " + ".join(out)


def type_of(t):
    if t is None:
        return "()"
    if t == "infer":
        return "_"
    (kind, v), = t.items()
    match kind:
        case "resolved_path":
            return last(v["path"]) + arguments_of(v["args"])
        case "dyn_trait":
            parts = [last(p["trait"]["path"]) + arguments_of(p["trait"]["args"]) for p in v["traits"]]
            return "dyn " + " + ".join(parts + ([v["lifetime"]] if v["lifetime"] else []))
        case "generic" | "primitive":
            return v
        case "borrowed_ref":
            lifetime = f"{v['lifetime']} " if v["lifetime"] else ""
            return f"&{lifetime}{'mut ' if v['is_mutable'] else ''}{type_of(v['type'])}"
        case "raw_pointer":
            return f"*{'mut' if v['is_mutable'] else 'const'} {type_of(v['type'])}"
        case "slice":
            return f"[{type_of(v)}]"
        case "array":
            return f"[{type_of(v['type'])}; {v['len']}]"
        case "tuple":
            return f"({', '.join(map(type_of, v))}{',' if len(v) == 1 else ''})"
        case "impl_trait":
            return f"impl {bounds(v)}"
        case "qualified_path":
            of = f" as {last(v['trait']['path'])}" if v["trait"] and v["trait"]["path"] else ""
            return f"<{type_of(v['self_type'])}{of}>::{v['name']}"
        case "function_pointer":
            return "fn" + signature(v["sig"])
        case _:
            return kind


def generics(g):
    parts, where = [], []
    for p in g["params"]:
        (kind, v), = p["kind"].items()
        if kind == "type" and not v["is_synthetic"]:
            default = f" = {type_of(v['default'])}" if v.get("default") else ""
            parts.append(p["name"] + (f": {bounds(v['bounds'])}" if v["bounds"] else "") + default)
        elif kind == "lifetime":
            parts.append(p["name"])
        elif kind == "const":
            parts.append(f"const {p['name']}: {type_of(v['type'])}")
    for w in g["where_predicates"]:
        (kind, v), = w.items()
        if kind == "bound_predicate":
            where.append(f"{type_of(v['type'])}: {bounds(v['bounds'])}")
    return (f"<{', '.join(parts)}>" if parts else ""), (f" where {', '.join(where)}" if where else "")


def signature(sig):
    inputs = []
    for name, t in sig["inputs"]:
        text = type_of(t)
        inputs.append({"Self": "self", "&Self": "&self", "&mut Self": "&mut self"}.get(text, text) if name == "self" else text)
    out = f"({', '.join(inputs)})"
    return out + (f" -> {type_of(sig['output'])}" if sig["output"] is not None else "")


class Api:
    def __init__(self, doc):
        self.index = doc["index"]
        self.lines = set()
        self.paths = {}  # by the id of an item, the first path it was met at
        self.module(self.item(doc["root"]), "zaro", ())

    def item(self, id_):
        return self.index.get(str(id_))

    def add(self, kind, path, rest=""):
        self.lines.add(f"{path}{rest}  [{kind}]" if rest else f"{path}  [{kind}]")

    def module(self, item, path, seen):
        if item["id"] in seen:
            return
        seen += (item["id"],)
        children = [c for c in map(self.item, item["inner"]["module"]["items"]) if c and c["visibility"] == "public"]
        # What is re-exported at the root is listed there.
        for child in sorted(children, key=lambda c: "module" in c["inner"]):
            kind = next(iter(child["inner"]))
            if kind == "use":
                use = child["inner"]["use"]
                target = self.item(use["id"]) if use["id"] is not None else None
                if target is None:
                    self.add("re-export", f"{path}::{use['name']}", f" = {use['source']}")
                elif use["is_glob"]:
                    self.module(target, path, seen)
                else:
                    self.named(target, f"{path}::{use['name']}", seen)
            else:
                self.named(child, f"{path}::{child['name']}", seen)

    def named(self, item, path, seen=()):
        (kind, v), = item["inner"].items()
        if kind != "module" and self.paths.setdefault(item["id"], path) != path:
            self.add("re-export", path, f" = {self.paths[item['id']]}")
            return
        mark = ", non_exhaustive" if any("non_exhaustive" in str(a) for a in item["attrs"]) else ""
        match kind:
            case "module":
                self.add("mod", path)
                self.module(item, path, seen)
            case "function":
                head, where = generics(v["generics"])
                words = "".join(w for f, w in (("is_const", "const "), ("is_unsafe", "unsafe "), ("is_async", "async ")) if v["header"][f])
                self.add(words + "fn", path, head + signature(v["sig"]) + where)
            case "struct" | "union" | "enum":
                head, where = generics(v["generics"])
                self.add(kind + mark, path, head + where + self.impls(v["impls"], path))
                if kind == "enum":
                    for id_ in v["variants"]:
                        self.variant(self.item(id_), path)
                else:
                    self.fields(v["kind"], path)
            case "trait":
                head, where = generics(v["generics"])
                self.add(kind, path, head + (f": {bounds(v['bounds'])}" if v["bounds"] else "") + where)
                for id_ in v["items"]:
                    child = self.item(id_)
                    if child is not None:
                        self.member(child, path, child["inner"].get("function", {}).get("has_body", True))
            case "type_alias":
                self.add("type", path, f"{generics(v['generics'])[0]} = {type_of(v['type'])}")
            case "constant":
                self.add("const", path, f": {type_of(v['type'])}")
            case "static":
                self.add("static", path, f": {type_of(v['type'])}")
            case _:
                self.add(kind, path)

    def fields(self, kind, path):
        if isinstance(kind, str):
            return
        (form, v), = kind.items()
        for id_ in v["fields"] if isinstance(v, dict) else v:
            field = self.item(id_) if id_ is not None else None
            if field is not None and field["visibility"] in ("public", "default"):
                self.add("field", f"{path}::{field['name']}", f": {type_of(field['inner']['struct_field'])}")

    def variant(self, item, path):
        kind = item["inner"]["variant"]["kind"]
        text = ""
        if isinstance(kind, dict) and "tuple" in kind:
            fields = [self.item(i) if i is not None else None for i in kind["tuple"]]
            text = f"({', '.join(type_of(f['inner']['struct_field']) if f else '_' for f in fields)})"
        elif isinstance(kind, dict):
            fields = [self.item(i) for i in kind["struct"]["fields"]]
            text = " { " + ", ".join(f"{f['name']}: {type_of(f['inner']['struct_field'])}" for f in fields if f) + " }"
        self.add("variant", f"{path}::{item['name']}", text)

    def impls(self, ids, path):
        """The traits of a type; its own functions are lines of their own."""
        traits = set()
        for id_ in ids:
            impl = self.item(id_)
            if impl is None:
                continue
            v = impl["inner"]["impl"]
            if v["trait"] is None:
                for child in map(self.item, v["items"]):
                    if child is not None and child["visibility"] == "public":
                        self.member(child, path, True)
            elif not v["is_synthetic"] and v["blanket_impl"] is None and last(v["trait"]["path"]) != "StructuralPartialEq":
                traits.add(last(v["trait"]["path"]) + arguments_of(v["trait"]["args"]))
        return f": {', '.join(sorted(traits))}" if traits else ""

    def member(self, item, path, provided):
        (kind, v), = item["inner"].items()
        name = f"{path}::{item['name']}"
        if kind == "function":
            if not provided:
                head, where = generics(v["generics"])
                self.add("required fn", name, head + signature(v["sig"]) + where)
            else:
                self.named(item, name)
        elif kind == "assoc_const":
            self.add("const", name, f": {type_of(v['type'])}")
        elif kind == "assoc_type":
            self.add("type", name, f": {bounds(v['bounds'])}" if v["bounds"] else "")


def main():
    if "--crate-name" in sys.argv or any(a in ("-vV", "-V", "--version") for a in sys.argv[1:]):
        stand_in(sys.argv[1:])
    found = sorted(Api(rustdoc_json()).lines)
    if "--renew" in sys.argv:
        FILE.write_text("\n".join(found) + "\n")
        print(f"{len(found)} items")
        return 0
    known = FILE.read_text().splitlines()
    changes = [d for d in difflib.unified_diff(known, found, "zaro/public-api.txt", "now", lineterm="", n=0) if not d.startswith("@@")]
    if changes:
        print("\n".join(changes))
        print("the public API changed; if it should, run scripts/public-api.py --renew and commit zaro/public-api.txt")
        return 1
    print(f"{len(found)} public items, as zaro/public-api.txt has them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
