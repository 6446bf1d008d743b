// SPDX-License-Identifier: Apache-2.0
// The page of a quantisation's report: tables, plots, search. Everything is made of the JSON beside it.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const state = {tensor: null, words: [], order: {layers: ["sqnr", 1], tensors: ["sqnr", 1]}, shown: {layers: 40, tensors: 60}, log: true};

  // ---- small things
  const put = (made, attributes, children) => {
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
    }
    made.append(...[children].flat(2).filter((child) => child !== null && child !== undefined && child !== ""));
    return made;
  };
  const element = (name, attributes, children) => put(document.createElement(name), attributes, children);
  const drawn = (name, attributes, children) => put(document.createElementNS(SVG, name), attributes, children);
  const is = (value) => typeof value === "number" && Number.isFinite(value);
  const short = (value) => !is(value) ? "–" : value === 0 ? "0" : Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  const bytes = (value) => value >= 1e9 ? (value / 1e9).toFixed(2) + " GB" : value >= 1e6 ? (value / 1e6).toFixed(2) + " MB" : value >= 1e3 ? (value / 1e3).toFixed(1) + " kB" : value + " B";
  // 200 stands for no difference at all.
  const decibel = (value) => !is(value) ? "–" : value >= 200 ? "exact" : value.toFixed(1);
  const grade = (value) => !is(value) ? "" : value >= 30 ? "good" : value >= 15 ? "fair" : "bad";  // as verdict.cpp has it
  const percent = (part) => part === 0 ? "0" : part < 1e-4 ? "< 0.01 %" : (100 * part).toFixed(part < 0.1 ? 2 : 1) + " %";
  const matches = (texts) => state.words.every((word) => texts.some((text) => (text || "").toLowerCase().includes(word)));
  const tensors = data.tensors || [], layers = (data.layers || []).map((layer, i) => ({...layer, index: i}));
  const named = new Map(tensors.filter((one) => !one.is_weight).map((one) => [one.name, one]));
  const onDevice = layers.some((layer) => is(layer.sqnr_device));

  // ---- summary
  const card = (title, value, note, kind) => element("div", {class: "card"}, [element("span", {class: "quiet"}, title), element("b", {class: kind}, value), note ? element("span", {class: "quiet"}, note) : null]);
  const summary = () => {
    const cards = [];
    for (const output of data.outputs || []) {
      cards.push(card(`SQNR of ${output.name}`, decibel(output.sqnr) + (is(output.sqnr) && output.sqnr < 200 ? " dB" : ""), is(output.cosine) ? `cosine ${output.cosine.toFixed(5)}` : "", grade(output.sqnr)));
      if (is(output.sqnr_device)) cards.push(card(`${output.name} on ${data.device}`, decibel(output.sqnr_device) + " dB", "against float", grade(output.sqnr_device)));
      if (is(output.top1)) cards.push(card("Same top-1", percent(output.top1), `of ${data.evaluated} inputs`));
    }
    if (data.float_bytes && data.quantized_bytes) cards.push(card("Size", bytes(data.quantized_bytes), `from ${bytes(data.float_bytes)}, ${(data.float_bytes / data.quantized_bytes).toFixed(1)} times smaller`));
    const coded = layers.filter((layer) => layer.quantized);
    cards.push(card("Quantised layers", `${coded.length} of ${layers.length}`, [8, 16].map((bits) => [bits, coded.filter((layer) => layer.bits === bits).length]).filter(([, n]) => n).map(([bits, n]) => `${n} of ${bits} bits`).join(", ")));
    cards.push(card("Calibration", String(data.samples - data.held_back), data.held_back ? `inputs; compared on ${data.held_back} others` : `inputs; compared on ${data.evaluated} of them`));
    const {word, why, next} = data.verdict;
    const said = [element("p", {}, [element("b", {class: word === "poor" ? "bad" : word}, word), `: ${why}`])];
    if (next.length) said.push(element("ul", {}, next.map((one) => element("li", {}, one.option ? [element("code", {}, `--${one.option.replaceAll("_", "-")} ${one.value}`), `: ${one.why}`] : one.why))));
    byId("summary").replaceChildren(element("div", {class: "cards"}, cards), ...said);
  };

  // ---- along the network
  const along = () => {
    const points = layers.filter((layer) => is(layer.sqnr) || is(layer.sqnr_device));
    if (!points.length) return byId("along").replaceChildren(element("p", {class: "quiet"}, "Nothing was compared: the quantisation kept no inputs for it."));
    const width = 900, height = 230, left = 40, right = 12, top = 10, bottom = 26;
    const cap = (value) => Math.min(value, 80);
    const values = points.flatMap((layer) => [layer.sqnr, layer.sqnr_device]).filter(is).map(cap);
    const low = Math.min(0, Math.floor(Math.min(...values) / 10) * 10), high = Math.max(30, Math.ceil(Math.max(...values) / 10) * 10);
    const x = (layer) => left + (layers.length < 2 ? 0.5 : layer.index / (layers.length - 1)) * (width - left - right);
    const y = (value) => top + (high - cap(value)) / (high - low) * (height - top - bottom);
    const parts = [];
    for (let mark = low; mark <= high; mark += high - low > 60 ? 20 : 10)
      parts.push(drawn("line", {class: "axis", x1: left, x2: width - right, y1: y(mark), y2: y(mark)}), drawn("text", {x: left - 6, y: y(mark) + 4, "text-anchor": "end"}, `${mark}`));
    parts.push(drawn("text", {x: left, y: height - 6}, "first layer"), drawn("text", {x: width - right, y: height - 6, "text-anchor": "end"}, "last layer"), drawn("text", {x: left + 4, y: top + 4}, "dB"));
    for (const [key, kind] of [["sqnr", "cpu"], ["sqnr_device", "device"]]) {
      const list = points.filter((layer) => is(layer[key]));
      if (!list.length) continue;
      parts.push(drawn("polyline", {class: kind, points: list.map((layer) => `${x(layer).toFixed(1)},${y(layer[key]).toFixed(1)}`).join(" ")}));
      for (const layer of list) {
        const chosen = state.tensor && (layer.outputs || []).includes(state.tensor.name);
        parts.push(drawn("circle", {class: kind + (chosen ? " chosen" : ""), cx: x(layer), cy: y(layer[key]), r: chosen ? 6 : list.length > 150 ? 2.5 : 3.5, onclick: () => choose(tensorOf(layer))},
          drawn("title", {}, `${layer.node} (${layer.op}): ${decibel(layer[key])} dB on ${kind === "device" ? data.device : data.backend}`)));
      }
    }
    byId("along").replaceChildren(drawn("svg", {viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": "Signal to noise of each layer, from the first to the last"}, parts),
      element("p", {class: "quiet"}, [element("i", {class: "key"}), "cpu", ...(onDevice ? [element("i", {class: "key device"}), data.device] : [])]));
  };
  const tensorOf = (layer) => (layer.outputs || []).map((name) => named.get(name)).find(Boolean) || null;

  // ---- tables
  const meter = (value) => is(value) ? element("span", {class: "meter", "aria-hidden": "true"}, element("i", {class: grade(value), style: null, "data-part": Math.max(2, Math.min(100, value * 2))})) : null;
  const widths = (root) => root.querySelectorAll("[data-part]").forEach((bar) => { bar.style.width = bar.dataset.part + "%"; });
  const sorted = (list, [key, direction]) => {
    const value = (one) => key === "index" ? one.index : typeof one[key] === "string" ? one[key] : is(one[key]) ? one[key] : Infinity;
    return [...list].sort((a, b) => { const p = value(a), q = value(b); return (p < q ? -1 : p > q ? 1 : 0) * direction; });
  };
  const table = (id, columns, list, tensorOfRow) => {
    const [key, direction] = state.order[id], count = state.shown[id];
    const head = element("tr", {}, columns.map((column) => element("th", {class: column.number ? "number" : null, scope: "col", "aria-sort": column.key === key ? (direction > 0 ? "ascending" : "descending") : null},
      column.key ? element("button", {onclick: () => { state.order[id] = [column.key, column.key === key ? -direction : 1]; draw(); }}, column.title) : column.title)));
    const rows = sorted(list, state.order[id]).slice(0, count).map((one) => {
      const tensor = tensorOfRow(one);
      return element("tr", {tabindex: tensor ? 0 : null, "aria-selected": tensor && tensor === state.tensor ? "true" : null, onclick: () => tensor && choose(tensor), onkeydown: (event) => { if (event.key === "Enter" && tensor) choose(tensor); }},
        columns.map((column) => element("td", {class: [column.number ? "number" : "", column.name ? "name" : "", column.grade ? grade(one[column.key]) : ""].filter(Boolean).join(" ") || null}, column.show(one))));
    });
    byId(id).replaceChildren(element("thead", {}, head), element("tbody", {}, rows));
    widths(byId(id));
    const more = byId("more-" + id);
    more.hidden = list.length <= count;
    more.textContent = `All ${list.length}`;
    more.onclick = () => { state.shown[id] = list.length; draw(); };
  };
  const bars = (histogram, w, h, log) => {
    const top = Math.max(...histogram.counts, 1), scale = (count) => count === 0 ? 0 : log ? Math.max(0.03, Math.log1p(count) / Math.log1p(top)) : count / top;
    const step = w / histogram.counts.length;
    return histogram.counts.map((count, i) => count ? `M${(i * step).toFixed(2)},${h}v${(-scale(count) * h).toFixed(2)}h${step.toFixed(2)}V${h}z` : "").join("");
  };
  const spark = (one) => one.histogram && one.histogram.counts.length > 1
    ? drawn("svg", {viewBox: "0 0 90 18", width: 90, height: 18, "aria-hidden": "true"}, drawn("path", {class: "bars", d: bars(one.histogram, 90, 18, true)})) : null;

  const drawTables = () => {
    const layerList = layers.filter((layer) => matches([layer.node, layer.op, ...(layer.outputs || [])]));
    const floats = layers.filter((layer) => !layer.quantized).length;
    byId("layers-note").textContent = (state.order.layers[0] === "sqnr" && state.order.layers[1] > 0 ? "Worst first. " : "") + (floats ? `${floats} in float. ` : "") + "A layer's noise has what came in with its inputs.";
    table("layers", [
      {key: "index", title: "#", number: true, show: (one) => String(one.index + 1)},
      {key: "node", title: "layer", name: true, show: (one) => one.node},
      {key: "op", title: "operator", show: (one) => one.op},
      {key: "bits", title: "bits", number: true, show: (one) => one.quantized ? String(one.bits || "–") : "float"},
      {key: "sqnr", title: "SQNR dB, cpu", number: true, grade: true, show: (one) => decibel(one.sqnr)},
      ...(onDevice ? [{key: "sqnr_device", title: data.device, number: true, grade: true, show: (one) => decibel(one.sqnr_device)}] : []),
      {title: "", show: (one) => meter(one.sqnr)},
    ], layerList, tensorOf);
    const tensorList = tensors.filter((one) => matches([one.name, one.node, one.op, one.is_weight ? "weight" : "activation", one.type]));
    table("tensors", [
      {key: "name", title: "tensor", name: true, show: (one) => one.name},
      {key: "op", title: "of", show: (one) => one.is_weight ? `weights of ${one.op}` : one.op || "input"},
      {key: "type", title: "type", show: (one) => one.type + (one.channels > 1 ? ` × ${one.channels}` : "")},
      {title: "values", show: spark},
      {title: "seen", number: true, show: (one) => `${short(one.seen[0])} … ${short(one.seen[1])}`},
      {title: "range", number: true, show: (one) => `${short(one.range[0])} … ${short(one.range[1])}`},
      {key: "clipped", title: "clipped", number: true, show: (one) => percent(one.clipped || 0)},
      {key: "sqnr_alone", title: "alone dB", number: true, grade: true, show: (one) => decibel(one.sqnr_alone)},
      {key: "sqnr", title: "SQNR dB", number: true, grade: true, show: (one) => decibel(one.sqnr)},
    ], tensorList, (one) => one);
    byId("found").textContent = state.words.length ? `${layerList.length} layers, ${tensorList.length} tensors` : "";
  };

  // ---- the chosen tensor
  const plot = (one) => {
    const histogram = one.histogram;
    if (!histogram || histogram.counts.length < 2) return element("p", {class: "quiet"}, "No histogram: all values are alike, or none was kept.");
    const width = 400, height = 210, left = 8, top = 16, bottom = 34, w = width - 2 * left, h = height - top - bottom;
    const [from, to] = histogram.range, low = Math.min(from, one.range[0], 0), high = Math.max(to, one.range[1], 0);
    const wide = high - low || 1, x = (value) => left + (value - low) / wide * w;
    const clipped = (i) => { const middle = from + (i + 0.5) * (to - from) / histogram.counts.length; return middle < one.range[0] || middle > one.range[1]; };
    const part = (wanted) => ({...histogram, counts: histogram.counts.map((count, i) => clipped(i) === wanted ? count : 0)});
    const top1 = Math.max(...histogram.counts, 1);
    const path = (wanted) => {
      const counts = part(wanted).counts, step = (x(to) - x(from)) / counts.length;
      return counts.map((count, i) => count ? `M${(x(from) + i * step).toFixed(2)},${top + h}v${(-h * (state.log ? Math.max(0.02, Math.log1p(count) / Math.log1p(top1)) : count / top1)).toFixed(2)}h${Math.max(step, 0.6).toFixed(2)}V${top + h}z` : "").join("");
    };
    const mark = (value, row, kind, text) => [drawn("line", {class: kind, x1: x(value), x2: x(value), y1: top, y2: top + h + 4}),
      drawn("text", {class: kind, x: Math.min(Math.max(x(value), 24), width - 24), y: top + h + 14 + row * 13, "text-anchor": "middle"}, text)];
    return drawn("svg", {viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": `How often values of ${one.name} occurred`}, [
      drawn("rect", {class: "within", x: x(one.range[0]), y: top, width: Math.max(1, x(one.range[1]) - x(one.range[0])), height: h}),
      drawn("path", {class: "bars", d: path(false)}), drawn("path", {class: "cut", d: path(true)}),
      drawn("line", {class: "axis", x1: left, x2: width - left, y1: top + h, y2: top + h}),
      ...mark(0, 0, "axis", "0"), ...mark(one.range[0], 1, "end", short(one.range[0])), ...mark(one.range[1], 1, "end", short(one.range[1])),
    ]);
  };
  const panel = () => {
    const one = state.tensor;
    if (!one) return byId("panel").replaceChildren(element("p", {class: "quiet"}, "Choose a layer or a tensor."));
    const rows = [["made by", one.node ? `${one.node} (${one.op})` : "input of the model"], ["shape", `[${one.shape.join(", ")}]`],
      ["stored as", one.type + (one.channels > 1 ? `, ${one.channels} scales` : "")], ["values seen", `${short(one.seen[0])} to ${short(one.seen[1])}`],
      ["range stored", `${short(one.range[0])} to ${short(one.range[1])}` + (one.channels > 1 ? " (widest channel)" : "")],
      ["scale", short(one.scale)], ["zero point", String(one.zero_point)], ["clipped", percent(one.clipped || 0)],
      ["alone", is(one.sqnr_alone) ? `${decibel(one.sqnr_alone)} dB: this rounding by itself` : null],
      ["in the model", is(one.sqnr) ? `${decibel(one.sqnr)} dB on cpu` + (is(one.sqnr_device) ? `, ${decibel(one.sqnr_device)} dB on ${data.device}` : "") + ", with what came before" : null]];
    if (one.is_weight) rows[0] = ["weights of", `${one.node} (${one.op})`];
    byId("panel").replaceChildren(element("h2", {}, one.name), plot(one),
      element("p", {class: "quiet"}, [element("i", {class: "key bars"}), "kept", element("i", {class: "key cut"}), "clipped  ",
        element("button", {"aria-pressed": String(state.log), onclick: () => { state.log = !state.log; panel(); }, title: "Heights by the logarithm of the count"}, "log")]),
      element("dl", {}, rows.filter(([, value]) => value).flatMap(([key, value]) => [element("dt", {}, key), element("dd", {}, value)])));
  };

  // ---- changes and settings
  const changes = () => {
    const groups = new Map();
    for (const change of data.changes || []) groups.set(change.what, [...(groups.get(change.what) || []), change]);
    byId("changes").replaceChildren(...(groups.size ? [...groups].map(([what, list]) => element("details", {open: list.length <= 3 ? "" : null}, [element("summary", {}, `${what}: ${list.length}`),
      element("ul", {}, list.map((change) => element("li", {}, [change.where, change.detail ? element("span", {class: "quiet"}, (change.where ? ": " : "") + change.detail) : null])))]))
      : [element("p", {class: "quiet"}, "Nothing but the quantisation itself.")]));
    byId("settings").replaceChildren(...Object.entries(data.settings || {}).flatMap(([key, value]) => [element("dt", {}, key), element("dd", {}, value === "" ? "–" : String(value))]));
  };

  const choose = (tensor) => { if (!tensor) return; state.tensor = tensor; panel(); draw(); };
  const draw = () => { along(); drawTables(); };
  const setTheme = (theme) => { document.documentElement.dataset.theme = theme; };
  const search = () => { state.words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean); drawTables(); };
  byId("search").addEventListener("input", search);
  byId("theme").addEventListener("click", () => setTheme(getComputedStyle(document.documentElement).getPropertyValue("--dark").trim() === "1" ? "light" : "dark"));
  byId("print").addEventListener("click", () => window.print());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input")) return;
    if (event.key === "/") byId("search").focus(), event.preventDefault();
    if (event.key === "d") byId("theme").click();
  });

  const name = data.model.split("/").slice(-2).join("/");
  document.title = `${name} quantised – Quarry`;
  byId("title").textContent = name;
  byId("about").textContent = "what quantisation did to it";
  // What is after '#': tensor=NAME, search=TEXT, theme=dark: for links and tests.
  const open = new URLSearchParams(location.hash.slice(1));
  if (open.has("theme")) setTheme(open.get("theme"));
  if (open.has("search")) byId("search").value = open.get("search");
  state.words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const worst = sorted(layers.filter((layer) => is(layer.sqnr)), ["sqnr", 1]).map(tensorOf).find(Boolean);
  state.tensor = tensors.find((one) => one.name === open.get("tensor")) || worst || tensors[0] || null;
  summary(), draw(), panel(), changes();
  document.body.dataset.ready = `${layers.length} layers, ${tensors.length} tensors`;
})();
