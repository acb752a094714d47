"""The stubs are what the compiled module has; the docstrings' examples run."""

import doctest
import importlib
import subprocess
import sys

import pytest


def test_stubs(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "zaro._zaro", "--ignore-disjoint-bases"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


@pytest.mark.parametrize("module", ["zaro", "zaro._array", "zaro._group", "zaro._create", "zaro.manifest"])
def test_docstrings(module):
    failed, tried = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert tried and not failed
