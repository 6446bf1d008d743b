// SPDX-License-Identifier: Apache-2.0
// The picture of a graph: boxes and ways in an SVG, with pan and zoom, and long chains of nodes put together.
"use strict";

const svgName = "http://www.w3.org/2000/svg";
function svg(name, attributes, parent) {
  const made = document.createElementNS(svgName, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (parent) parent.appendChild(made);
  return made;
}

// Groups of nodes of which each has one neighbour before and one behind it, among nodes alone.
function chainsOf(graph) {
  const into = graph.nodes.map(() => []), outOf = graph.nodes.map(() => []);
  for (const edge of graph.edges) into[edge.to].push(edge.from), outOf[edge.from].push(edge.to);
  const follows = (i) => {
    if (graph.nodes[i].kind !== "node" || new Set(outOf[i]).size !== 1) return -1;
    const next = outOf[i][0];
    return graph.nodes[next].kind === "node" && new Set(into[next]).size === 1 ? next : -1;
  };
  const before = new Set();
  graph.nodes.forEach((node, i) => { if (follows(i) >= 0) before.add(follows(i)); });
  const chains = [];
  graph.nodes.forEach((node, i) => {
    if (before.has(i) || follows(i) < 0) return;
    const chain = [i];
    while (follows(chain[chain.length - 1]) >= 0) chain.push(follows(chain[chain.length - 1]));
    if (chain.length >= 4) chains.push(chain);
  });
  return chains;
}

class Picture {
  constructor(root, choose) {
    this.root = root, this.choose = choose;
    this.scale = 1, this.left = 0, this.top = 0;
    this.open = new Set();  // chains that are shown node by node
    this.heat = "path";
    // What is in the middle, or the top where nobody has chosen a node, stays there when the window, or what is beside the picture, changes its size.
    let size = null;
    new ResizeObserver(() => {
      const frame = root.getBoundingClientRect();
      if (size && this.view) this.move((frame.width - size.width) / 2, this.chosen ? (frame.height - size.height) / 2 : 0);
      size = frame;
    }).observe(root);
    const pointers = new Map();
    root.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, {x: event.clientX, y: event.clientY});
      this.moved = 0;
    });
    root.addEventListener("pointermove", (event) => {
      const last = pointers.get(event.pointerId);
      if (!last) return;
      const dx = event.clientX - last.x, dy = event.clientY - last.y;
      this.moved += Math.abs(dx) + Math.abs(dy);
      if (this.moved > 4 && !root.hasPointerCapture(event.pointerId)) root.setPointerCapture(event.pointerId);
      if (pointers.size === 2) {
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
        const was = Math.hypot(last.x - other.x, last.y - other.y), is = Math.hypot(event.clientX - other.x, event.clientY - other.y);
        if (was > 0) this.zoom(is / was, (event.clientX + other.x) / 2, (event.clientY + other.y) / 2);
      } else {
        this.left += dx, this.top += dy;
      }
      last.x = event.clientX, last.y = event.clientY;
      this.place();
    });
    for (const name of ["pointerup", "pointercancel"]) root.addEventListener(name, (event) => pointers.delete(event.pointerId));
    root.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.clientX, event.clientY);
    }, {passive: false});
    root.addEventListener("click", (event) => {
      if (this.moved > 4) return;
      const group = event.target.closest("[data-box]");
      if (!group) return this.choose(null);
      const box = this.boxes[Number(group.dataset.box)];
      if (box.chain) this.expand(box.chain);
      else this.choose(this.graph.nodes[box.node]);
    });
  }

  show(graph, putTogether) {
    if (this.graph !== graph) this.open.clear();
    this.graph = graph, this.putTogether = putTogether;
    const chain = new Map();
    if (putTogether)
      for (const nodes of chainsOf(graph))
        if (!this.open.has(nodes[0])) for (const i of nodes) chain.set(i, nodes);
    this.boxes = [], this.boxOf = new Int32Array(graph.nodes.length);
    graph.nodes.forEach((node, i) => {
      const nodes = chain.get(i);
      if (nodes && nodes[0] !== i) return void (this.boxOf[i] = this.boxOf[nodes[0]]);
      this.boxOf[i] = this.boxes.length;
      this.boxes.push(nodes ? this.chainBox(nodes) : this.nodeBox(node, i));
    });
    // A chain's nodes may stand before its first in the list: all of them once more, now that each box is there.
    for (const nodes of new Set(chain.values())) for (const i of nodes) this.boxOf[i] = this.boxOf[nodes[0]];
    this.edges = [];
    const known = new Set();
    for (const edge of graph.edges) {
      const from = this.boxOf[edge.from], to = this.boxOf[edge.to], key = from + "," + to;
      if (from === to || known.has(key)) continue;
      known.add(key);
      this.edges.push({from, to, tensor: edge.tensor});
    }
    this.layout = layOut(this.boxes, this.edges);
    this.draw();
  }

  nodeBox(node, i) {
    const made = node.outputs.concat(node.kind === "output" ? node.inputs : []).find((id) => id !== null);
    const lines = node.kind === "node" ? [node.op, made === undefined ? "" : typeText(this.graph.tensors[made])]
                                       : [node.name, typeText(this.graph.tensors[made])];
    if (node.time) lines[0] += "  " + timeText(node.time.ms);
    const short = lines.map((line) => (line.length > 34 ? line.slice(0, 16) + "…" + line.slice(-16) : line));
    return {node: i, lines: short, width: Math.max(72, ...short.map((line, k) => 26 + line.length * (k ? 6.3 : 8))), height: 40};
  }

  chainBox(nodes) {
    const ops = nodes.map((i) => this.graph.nodes[i].op), time = nodes.reduce((sum, i) => sum + ((this.graph.nodes[i].time || {}).ms || 0), 0);
    let line = ops.slice(0, 3).join(", ");
    if (ops.length > 3) line += ", …";
    const lines = [`▸ ${nodes.length} nodes` + (time ? "  " + timeText(time) : ""), line.length > 36 ? line.slice(0, 35) + "…" : line];
    return {chain: nodes, lines, time, width: Math.max(96, ...lines.map((text, k) => 24 + text.length * (k ? 6.2 : 7.4))), height: 40};
  }

  // Colours by time (heat: 0 to 5), else by what runs it.
  classOf(box) {
    if (box.chain) return "chain" + this.heatOf(box.time);
    const node = this.graph.nodes[box.node];
    if (node.kind !== "node") return node.kind;
    return "path-" + pathOf(node) + this.heatOf(node.time ? node.time.ms : 0);
  }
  heatOf(ms) {
    if (this.heat !== "time" || !data.times) return "";
    const share = data.times.sum > 0 ? ms / data.times.sum : 0;
    return " heat heat" + (share <= 0 ? 0 : share < 0.002 ? 1 : share < 0.01 ? 2 : share < 0.03 ? 3 : share < 0.08 ? 4 : 5);
  }

  draw() {
    this.root.replaceChildren();
    const defs = svg("defs", {}, this.root);
    const arrow = svg("marker", {id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto"}, defs);
    svg("path", {d: "M0 0.5 8 4 0 7.5z", class: "arrow"}, arrow);
    this.view = svg("g", {}, this.root);
    const ways = svg("g", {class: "ways"}, this.view), boxes = svg("g", {class: "boxes"}, this.view);
    this.wayElements = this.edges.map((edge, i) => {
      const way = this.layout.ways[i];
      let d = `M${way[0].x.toFixed(1)} ${way[0].y.toFixed(1)}`;
      for (let k = 1; k < way.length; k++) {
        const a = way[k - 1], b = way[k], middle = (a.y + b.y) / 2;
        d += Math.abs(a.x - b.x) < 0.5 ? `L${b.x.toFixed(1)} ${b.y.toFixed(1)}`
                                       : `C${a.x.toFixed(1)} ${middle.toFixed(1)} ${b.x.toFixed(1)} ${middle.toFixed(1)} ${b.x.toFixed(1)} ${b.y.toFixed(1)}`;
      }
      return svg("path", {d, "marker-end": "url(#arrow)"}, ways);
    });
    this.boxElements = this.boxes.map((box, i) => {
      const x = this.layout.x[i] - box.width / 2, y = this.layout.y[i] - box.height / 2;
      const group = svg("g", {transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, "data-box": i, class: "box " + this.classOf(box)}, boxes);
      svg("rect", {width: box.width.toFixed(1), height: box.height, rx: box.chain || this.graph.nodes[box.node].kind === "node" ? 6 : 20}, group);
      if (!box.chain && this.graph.nodes[box.node].kind === "node") svg("rect", {class: "stripe", width: 5, height: box.height, rx: 2}, group);
      svg("text", {x: (box.width / 2 + 2).toFixed(1), y: 17, class: "first"}, group).textContent = box.lines[0];
      svg("text", {x: (box.width / 2 + 2).toFixed(1), y: 32, class: "second"}, group).textContent = box.lines[1];
      const title = svg("title", {}, group);
      title.textContent = box.chain ? box.chain.map((k) => this.graph.nodes[k].name).join("\n") : this.graph.nodes[box.node].name;
      return group;
    });
    this.mark(this.chosen, this.hits);
    this.place();
  }

  recolour() {
    this.boxElements.forEach((element, i) => element.setAttribute("class", "box " + this.classOf(this.boxes[i])));
    this.mark(this.chosen, this.hits);
  }

  // The chosen node with its ways, and what a search found.
  mark(chosen, hits) {
    this.chosen = chosen, this.hits = hits;
    const boxOf = (node) => this.boxOf[this.graph.nodes.indexOf(node)];
    const here = chosen && this.graph.nodes.includes(chosen) ? boxOf(chosen) : -1;
    const group = new Set(chosen ? [chosen.into, ...(chosen.also || []), ...(chosen.into ? chosen.into.also : [])].filter((n) => n && n !== chosen).map(boxOf) : []);
    const found = new Set((hits || []).map(boxOf));
    this.boxElements.forEach((element, i) => {
      element.classList.toggle("chosen", i === here);
      element.classList.toggle("group", group.has(i));
      element.classList.toggle("hit", found.has(i));
    });
    this.wayElements.forEach((element, i) => {
      element.classList.toggle("chosen", here >= 0 && (this.edges[i].from === here || this.edges[i].to === here));
    });
  }

  expand(chain) {
    const at = this.boxes.findIndex((box) => box.chain && box.chain[0] === chain[0]);
    const x = this.layout.x[at] * this.scale + this.left, y = (this.layout.y[at] - 20) * this.scale + this.top;
    this.open.add(chain[0]);
    this.show(this.graph, this.putTogether);
    const now = this.boxOf[chain[0]];  // it stays where the reader looks
    this.left = x - this.layout.x[now] * this.scale, this.top = y - (this.layout.y[now] - 20) * this.scale;
    this.place();
  }

  place() {
    this.view.setAttribute("transform", `translate(${this.left.toFixed(2)} ${this.top.toFixed(2)}) scale(${this.scale.toFixed(4)})`);
    this.root.classList.toggle("far", this.scale < 0.3);
  }
  zoom(factor, clientX, clientY) {
    const frame = this.root.getBoundingClientRect();
    const x = clientX - frame.left, y = clientY - frame.top, scale = Math.min(4, Math.max(0.01, this.scale * factor));
    this.left = x - (x - this.left) * scale / this.scale, this.top = y - (y - this.top) * scale / this.scale;
    this.scale = scale;
    this.place();
  }
  zoomBy(factor) {
    const frame = this.root.getBoundingClientRect();
    this.zoom(factor, frame.left + frame.width / 2, frame.top + frame.height / 2);
  }
  move(dx, dy) { this.left += dx, this.top += dy, this.place(); }
  fit() {
    const frame = this.root.getBoundingClientRect(), {width, height} = this.layout;
    this.scale = Math.min(1.2, (frame.width - 40) / Math.max(width, 1), (frame.height - 40) / Math.max(height, 1));
    this.left = (frame.width - width * this.scale) / 2, this.top = Math.max(20, (frame.height - height * this.scale) / 2);
    this.place();
  }
  // Readable, from the top: how a reader begins.
  begin() {
    this.fit();
    if (this.scale >= 0.55) return;
    const frame = this.root.getBoundingClientRect(), first = this.boxes.findIndex((box) => !box.chain || box.chain.includes(0));
    this.scale = 0.8, this.top = 20, this.left = frame.width / 2 - this.layout.x[Math.max(first, 0)] * this.scale;
    this.place();
  }
  centre(node) {
    const index = this.graph.nodes.indexOf(node), box = this.boxes[this.boxOf[index]];
    if (box.chain) this.open.add(box.chain[0]), this.show(this.graph, this.putTogether);
    const frame = this.root.getBoundingClientRect(), at = this.boxOf[index];
    if (this.scale < 0.5) this.scale = 0.8;
    this.left = frame.width / 2 - this.layout.x[at] * this.scale, this.top = frame.height / 2 - this.layout.y[at] * this.scale;
    this.place();
  }
  // The whole graph on a page, whatever is on the screen.
  beforePrint() {
    this.root.setAttribute("viewBox", `-10 -10 ${this.layout.width + 20} ${this.layout.height + 20}`);
    this.view.removeAttribute("transform"), this.root.classList.remove("far");
  }
  afterPrint() { this.root.removeAttribute("viewBox"), this.place(); }
}
