#!/usr/bin/env python3
"""The gallery in the guide: its commands are run, and their pictures compared with those beside it, pixel by pixel.

    PYTHON conformance/gallery.py [--zaro BIN] [--write]

With --write the pictures in docs/book/pictures are made anew.
"""

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import common
import numpy as np
from PIL import Image

BOOK = common.REPO / "docs" / "book"
SAMPLES = {"seed.zarr": "01-seed001-masks-0.1.zarr", "plate.zarr": "09-hcs-plate-0.4.zarr"}


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--write", action="store_true", help="make the pictures anew")
    args = parser.parse_args()
    zaro = common.find_zaro(args.zaro)
    text = (BOOK / "gallery.md").read_text()
    commands = [shlex.split(line[2:]) for line in text.splitlines() if line.startswith("$ zaro ")]
    shown = [part.split(")")[0] for part in text.split("](pictures/")[1:]]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder) / "zaro-demo"
        subprocess.run([zaro, "demo", str(folder)], check=True, stdout=subprocess.DEVNULL)
        for name, sample in SAMPLES.items():
            shutil.copytree(common.REPO / "zaro" / "testdata" / "images" / sample, folder / name)
        made = []
        for command in commands:
            subprocess.run([zaro, *command[1:]], check=True, cwd=folder)
            made.append(command[command.index("-o") + 1])
        if made != shown:
            sys.exit(f"gallery: the commands make {made}, the page shows {shown}")
        for name in made:
            kept = BOOK / "pictures" / name
            if args.write:
                # The same pixels in fewer bytes.
                Image.open(folder / name).save(kept, optimize=True)
                continue
            new, old = (np.asarray(Image.open(p)) for p in (folder / name, kept))
            if new.shape != old.shape or (new != old).any():
                failed += 1
                print(f"gallery: {name} is not the picture in the guide")
    print(f"gallery: {len(made) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
