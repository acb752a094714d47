"""The Python of the book's chapter runs as it stands."""

import pathlib
import re


def test_chapter(tmp_path, monkeypatch):
    chapter = pathlib.Path(__file__).parents[3] / "docs" / "book" / "python.md"
    blocks = re.findall(r"```python\n(.*?)```", chapter.read_text(), re.S)
    assert len(blocks) >= 8
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(chapter), "exec"), names)
