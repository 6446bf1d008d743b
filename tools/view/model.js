// SPDX-License-Identifier: Apache-2.0
// What the page knows of the model: the JSON that `quarry view` put into it, with what follows from it.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);

const bytesText = (bytes) => {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < 4) bytes /= 1000, unit++;
  return (unit ? bytes.toFixed(1) : bytes) + " " + units[unit];
};
const numberText = (value) =>
  typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(7))) : value === null ? "not finite" : String(value);
const timeText = (ms) => (ms >= 100 ? ms.toFixed(1) : ms >= 1 ? ms.toFixed(3) : ms >= 0.001 ? (ms * 1000).toFixed(2) : (ms * 1000).toFixed(3)) +
  (ms >= 1 ? " ms" : " µs");
const dimsText = (dims) => (dims.length ? dims.map((extent) => (extent === null ? "?" : extent)).join("×") : "scalar");
const typeText = (tensor) => dimsText(tensor.dims) + " " + tensor.dtype + (tensor.quantization ? " q" : "");

// What check and profile say of a node; several nodes of one name get what they say in turn.
function byName(list) {
  const map = new Map();
  for (const row of list) {
    if (!map.has(row.name)) map.set(row.name, []);
    map.get(row.name).push(row);
  }
  return map;
}

// A graph as boxes: nodes, and inputs and outputs; edges are tensors that somebody makes.
function prepareGraph(source, verdicts, times, title) {
  const graph = {title, tensors: source.tensors, nodes: [], inputs: source.inputs, outputs: source.outputs, edges: []};
  const maker = new Map();
  source.inputs.forEach((id) => {
    maker.set(id, graph.nodes.length);
    graph.nodes.push({kind: "input", name: source.tensors[id].name, op: "input", inputs: [], outputs: [id]});
  });
  const seen = new Map();
  const take = (map, name) => {
    const list = map.get(name);
    if (!list) return null;
    const at = seen.get(map) || new Map();
    seen.set(map, at);
    const turn = at.get(name) || 0;
    at.set(name, turn + 1);
    return list[Math.min(turn, list.length - 1)];
  };
  source.nodes.forEach((from, index) => {
    const node = {...from, kind: "node", index, verdict: take(verdicts, from.name), time: take(times, from.name), also: []};
    for (const id of from.outputs) if (id !== null) maker.set(id, graph.nodes.length);
    graph.nodes.push(node);
  });
  source.outputs.forEach((id) => {
    graph.nodes.push({kind: "output", name: source.tensors[id].name, op: "output", inputs: [id], outputs: []});
  });
  graph.nodes.forEach((node, to) => {
    const from = new Set();
    for (const id of node.inputs) if (id !== null && maker.has(id) && maker.get(id) !== to) {
      const key = maker.get(id) + "," + id;
      if (!from.has(key)) graph.edges.push({from: maker.get(id), to, tensor: id});
      from.add(key);
    }
  });
  const named = new Map(graph.nodes.filter((node) => node.kind === "node").map((node) => [node.name, node]));
  for (const node of named.values()) {
    const into = /^fused into (.*)$/.exec(node.verdict ? node.verdict.kernel || "" : "");
    if (into && named.has(into[1])) node.into = named.get(into[1]), node.into.also.push(node);
  }
  return graph;
}

const pathOf = (node) => !node.verdict ? "unknown" : !node.verdict.supported ? "refused" : node.verdict.path || "unknown";
const pathWords = {native: "own kernel", reference: "reference kernel: right, and slow", none: "no step of its own", refused: "refused",
                   unknown: "the backend does not say"};
const runsAs = (node) => !node.verdict ? "" : node.verdict.supported ? node.verdict.kernel || "" : node.verdict.reason || "refused";

const verdictsOf = (name) => byName(data.check.nodes.filter((row) => row.graph === undefined || row.graph === name));
const times = byName(data.times ? data.times.nodes : []);
const graphs = data.graphs.map((graph) => prepareGraph(graph, verdictsOf(graph.name), times, graph.name || "main"));
