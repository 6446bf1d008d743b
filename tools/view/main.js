// SPDX-License-Identifier: Apache-2.0
// The page: what is shown, the search, keys and buttons.
"use strict";

(() => {
  const byId = (id) => document.getElementById(id);
  const state = {graph: graphs[0], chosen: null, tab: "model", order: data.times ? "time" : "index", hits: [], hit: -1, back: []};
  const many = 400;  // boxes from which long chains are put together at first
  state.putTogether = state.graph.nodes.length > many;

  const choose = (node, centre) => {
    state.chosen = node;
    if (node) state.tab = "node";
    picture.mark(node, state.hits);
    if (node && centre) picture.centre(node), picture.mark(node, state.hits);
    panel();
  };
  const go = (node) => choose(node, true);
  const picture = new Picture(byId("picture"), (node) => choose(node, false));

  const showGraph = (graph) => {
    state.graph = graph, state.chosen = null, state.hits = [], state.hit = -1;
    picture.chosen = null, picture.hits = [];
    picture.show(graph, state.putTogether);
    picture.begin();
    crumbs();
    panel();
  };
  const openBody = (node, body, i) => {
    state.back.push(state.graph);
    const title = `${node.name} / ${body.name || "body " + i}`;
    const known = node.bodies = node.bodies || [];
    showGraph(known[i] = known[i] || prepareGraph(body, new Map(), times, title));
  };

  function crumbs() {
    const root = byId("graphs");
    root.replaceChildren();
    if (state.back.length) {
      root.append(element("button", {onclick: () => showGraph(state.back.pop()), title: "Backspace"}, "← out"), element("span", {}, state.graph.title));
    } else if (graphs.length > 1) {
      root.append(element("select", {"aria-label": "Graph", onchange: (event) => showGraph(graphs[Number(event.target.value)])},
        graphs.map((graph, i) => element("option", {value: i, selected: graph === state.graph}, graph.title))));
    }
  }

  function panel() {
    const body = byId("panel");
    for (const tab of ["node", "model", "steps"]) byId("tab-" + tab).setAttribute("aria-selected", String(state.tab === tab));
    body.replaceChildren(...(state.tab === "node" ? nodePanel(state.graph, state.chosen, go, openBody)
      : state.tab === "model" ? modelPanel()
      : stepsPanel(state.graph, state.order, go, (order) => { state.order = order, panel(); })));
    body.scrollTop = 0;
  }

  // ---- search
  const matches = (node, words) => {
    const text = [node.name, node.op, runsAs(node), node.time ? node.time.kernel : "",
      ...node.outputs.filter((id) => id !== null).map((id) => state.graph.tensors[id].name)].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const search = () => {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    state.hits = words.length ? state.graph.nodes.filter((node) => matches(node, words)) : [];
    state.hit = -1;
    byId("found").textContent = words.length ? `${state.hits.length} found` : "";
    picture.mark(state.chosen, state.hits);
  };
  const nextHit = (by) => {
    if (!state.hits.length) return;
    state.hit = (state.hit + by + state.hits.length) % state.hits.length;
    byId("found").textContent = `${state.hit + 1} of ${state.hits.length}`;
    go(state.hits[state.hit]);
  };
  byId("search").addEventListener("input", search);
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") event.target.value = "", search(), byId("picture").focus();
    event.stopPropagation();
  });

  // ---- along the graph
  const neighbour = (key) => {
    const {graph, chosen} = state;
    if (!chosen) return graph.nodes[0];
    const i = graph.nodes.indexOf(chosen);
    const up = graph.edges.filter((edge) => edge.to === i).map((edge) => edge.from), down = graph.edges.filter((edge) => edge.from === i).map((edge) => edge.to);
    if (key === "ArrowUp") return graph.nodes[up[0]];
    if (key === "ArrowDown") return graph.nodes[down[0]];
    const beside = [...new Set(graph.edges.filter((edge) => up.includes(edge.from)).map((edge) => edge.to))];
    const at = beside.indexOf(i) + (key === "ArrowRight" ? 1 : -1);
    return graph.nodes[beside[at]];
  };

  const setTheme = (theme) => { document.documentElement.dataset.theme = theme; };
  const actions = {
    fit: () => picture.fit(),
    chains: () => {
      state.putTogether = !state.putTogether, picture.open.clear();
      byId("chains").setAttribute("aria-pressed", String(state.putTogether));
      picture.show(state.graph, state.putTogether), picture.begin();
      if (state.chosen) go(state.chosen);
    },
    heat: () => {
      if (!data.times) return;
      picture.heat = picture.heat === "time" ? "path" : "time";
      byId("heat").setAttribute("aria-pressed", String(picture.heat === "time"));
      document.body.classList.toggle("by-time", picture.heat === "time");
      picture.recolour();
    },
    theme: () => setTheme(getComputedStyle(document.documentElement).getPropertyValue("--dark").trim() === "1" ? "light" : "dark"),
    print: () => window.print(),
    help: () => byId("help").showModal(),
  };
  for (const name in actions) byId(name === "help" ? "ask" : name).addEventListener("click", actions[name]);
  for (const tab of ["node", "model", "steps"]) byId("tab-" + tab).addEventListener("click", () => { state.tab = tab, panel(); });
  byId("chains").setAttribute("aria-pressed", String(state.putTogether));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, dialog")) return;
    const step = 80, keys = {
      "/": () => byId("search").focus(), "+": () => picture.zoomBy(1.25), "=": () => picture.zoomBy(1.25), "-": () => picture.zoomBy(0.8),
      "0": actions.fit, f: actions.fit, c: actions.chains, t: actions.heat, d: actions.theme, "?": actions.help,
      n: () => nextHit(1), p: () => nextHit(-1), Escape: () => choose(null, false), Backspace: () => state.back.length && showGraph(state.back.pop()),
      w: () => picture.move(0, step), s: () => picture.move(0, -step), a: () => picture.move(step, 0), e: () => picture.move(-step, 0),
      1: () => byId("tab-node").click(), 2: () => byId("tab-model").click(), 3: () => byId("tab-steps").click(),
    };
    if (event.key.startsWith("Arrow")) {
      const node = neighbour(event.key);
      if (node) go(node);
    } else if (keys[event.key]) {
      keys[event.key]();
    } else {
      return;
    }
    event.preventDefault();
  });
  window.addEventListener("beforeprint", () => picture.beforePrint());
  window.addEventListener("afterprint", () => picture.afterPrint());

  document.title = data.title + " – Quarry";
  byId("title").textContent = data.title;
  byId("about").textContent = `${counted(state.graph.nodes.filter((node) => node.kind === "node").length)} on ${data.check.backend}`;
  if (data.calls && data.calls.length) new Timeline(byId("timeline"), (name) => {
    const node = state.graph.nodes.find((one) => one.kind === "node" && one.name === name);
    if (node) go(node);
  });
  else byId("timeline").hidden = true;
  byId("heat").hidden = !data.times;
  if (data.times) picture.heat = "path", showGraph(state.graph), actions.heat();
  else showGraph(state.graph);
  // What is after '#': node=NAME, body=NUMBER, search=TEXT, theme=dark, tab=steps, fit: for links and tests.
  const open = new URLSearchParams(location.hash.slice(1));
  if (open.has("theme")) setTheme(open.get("theme"));
  if (open.has("search")) byId("search").value = open.get("search"), search();
  const wanted = open.has("node") && state.graph.nodes.find((node) => node.name === open.get("node"));
  if (wanted) go(wanted);
  if (wanted && wanted.subgraphs && open.has("body")) openBody(wanted, wanted.subgraphs[Number(open.get("body"))] || wanted.subgraphs[0], Number(open.get("body")));
  if (open.has("tab")) byId("tab-" + open.get("tab")).click();
  if (open.has("fit")) picture.fit();
  if (open.has("expand")) actions.chains();
  document.body.dataset.ready = `${picture.boxes.length} boxes, ${picture.edges.length} ways`;
})();
