"""Runs zaro over one-rule stores: tiny Zarrs that each test one rule of the V3 or V2 specification.

    run_one_rule.py [FOLDER] [--zaro BIN] [ID ...]

FOLDER (default: conformance/one-rule) holds the stores and a `manifest.json`, a list of
    id      the store's folder
    name    what it tests; `rule` (optional) the rule's id in conformance/make_rules.py
    format  2 or 3
    expect  accept: exit 0 and the value | reject: a non-zero exit that is no panic | either: only no panic
    value   the decoded content, nested lists in C order
    how     exact | i8 (as int64) | approx | len (number of items of the outer list)
            | bits16 bits32 bits64 (bit patterns of floats) | raw (hex of the little-endian bytes)
    path    (optional) the node inside the store; `args` (optional) more arguments
Every store is read with `--strict`. Needs only the standard library.
"""

import json
import sys
from pathlib import Path

import common


def judge(zaro, folder, case):
    """None when zaro did what the rule asks, else what it did."""
    argv = [zaro, "read", str(folder / case["id"])]
    argv += [case["path"]] if case.get("path") else []
    argv += ["--strict", "--format", common.output_format(case["how"]), *case.get("args", [])]
    done = common.run(argv, timeout=20)
    if done.crash:
        return f"{done.crash}: {done.message[-300:]}"
    if case["expect"] == "either":
        return None
    if case["expect"] == "reject":
        return None if done.code else f"accepted, and printed {done.out[:200]!r}"
    if done.code:
        return f"refused (exit {done.code}): {done.message[-300:]}"
    return common.check_value(case["how"], case["value"], done.out)


def run_folder(zaro, folder, title, only=(), verbose=False):
    tally = common.Tally(title, verbose)
    for case in json.loads((folder / "manifest.json").read_text()):
        if only and case["id"] not in only:
            continue
        label = f"{case['id']} [{case['expect']}] {case.get('rule', 'V' + str(case['format']))}: {case['name']}"
        why = judge(zaro, folder, case)
        tally.fail(label, why) if why else tally.ok(label)
    return tally.close()


def main():
    p = common.parser(__doc__)
    p.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "one-rule")
    p.add_argument("ids", nargs="*", help="only these")
    a = p.parse_args()
    return run_folder(common.find_zaro(a.zaro), a.folder, "one-rule", a.ids, a.verbose)


if __name__ == "__main__":
    sys.exit(main())
