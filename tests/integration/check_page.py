#!/usr/bin/env python3
"""The page of `quarry view` as Chromium shows it: drawn, searched, pointed at; with 2,000 nodes; with names that look like a script.

check_page.py BUILD_DIR SHARED_DIR       exit status 77: there is no Chromium here
"""
import html
import os
import re
import shutil
import subprocess
import sys

from program import check, field, finish, image, model, new_folder, onnx_model, png_rows, require, run, shared

folder = new_folder()
page, qrm, events, evil = (os.path.join(folder, name) for name in ("page.html", "digits.qrm", "events.csv", "evil.onnx"))
browser = next((found for found in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if found), None)


def in_browser(path, *flags):
    """What a browser makes of a page: its elements after the scripts have run."""
    done = subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/browser", "--window-size=1400,900",
                           "--virtual-time-budget=8000", *flags, path], capture_output=True, text=True, timeout=300)
    return done.stdout, done.stderr


if not browser:
    print("there is no Chromium")
    sys.exit(77)
check("compile", run("compile", model, "-o", qrm), 0)
check("bench with a profile", run("bench", qrm, "-n", "3", f"--profile={events}"), 0)
with open(evil, "wb") as file:
    file.write(onnx_model(b"Relu", name=b'</script><script>document.body.dataset.ready="evil"</script>'))
check("a page with times", run("view", qrm, "--profile", events, "-o", page), 0)
shown, said = in_browser(f"file://{page}#search=maxpool&node=relu1&theme=dark", "--dump-dom")
require("the page is drawn", 'data-ready="11 boxes, 10 ways"' in shown, shown[-3000:] + said[-2000:])
require("its search finds", ">1 found<" in shown, re.findall(r'id="found"[^<]*<?', shown))
panel = re.sub(r"<[^>]+>", " ", html.unescape(re.search(r'<div id="panel".*?</aside>', shown, re.S)[0]))
require("the chosen node", "relu1" in panel and re.search(r"fused into\s+conv1", panel), panel)
require("the timeline", shown.count('class="event ') >= 5, shown.count('class="event '))
shot = os.path.join(folder, "shot.png")
in_browser(f"file://{page}", "--window-size=700,500", f"--screenshot={shot}")
colours = {}
for y, (line, channels) in enumerate(png_rows(shot)):
    if y % 3 == 0:
        for x in range(0, len(line), channels * 3):
            colours[line[x:x + 3]] = colours.get(line[x:x + 3], 0) + 1
drawn = 1 - max(colours.values()) / sum(colours.values())
require("a picture", len(colours) > 20 and 0.02 < drawn, (len(colours), drawn))
large = os.path.join(folder, "large.onnx")


def value(tensor):
    return field(1, tensor) + field(2, field(1, b"\x08\x01" + field(2, field(1, b"\x08\x08"))))


graph = b""
for i in range(2000):  # Adds of the node before and of one farther back, and other nodes between
    one, two = b"t%d" % i, b"t%d" % max(0, i - 7)
    inputs = field(1, one) + (field(1, two) if i % 3 == 0 else b"")
    graph += field(1, inputs + field(2, b"t%d" % (i + 1)) + field(3, b"node%d" % i) + field(4, b"Add" if i % 3 == 0 else (b"Sigmoid", b"Tanh")[i % 2]))
graph += field(2, b"g") + field(11, value(b"t0")) + field(12, value(b"t2000"))
with open(large, "wb") as file:
    file.write(b"\x08\x08" + field(7, graph) + field(8, b"\x10\x11"))
check("a graph of 2,000 nodes", run("view", large, "-o", page), 0, "2000 nodes")
shown, said = in_browser(f"file://{page}#node=node1999&fit=1", "--dump-dom")
ready = re.search(r'data-ready="(\d+) boxes', shown)
require("2,000 nodes are drawn", ready and int(ready[1]) > 1000 and "node1999" in shown, (ready, said[-2000:]))
check("a node with a name of HTML", run("view", evil, "-o", page), 0)
shown, _ = in_browser(f"file://{page}", "--dump-dom")
require("no script of a model's runs", 'data-ready="3 boxes' in shown, shown[-1500:])
loop = "/usr/share/libonnx-testdata/data/node/test_loop11/model.onnx"
if os.path.exists(loop):
    check("a loop", run("view", loop, "-o", page), 0)
    shown, _ = in_browser(f"file://{page}#node=res_y&body=0", "--dump-dom")
    require("a body is a picture of its own", "res_y / " in shown and ">iter_count</text>" in shown, shown[-1500:])
models = os.path.join(shared, "models")
if os.path.isdir(models):
    for name in ("mobilenetv2_1.0_224_google_uint8_qdq", "yolox_nano_416"):
        check(name, run("view", os.path.join(models, name, "model.onnx"), "-o", page), 0)
        shown, said = in_browser(f"file://{page}#tab=steps", "--dump-dom")
        require(f"{name} is drawn", "data-ready=" in shown and "<tbody>" in shown, said[-2000:])
# ---- the report of a quantisation
report = os.path.join(folder, "report.html")
check("a report", run("quantize", model, "--calibration", os.path.dirname(image), "-o", os.path.join(folder, "digits.qdq.onnx"), "--report", report), 0)
shown, said = in_browser(f"file://{report}#search=relu&theme=dark", "--dump-dom")
ready = re.search(r'data-ready="(\d+) layers, (\d+) tensors"', shown)
require("the report is drawn", ready and int(ready[1]) == 9 and int(ready[2]) > 9, shown[-3000:] + said[-2000:])
require("its search finds", re.search(r">\d+ layers, \d+ tensors</span>", shown), re.findall(r'id="found"[^<]*<?', shown))
require("each layer is a point", shown.count("<circle") >= 5, shown.count("<circle"))
layers = re.search(r'<table id="layers">.*?</table>', shown, re.S)[0]
ratios = [float(text) for text in re.findall(r'class="number +(?:good|fair|bad)">(-?[\d.]+)<', layers)]
require("the worst layers come first", len(ratios) >= 2 and ratios == sorted(ratios), ratios)
panel = re.search(r'<div id="panel".*?</aside>', shown, re.S)[0]
require("the histogram of the worst", 'class="bars" d="M' in panel and "values seen" in panel, panel)
require("a report opens nothing else", not re.search(r'(?:src|href)="(?!#)', shown) and "default-src 'none'" in shown)
in_browser(f"file://{report}", "--window-size=900,700", f"--screenshot={shot}")
colours = {line[x:x + 3] for y, (line, channels) in enumerate(png_rows(shot)) if y % 3 == 0 for x in range(0, len(line), channels * 3)}
require("a picture of the report", len(colours) > 20, len(colours))
shutil.rmtree(folder, ignore_errors=True)
finish()
