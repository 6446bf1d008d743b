#!/usr/bin/env python3
"""What the program draws and writes for others: the page of `quarry view`, `quarry export`, the plot of `quarry bench`, and label files that do
not fit. check_page.py looks at the page in a browser.

check_view.py BUILD_DIR SHARED_DIR
"""
import csv
import json
import os
import re
import shutil
import xml.etree.ElementTree

from program import check, finish, image, model, new_folder, onnx_model, require, run

folder = new_folder()
page, qrm, events, trace = (os.path.join(folder, name) for name in ("digits.html", "digits.qrm", "events.csv", "events.json"))


def data_of(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return text, json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


# ---- the page as a file
check("view an ONNX model", run("view", model, "-o", page), 0, "9 nodes on cpu")
text, data = data_of(page)
nodes = data["graphs"][0]["nodes"]
require("its nodes are the model's", [n["op"] for n in nodes] == ["Conv", "Relu", "Conv", "Relu", "MaxPool", "Flatten", "Gemm", "Relu", "Gemm"], nodes)
require("each has a verdict", [n["name"] for n in data["check"]["nodes"]] == [n["name"] for n in nodes], data["check"])
require("what is fused is shown", "fused into conv1" in [n["kernel"] for n in data["check"]["nodes"]], data["check"])
require("attributes", nodes[0]["attributes"]["kernel_shape"] == [3, 3], nodes[0])
tensors = data["graphs"][0]["tensors"]
require("shapes", tensors[nodes[0]["outputs"][0]]["dims"] == [1, 16, 8, 8] and tensors[nodes[0]["inputs"][1]]["constant_bytes"] == 16 * 9 * 4, tensors)
require("memory", data["plan"]["weights_bytes"] > 100_000, data["plan"])
require("no other address", set(re.findall(r'(?:https?:)?//[\w.]+\.\w+[\w/.]*', re.sub(r"//[^\n]*\n", "\n", text))) <= {"http://www.w3.org/2000/svg"},
        re.findall(r"https?://\S+", text))
require("a browser holds to it too", "default-src 'none'" in text)
require("no path of this machine", os.path.dirname(model) not in text)

check("compile", run("compile", model, "-o", qrm), 0)
for file in (events, trace):
    check("bench with a profile", run("bench", qrm, "-n", "3", f"--profile={file}"), 0)
    check(f"view a container with {os.path.basename(file)}", run("view", qrm, "--profile", file, "-o", page), 0, "with times")
    _, timed = data_of(page)
    rows = {row["name"]: row for row in timed["times"]["nodes"]}
    require("times of the nodes", rows["conv2"]["ms"] > 0 and abs(sum(row["share"] for row in rows.values()) - 1) < 1e-6, rows)
    require("contexts and segments", timed["info"]["contexts"][0]["backend"] == "cpu" and timed["info"]["segments"], timed["info"])
    calls = {call["name"]: call for call in timed["calls"]}
    require("a timeline", any(name.startswith("run") for name in calls) and all(call["events"] or not call["name"].startswith("run") for call in calls.values()), calls)
    for call in calls.values():
        in_row = {}
        for event in call["events"]:
            require("no event covers another", event["begin"] >= in_row.get(event["row"], 0) - 1e-9, call)
            in_row[event["row"]] = event["begin"] + event["ms"]
# All figures are of one run, that of median length, so they add up.
with open(events, newline="") as file:
    rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
took = {row["id"]: (int(row["end"]) - int(row["begin"])) / 1e6 for row in rows if row["begin"]}
of_runs = sorted((row["id"] for row in rows if row["kind"] == "run"), key=took.get)
of_median = of_runs[(len(of_runs) - 1) // 2]
expected = {row["name"]: took[row["id"]] for row in rows if row["kind"] == "node" and row["parent"] == of_median}
check("the same once more", run("view", qrm, "--profile", events, "-o", page), 0)
timed = data_of(page)[1]
shown = {row["name"]: row["ms"] for row in timed["times"]["nodes"]}
require("the nodes' times are those of the median run", shown.keys() == expected.keys() and all(abs(shown[n] - expected[n]) < 1e-9 for n in shown), (shown, expected))
times = timed["times"]
require("they add up", times["runs"] == len(of_runs) > 1 and abs(sum(shown.values()) - times["sum"]) < 1e-9 and abs(times["wall"] - took[of_median]) < 1e-9
        and abs(times["explained"] - times["sum"] / times["wall"]) < 1e-9 and abs(sum(row["ms"] for row in times["operators"]) - times["sum"]) < 1e-9, times)
require("its timeline is the first", "the median" in timed["calls"][0]["name"] and abs(timed["calls"][0]["ms"] - times["wall"]) < 1e-9, timed["calls"][0])
check("bench one run", run("bench", qrm, "-n", "1", f"--profile={events}"), 0)

evil = os.path.join(folder, "evil.onnx")
with open(evil, "wb") as file:
    file.write(onnx_model(b"Relu", name=b'</script><script>alert("&lt;")</script>'))
check("a node with a name of HTML", run("view", evil, "-o", page), 0)
require("names stay text", "alert(" not in re.sub(r'<script type="application/json" id="data">.*?</script>', "", open(page, encoding="utf-8").read(), flags=re.S)
        and data_of(page)[1]["graphs"][0]["nodes"][0]["name"].startswith("</script>"))
other = os.path.join(folder, "other.csv")
check("bench another model", run("bench", evil, "-n", "2", f"--profile={other}"), 0)
check("a profile of another model", run("view", model, "--profile", other, "-o", page), 2, "has none of this model's nodes")
check("a profile that is none", run("view", model, "--profile", model, "-o", page), 2, "--profile")
with open(other, "w") as file:
    file.write('{"traceEvents": [{"ph": "X", "name": 3, "ts": "soon", "dur": -1e300, "args": []}, 7]}')
os.rename(other, other[:-3] + "json")
check("a trace of nonsense", run("view", model, "--profile", other[:-3] + "json", "-o", page), 2, "--profile")
bare = os.path.join(folder, "bare.qrm")
check("compile without the graph", run("compile", model, "-o", bare, "-O", "container.keep_graph=0"), 0)
check("a container without its graph", run("view", bare, "-o", page), 3, "QR-M0010")

# ---- export
out = os.path.join(folder, "out.onnx")
check("export", run("export", model, "-o", out), 0, "kB")
before, after = (json.loads(run("run", file, image, "--json").stdout)["runs"][0]["outputs"] for file in (model, out))
require("the same answers", before == after, (before, after))
check("export of a container", run("export", qrm, "-o", out), 0)
require("the same answers from the container's graph", json.loads(run("run", out, image, "--json").stdout)["runs"][0]["outputs"] == before)
check("export of a part", run("export", model, "-o", out, "-O", "graph.head=relu1_out" if any(t["name"] == "relu1_out" for t in tensors) else f"graph.head={tensors[nodes[1]['outputs'][0]]['name']}"), 0)
require("the part's output", [1, 16, 8, 8] in [o["dims"] for o in json.loads(run("inspect", out, "--json").stdout)["outputs"]])
external = os.path.join(folder, "external.onnx")
check("export with external data", run("export", model, "-o", external, "--external-data"), 0, "external.onnx: ", "external.onnx.data: ")
require("the constants lie beside the model", os.path.getsize(external) < 10_000 and os.path.getsize(external + ".data") > 100_000, os.listdir(folder))
require("the same answers from external data", json.loads(run("run", external, image, "--json").stdout)["runs"][0]["outputs"] == before)
check("once more, from itself to another", run("export", external, "-o", os.path.join(folder, "second.onnx"), "--external-data"), 0)
with open(external + ".data", "rb") as one, open(os.path.join(folder, "second.onnx.data"), "rb") as two:
    require("the same constants", one.read() == two.read())
check("export over it", run("export", model, "-o", external), 0)
check("external data of a description", run("export", model, "-o", os.path.join(folder, "g.json"), "--external-data"), 2, "--external-data", ".onnx")
os.mkdir(os.path.join(folder, "taken.onnx"))
with open(os.path.join(folder, "taken.onnx.data"), "w") as file:
    file.write("kept")
check("a folder of the model's name", run("export", model, "-o", os.path.join(folder, "taken.onnx"), "--external-data"), 3, "taken.onnx", "cannot be written")
with open(os.path.join(folder, "taken.onnx.data")) as file:
    require("no constants without their model", file.read() == "kept")
require("nothing half-written", not [name for name in os.listdir(folder) if name.startswith(".quarry-")], os.listdir(folder))
check("over the model itself", run("export", out, "-o", out), 2, "would overwrite it")
check("another ending", run("export", model, "-o", os.path.join(folder, "out.txt")), 2, ".onnx or .json")
check("a folder that is not there", run("export", model, "-o", os.path.join(folder, "no", "out.onnx")), 3, "QR-F0003")
symbolic = os.path.join(folder, "symbolic.onnx")
with open(symbolic, "wb") as file:
    file.write(onnx_model(b"Relu", dims=(b"n".decode(), 2)))
check("several buckets in one file", run("export", symbolic, "-o", out, "--shape", "n=1", "--shape", "n=2"), 3, "QR-C0007", "found 2 graphs")
check("several buckets described", run("export", symbolic, "-o", os.path.join(folder, "out.json"), "--shape", "n=1", "--shape", "n=2"), 0)
check("several buckets shown", run("view", symbolic, "-o", page, "--shape", "n=1", "--shape", "n=2"), 0)

# ---- plot
figures, plot = os.path.join(folder, "figures.json"), os.path.join(folder, "plot.svg")
check("figures", run("bench", qrm, "-n", "50", "--json", figures, "-b", "cpu"), 0)
check("plot", run("bench", model, "-n", "20", "-b", "cpu-reference", "--plot", plot, "--beside", figures), 0)
drawing = xml.etree.ElementTree.parse(plot).getroot()
name = "{http://www.w3.org/2000/svg}"
titles = [t.text for t in drawing.iter(name + "text") if t.get("class") == "title"]
require("a row for each", len(titles) == 2 and titles[0].startswith("cpu-reference") and titles[1].startswith("cpu,"), titles)
with open(figures) as file:
    quantiles = json.load(file)["quantiles_ms"]
require("quantiles rise", len(quantiles) == 201 and quantiles == sorted(quantiles), quantiles)
marks = [{p.get("data-part"): float(re.match(r"M([\d.]+)", p.get("d"))[1]) for p in g.iter(name + "path") if p.get("data-part")} for g in drawing.iter(name + "g")]
require("marks in order", len(marks) == 2 and all(m["median"] <= m["p90"] <= m["p99"] for m in marks), marks)
check("a plot beside nothing", run("bench", model, "-n", "2", "--beside", figures), 2, "--plot")
check("a plot beside no figures", run("bench", model, "-n", "2", "--plot", plot, "--beside", model), 2, "--beside")

# ---- labels
labels = os.path.join(folder, "labels.txt")
for count, status in ((10, 0), (9, 2), (11, 2), (0, 2)):
    with open(labels, "w") as file:
        file.write("".join(f"label {i}\n" for i in range(count)) + "\n")
    check(f"{count} labels for 10 scores", run("run", model, image, "--labels", labels), status, *(["--labels: found"] if status else ["label 3"]))

shutil.rmtree(folder, ignore_errors=True)
finish()
