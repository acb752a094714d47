"""What neuroglancer draws in Chromium, against the values of the array: a child of serve_clients.py, in an environment of its own.

    serve_neuroglancer.py CHROMIUM SOURCES.json      a line per source: its name, and `equal` or what is wrong
"""

import json
import subprocess
import sys
import tempfile
import threading

import neuroglancer
import numpy as np

# Both bytes of a value as red and green; blue says that something was drawn.
SHADER = """
void main() {
  uint v = toRaw(getDataValue());
  emitRGB(vec3(float(v & 255u) / 255.0, float(v >> 8u) / 255.0, 1.0));
}
"""
ZOOM = 4


def look(viewer, url, data):
    with viewer.txn() as s:
        s.dimensions = neuroglancer.CoordinateSpace(names=["d0", "d1"], units=["", ""], scales=[1, 1])
        s.layers.clear()
        s.layers["a"] = neuroglancer.ImageLayer(source=f"zarr://{url}/a", shader=SHADER)
        s.position = [data.shape[0] / 2, data.shape[1] / 2]
        s.display_dimensions = ["d1", "d0"]
        s.cross_section_scale = 1 / ZOOM
        s.layout = "xy"
        s.show_axis_lines = s.show_scale_bar = False
    found = []
    thread = threading.Thread(target=lambda: found.append(viewer.screenshot(size=[400, 400])), daemon=True)
    thread.start()
    thread.join(45)
    if not found:
        return "no picture within 45 s"
    picture = found[0].screenshot.image_pixels.astype(int)
    drawn = np.argwhere((picture[..., 2] == 255) & (picture[..., 0:2].sum(axis=2) < 510))
    if not len(drawn):
        return "nothing was drawn"
    (top, left), (bottom, right) = drawn.min(axis=0), drawn.max(axis=0) + 1
    if bottom - top > right - left:
        # The viewer chose the other order of the axes.
        data = data.T
    # The outermost pixels may be blended with the background.
    size = np.array(data.shape) * ZOOM
    if abs(bottom - top - size[0]) > 2 or abs(right - left - size[1]) > 2:
        return f"drawn from {top}, {left} to {bottom}, {right}"
    (top, left), (bottom, right) = 200 - size // 2, 200 + size // 2
    middle = picture[top + ZOOM // 2 : bottom : ZOOM, left + ZOOM // 2 : right : ZOOM]
    wrong = (middle[..., 0] + 256 * middle[..., 1] != data).sum()
    return f"{wrong} pixels of {data.size} differ" if wrong else "equal"


def main():
    with open(sys.argv[2]) as file:
        sources = json.load(file)
    data = np.array(sources["data"])
    neuroglancer.set_server_bind_address("127.0.0.1")
    viewer = neuroglancer.Viewer()
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-first-run", "--window-size=800,800",
                 "--disable-background-networking", "--disable-component-update", f"--user-data-dir={folder}"]
        browser = subprocess.Popen([sys.argv[1], *flags, viewer.get_viewer_url()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for name, url in sources["urls"].items():
                print(f"{name}\t{look(viewer, url, data)}", flush=True)
        finally:
            browser.terminate()
            browser.wait(20)


main()
