// SPDX-License-Identifier: Apache-2.0
// The texts beside the picture: a node, the model, the steps, and the timeline of a profile.
"use strict";

// element("td", {class: "x"}, "text", child, ...)
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const key in attributes || {}) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), attributes[key]);
    else if (attributes[key] !== null && attributes[key] !== false) made.setAttribute(key, attributes[key] === true ? "" : attributes[key]);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child);
  return made;
}
const heading = (text) => element("h3", {}, text);
function facts(pairs) {
  return element("dl", {}, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]).flat());
}
const link = (node, go) => element("button", {class: "link", onclick: () => go(node)}, node.name);

function quantText(quant) {
  const many = quant.count > 1;
  const list = (values) => values.slice(0, 6).map(numberText).join(", ") + (quant.count > Math.min(6, values.length) ? ", …" : "");
  return (many ? `${quant.count} scales` + (quant.axis === undefined ? "" : ` along axis ${quant.axis}`) + ": " : "scale ") + list(quant.scales) +
    (many ? "; zero points " : ", zero point ") + list(quant.zero_points) + (quant.block_size ? `; blocks of ${quant.block_size}` : "");
}

function tensorItem(graph, id, go) {
  if (id === null) return element("li", {class: "quiet"}, "absent");
  const tensor = graph.tensors[id];
  const maker = graph.nodes.find((node) => node.outputs.includes(id));
  const item = element("li", {}, element("b", {}, tensor.name), " ", element("span", {class: "type"}, typeText(tensor)));
  if (tensor.constant_bytes !== undefined) item.append(element("span", {class: "quiet"}, " constant, " + bytesText(tensor.constant_bytes)));
  else if (maker && go) item.append(" ", element("button", {class: "link", onclick: () => go(maker)}, "↗"));
  if (tensor.quantization) item.append(element("div", {class: "quiet"}, quantText(tensor.quantization)));
  if (tensor.values && tensor.values.length) {
    const whole = tensor.dims.reduce((product, extent) => product * extent, 1) <= tensor.values.length;
    item.append(element("div", {class: "quiet values"}, tensor.values.slice(0, 8).map(numberText).join(", ") + (whole && tensor.values.length <= 8 ? "" : ", …")));
  }
  return item;
}

function nodePanel(graph, node, go, openBody) {
  if (!node) return [element("p", {class: "quiet"}, "Choose a node: click it, or search with /. Arrow keys go along the graph.")];
  const out = [element("h2", {}, node.op), element("p", {class: "name"}, node.name)];
  if (node.kind === "node") {
    const kernel = node.time && node.time.kernel ? node.time.kernel : runsAs(node);
    out.push(facts([
      ["runs as", node.into ? element("span", {}, "fused into ", link(node.into, go)) : kernel],
      ["by", element("span", {class: "key path-" + pathOf(node)}, pathWords[pathOf(node)] || pathOf(node))],
      ["backend", data.check.backend],
      ["does also", node.also.length ? element("span", {}, node.also.map((other, i) => [i ? ", " : "", link(other, go)]).flat()) : null],
      ["hint", node.verdict && !node.verdict.supported ? node.verdict.hint : null],
      ["number", String(node.index)],
    ]));
    if (node.time)
      out.push(heading("Time"), facts([
        [data.times.runs > 1 ? "in the median run" : "in the run", timeText(node.time.ms)],
        ["share", (node.time.share * 100).toFixed(1) + " % of all nodes"],
        ["called", node.time.calls === 1 ? null : node.time.calls + " times"],
        ["bytes", node.time.bytes ? bytesText(node.time.bytes) : null],
        ["rate", node.time.gb_per_s ? node.time.gb_per_s.toFixed(2) + " GB/s" : null],
        ["with it", node.time.fused || null]]));
  }
  const attributes = Object.entries(node.attributes || {});
  if (attributes.length)
    out.push(heading("Attributes"), facts(attributes.map(([name, value]) =>
      [name, Array.isArray(value) ? "[" + value.slice(0, 32).map(numberText).join(", ") + (value.length > 32 ? ", …" : "") + "]" : numberText(value)])));
  if (node.inputs.length) out.push(heading("Inputs"), element("ol", {start: 0}, node.inputs.map((id) => tensorItem(graph, id, go))));
  if (node.outputs.length) out.push(heading("Outputs"), element("ol", {start: 0}, node.outputs.map((id) => tensorItem(graph, id, null))));
  if (node.subgraphs)
    out.push(heading("Bodies"), element("p", {}, node.subgraphs.map((body, i) =>
      [i ? ", " : "", element("button", {class: "link", onclick: () => openBody(node, body, i)}, `${body.name || "body " + i} (${body.nodes.length} nodes)`)]).flat()));
  return out;
}

function table(titles, rows) {
  return element("table", {}, element("thead", {}, element("tr", {}, titles.map((title) => element("th", {}, title)))),
    element("tbody", {}, rows.map((row) => element("tr", {}, row.map((cell) =>
      element("td", {class: typeof cell === "string" && /^[\d.,]+( (B|kB|MB|GB|%|ms|µs))?$/.test(cell) ? "number" : null}, cell))))));
}

const counted = (count) => count + (count === 1 ? " node" : " nodes");

function memoryRows(memory) {
  const words = {weights_bytes: "weights", arena_bytes: "working memory", io_bytes: "inputs and outputs", device_bytes: "on the device",
                 scratchpad_bytes: "scratchpad", spill_fill_bytes: "spill and fill"};
  return Object.entries(words).filter(([key]) => memory[key]).map(([key, word]) => [word, bytesText(memory[key])]);
}

function modelPanel() {
  const info = data.info, out = [element("h2", {}, data.title)];
  const nodes = data.check.nodes, count = (path) => nodes.filter((row) => row.supported && row.path === path).length;
  const tensorText = (tensor) => `${tensor.name}: ${dimsText(tensor.dims)} ${tensor.dtype}`;
  const list = (tensors) => element("span", {}, tensors.map((tensor) => element("div", {}, tensorText(tensor))));
  out.push(facts([
    ["kind", info.kind + (info.format ? " " + info.format : "")],
    ["size", bytesText(info.file_bytes)],
    ["made by", info.onnx ? info.onnx.producer : info.source],
    ["opsets", info.onnx ? (info.onnx.opsets || []).map((one) => `${one.domain} ${one.version}`).join(", ") : null],
    ["inputs", list(info.inputs)],
    ["outputs", list(info.outputs)],
  ]));
  out.push(heading("Backend " + data.check.backend), facts([
    ["own kernels", counted(count("native"))],
    ["reference", count("reference") ? counted(count("reference")) + ": right, and slow" : null],
    ["no step", count("none") ? counted(count("none")) + ": fused, folded or views" : null],
    ["refused", data.check.refused ? counted(data.check.refused) : null],
    ["not told", count("unknown") ? counted(count("unknown")) : null],
  ]));
  if (data.plan) out.push(heading("Memory of a session"), facts(memoryRows(data.plan)));
  if (data.times)
    out.push(heading("Profile"), facts([
      ["runs", String(data.times.runs)],
      [data.times.runs > 1 ? "median run" : "the run", data.times.wall ? timeText(data.times.wall) : null],
      ["in nodes", timeText(data.times.sum) + (data.times.explained ? `, ${(data.times.explained * 100).toFixed(1)} % of that run` : "")],
      ["between them", data.times.wall > data.times.sum ? timeText(data.times.wall - data.times.sum) : null]]),
      table(["operator", "nodes", "time", "share"], data.times.operators.map((row) =>
        [row.name, String(row.nodes), timeText(row.ms), (row.share * 100).toFixed(1) + " %"])));
  for (const context of info.contexts || []) {
    out.push(heading(`Context: ${context.backend} for ${context.target}`), facts([["version", `${context.backend_version}, blob ${context.blob_version}`]]));
    for (const program of context.programs)
      out.push(facts([["graphs", program.graphs.join(", ")], ...memoryRows(program.memory)]));
  }
  if (info.segments)
    out.push(heading("Segments"), table(["kind", "name", "size"], info.segments.map((segment) => [segment.kind, segment.name, bytesText(segment.size)])));
  const metadata = Object.entries(info.metadata || (info.onnx || {}).metadata || {});
  if (metadata.length) out.push(heading("Metadata"), facts(metadata.map(([key, value]) => [key, value.length > 200 ? value.slice(0, 200) + "…" : value])));
  return out;
}

function stepsPanel(graph, order, go, reorder) {
  const nodes = graph.nodes.filter((node) => node.kind === "node");
  if (order === "time") nodes.sort((a, b) => (b.time ? b.time.ms : 0) - (a.time ? a.time.ms : 0));
  const title = (key, text) => element("button", {class: "link", onclick: () => reorder(key), "aria-pressed": String(order === key)}, text);
  const out = [element("p", {class: "quiet"}, `${nodes.length} nodes. `, "Order: ", title("index", "of running"), data.times ? [", ", title("time", "by time")] : [])];
  const rows = nodes.map((node) => [String(node.index), link(node, go), element("span", {class: "word"}, node.op), node.time && node.time.kernel ? node.time.kernel : runsAs(node),
    ...(data.times ? [node.time ? timeText(node.time.ms) : ""] : [])]);
  out.push(table(["#", "node", "operator", "runs as", ...(data.times ? ["time"] : [])], rows));
  return out;
}

// One call of the profile: its events below each other as they lie within each other.
class Timeline {
  constructor(root, choose) {
    this.root = root;
    this.select = element("select", {"aria-label": "Call", onchange: () => this.show(Number(this.select.value))},
      data.calls.map((call, i) => element("option", {value: i}, `${call.name}, ${timeText(call.ms)}`)));
    this.svg = svg("svg", {class: "events"});
    this.said = element("span", {class: "quiet"});
    root.append(element("div", {class: "bar"}, element("b", {}, "Timeline"), this.select, this.said), this.svg);
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const frame = this.svg.getBoundingClientRect(), at = this.from + (event.clientX - frame.left) / frame.width * (this.to - this.from);
      const factor = Math.exp((event.deltaY || event.deltaX) * 0.0016);
      this.from = Math.max(0, at - (at - this.from) * factor), this.to = Math.min(this.call.ms, at + (this.to - at) * factor);
      this.draw();
    }, {passive: false});
    let last = null;
    this.svg.addEventListener("pointerdown", (event) => { last = event.clientX, this.moved = 0; });
    window.addEventListener("pointerup", () => { last = null; });
    this.svg.addEventListener("pointermove", (event) => {
      if (last === null) return;
      const by = (last - event.clientX) / this.svg.getBoundingClientRect().width * (this.to - this.from);
      this.moved += Math.abs(last - event.clientX), last = event.clientX;
      const shift = Math.max(-this.from, Math.min(by, this.call.ms - this.to));
      this.from += shift, this.to += shift;
      this.draw();
    });
    this.svg.addEventListener("click", (event) => {
      const at = event.target.closest("[data-event]");
      if (at && this.moved < 4) choose(this.call.events[Number(at.dataset.event)].name);
    });
    window.addEventListener("resize", () => this.draw());
    const run = data.calls.findIndex((call) => call.name.startsWith("run"));
    this.select.value = String(Math.max(run, 0));
    this.show(Math.max(run, 0));
  }
  show(index) {
    this.call = data.calls[index], this.from = 0, this.to = this.call.ms;
    this.draw();
  }
  draw() {
    const width = this.svg.clientWidth || 1000, deepest = Math.max(1, ...this.call.events.map((event) => event.row + 1)), step = 20;
    this.svg.replaceChildren();
    this.svg.style.height = deepest * step + 22 + "px";
    const scale = width / Math.max(this.to - this.from, 1e-9), round = 10 ** Math.floor(Math.log10((this.to - this.from) / 4 || 1));
    const tick = [1, 2, 5, 10].map((k) => k * round).find((t) => (this.to - this.from) / t <= 9) || 10 * round;
    for (let t = Math.ceil(this.from / tick) * tick; t <= this.to; t += tick) {
      const x = (t - this.from) * scale;
      svg("line", {x1: x, x2: x, y1: 0, y2: deepest * step + 4, class: "tick"}, this.svg);
      svg("text", {x: x + 3, y: deepest * step + 18, class: "tick"}, this.svg).textContent =
        tick >= 0.5 ? `${Number(t.toPrecision(8))} ms` : `${Number((t * 1000).toPrecision(8))} µs`;
    }
    this.call.events.forEach((event, i) => {
      const x = (event.begin - this.from) * scale, w = Math.max(event.ms * scale, 0.7);
      if (x + w < 0 || x > width) return;
      const group = svg("g", {"data-event": i, class: "event op" + [...event.op].reduce((sum, c) => (sum * 31 + c.charCodeAt(0)) % 8, 0)}, this.svg);
      svg("rect", {x: Math.max(x, -2), y: event.row * step, width: Math.min(w, width + 4), height: step - 2, rx: 2}, group);
      svg("title", {}, group).textContent = `${event.name}${event.op ? " (" + event.op + ")" : ""}: ${timeText(event.ms)}`;
      const room = Math.floor((Math.min(x + w, width) - Math.max(x, 0) - 8) / 6.4), words = event.op ? `${event.op} ${event.name}` : event.name;
      if (room > 3) svg("text", {x: Math.max(x, 0) + 4, y: event.row * step + 13}, group).textContent = words.length > room ? words.slice(0, room - 1) + "…" : words;
    });
    this.said.textContent = `${this.call.events.length} events; wheel zooms, drag moves, click finds the node`;
  }
}
