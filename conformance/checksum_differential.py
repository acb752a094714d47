"""Random trees: the checksum of zaro beside that of zarr_checksum, which defines it.

    checksum_differential.py [--cases N] [--seed S]

Each tree has names that test sorting and escaping (other scripts, surrogate pairs, controls, DEL, quotes, names that
begin alike), empty files and folders, links to files and folders. `zaro checksum` must print what
zarr_checksum.compute_zarr_checksum gives, with the digests of directories as it makes them; a manifest made of the
tree must be sound, and its own checksum the same.
"""

import json
import os
import random

import common

# Its progress bars say nothing here; the variable is read when the library is imported.
os.environ["TQDM_DISABLE"] = "1"
from zarr_checksum import compute_zarr_checksum
from zarr_checksum.generators import yield_files_local

PLAIN = ["0", "1", "10", "2", "9", "a", "A", "a.b", "a-b", "a0", "ab", "a b", "c", ".zarray", ".zattrs", "zarr.json", "_", "~"]
ODD = ["é", "e\u0301", "日本", "語", "\U0001f600", "\ufffd", "\uffee", 'a"b', "a\\b", "a\tb", "a\nb", "a\x7fb", "a\x01b", "a&<>b", "\u2028", "\x80", "a\rb", "x\x08\x0c"]


def name(rng):
    kind = rng.random()
    if kind < 0.5:
        return rng.choice(PLAIN)
    if kind < 0.8:
        return rng.choice(ODD)
    if kind < 0.9:
        return rng.choice(PLAIN) + rng.choice(ODD)
    return str(rng.randrange(200))


def fill(folder, rng, depth, left):
    """Makes up to `left` files below `folder`; gives how many."""
    made = 0
    for _ in range(rng.randrange(1, 12)):
        path = folder / name(rng)
        if os.path.lexists(path):
            continue
        kind = rng.random()
        if kind < 0.25 and depth < 6:
            path.mkdir()
            made += fill(path, rng, depth + 1, left - made)
        elif kind < 0.3:
            path.mkdir()
        elif kind < 0.33:
            path.symlink_to(folder)
        elif kind < 0.36 and any(p.is_file() for p in folder.iterdir()):
            path.symlink_to(rng.choice(sorted(p for p in folder.iterdir() if p.is_file())))
            made += 1
        elif made < left:
            path.write_bytes(rng.randbytes(rng.choice([0, 1, 2, 100, 5000, 70000])))
            made += 1
    return made


def check(zaro, seed, folder):
    """What is wrong with zaro's answer for a random tree, or None."""
    rng = random.Random(seed)
    tree = folder / "tree"
    tree.mkdir()
    if rng.random() > 0.03:
        fill(tree, rng, 0, 200)
    wanted = str(compute_zarr_checksum(yield_files_local(tree)))
    told = common.run([zaro, "checksum", str(tree), "--all-files"])
    if told.crash or told.code != 0:
        return told.crash or told.message
    if told.out.decode().strip() != wanted:
        return f"{told.out.decode().strip()} in place of {wanted}"
    # A folder's digest is that of a Zarr of its own.
    folders = [p for p in tree.rglob("*") if p.is_dir() and not p.is_symlink()]
    told = json.loads(common.run([zaro, "checksum", str(tree), "--all-files", "--tree", "--json"]).out)
    digests = {d["path"]: d["digest"] for d in told["directories"]}
    for sub in rng.sample(folders, min(3, len(folders))):
        wanted = str(compute_zarr_checksum(yield_files_local(sub)))
        path = str(sub.relative_to(tree))
        if not wanted.endswith("-0--0") and digests.get(path) != wanted:
            return f"{path!r}: {digests.get(path)} in place of {wanted}"
    made = common.run([zaro, "manifest", "create", str(tree), "--all-files", "-o", str(folder / "m.json")])
    if made.crash or made.code != 0:
        return made.crash or made.message
    sound = common.run([zaro, "manifest", "verify", str(folder / "m.json"), "--folder", str(tree), "--bytes", "--all-files"])
    if sound.crash or sound.code != 0:
        return f"its manifest is not sound: {sound.crash or sound.out.decode() + sound.message}"
    return None


if __name__ == "__main__":
    common.try_cases(__doc__, check, "trees agree")
