// SPDX-License-Identifier: Apache-2.0
// Places the boxes of a graph in layers, inputs at the top: ranks by the longest way from an input, order within a
// rank by the mean place of the neighbours, then as straight as the order allows.
"use strict";

// boxes: [{width, height}]; edges: [{from, to}] of indices, without a cycle.
// Gives {x, y (centres), width, height, ways: [[{x, y}...]]} with one way for each edge.
function layOut(boxes, edges) {
  const gapX = 28, gapY = 40, most = 24000;
  const count = boxes.length, into = boxes.map(() => []), outOf = boxes.map(() => []);
  edges.forEach((edge, i) => { into[edge.to].push(i); outOf[edge.from].push(i); });

  // Ranks, in topological order.
  const rank = new Int32Array(count), waiting = Int32Array.from(into, (list) => list.length), order = [];
  for (let i = 0; i < count; i++) if (!waiting[i]) order.push(i);
  for (let k = 0; k < order.length; k++)
    for (const e of outOf[order[k]]) {
      const to = edges[e].to;
      rank[to] = Math.max(rank[to], rank[order[k]] + 1);
      if (--waiting[to] === 0) order.push(to);
    }
  for (let k = order.length - 1; k >= 0; k--) {  // what has no input stands where it is used
    const i = order[k];
    if (!into[i].length && outOf[i].length) rank[i] = Math.min(...outOf[i].map((e) => rank[edges[e].to])) - 1;
  }

  // An edge over several ranks goes through a place in each. Where that would be too many, the longest go straight.
  const spans = edges.map((edge, i) => ({i, span: rank[edge.to] - rank[edge.from] - 1})).sort((a, b) => a.span - b.span);
  let left = most;
  const items = [], layers = [], neighbours = [];
  const add = (layer, width, box) => {
    (layers[layer] = layers[layer] || []).push(items.length);
    neighbours.push({up: [], down: []});
    items.push({layer, width, box, x: 0, at: 0});
    return items.length - 1;
  };
  for (const i of order) add(rank[i], boxes[i].width + gapX, i);
  const itemOf = new Int32Array(count);
  items.forEach((item, k) => { itemOf[item.box] = k; });
  const through = edges.map(() => null);
  for (const {i, span} of spans) {
    const edge = edges[i];
    if (span > left) continue;
    left -= Math.max(span, 0);
    let last = itemOf[edge.from];
    through[i] = [];
    for (let r = rank[edge.from] + 1; r < rank[edge.to]; r++) {
      const place = add(r, 14, -1);
      through[i].push(place);
      neighbours[last].down.push(place), neighbours[place].up.push(last);
      last = place;
    }
    neighbours[last].down.push(itemOf[edge.to]), neighbours[itemOf[edge.to]].up.push(last);
  }

  // Order within the ranks.
  const number = (layer) => layer.forEach((k, at) => { items[k].at = at; });
  layers.forEach(number);
  const mean = (list, of) => list.reduce((sum, k) => sum + of(items[k]), 0) / list.length;
  const relative = (item) => (item.at + 0.5) / layers[item.layer].length;
  for (let sweep = 0; sweep < 14; sweep++) {
    const down = sweep % 2 === 0;
    for (let step = 1; step < layers.length; step++) {
      const layer = layers[down ? step : layers.length - 1 - step];
      if (layer.length < 2) continue;
      const key = new Map(layer.map((k) => {
        const list = down ? neighbours[k].up : neighbours[k].down;
        return [k, list.length ? mean(list, relative) : relative(items[k])];
      }));
      layer.sort((a, b) => key.get(a) - key.get(b) || items[a].at - items[b].at);
      number(layer);
    }
  }

  // Places: each rank as near to what its items want as the order allows (pool adjacent violators).
  const settle = (layer, wish, weight) => {
    const offsets = [], blocks = [];
    let offset = 0;
    layer.forEach((k, i) => {
      if (i) offset += (items[layer[i - 1]].width + items[k].width) / 2;
      offsets.push(offset);
      let block = {sum: (wish(k) - offset) * weight(k), weight: weight(k), size: 1};
      while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].weight >= block.sum / block.weight) {
        const before = blocks.pop();
        block = {sum: before.sum + block.sum, weight: before.weight + block.weight, size: before.size + block.size};
      }
      blocks.push(block);
    });
    let at = 0;
    for (const block of blocks)
      for (let i = 0; i < block.size; i++, at++) items[layer[at]].x = block.sum / block.weight + offsets[at];
  };
  for (const layer of layers) settle(layer, () => 0, () => 1);
  const place = (item) => item.x;
  // A box stands below the boxes that it takes from; a long edge that ends there does not pull it aside.
  const nearest = (k, list) => {
    const real = items[k].box < 0 ? [] : list.filter((other) => items[other].box >= 0);
    return mean(real.length ? real : list, place);
  };
  for (let sweep = 0; sweep < 16; sweep++) {
    const down = sweep % 2 === 0;
    for (let step = 0; step < layers.length; step++) {
      const layer = layers[down ? step : layers.length - 1 - step];
      settle(layer, (k) => {
        const list = down ? neighbours[k].up : neighbours[k].down;
        const other = down ? neighbours[k].down : neighbours[k].up;
        if (sweep >= 12 && list.length && other.length) return (nearest(k, list) + nearest(k, other)) / 2;
        return list.length ? nearest(k, list) : items[k].x;
      }, (k) => (items[k].box < 0 ? 0.3 : 1));  // edges go round boxes, not boxes round edges
    }
  }

  const tops = [];
  let height = 0;
  for (const layer of layers) {
    const tallest = Math.max(...layer.map((k) => (items[k].box < 0 ? 0 : boxes[items[k].box].height)));
    tops.push({top: height, tall: tallest});
    height += tallest + gapY;
  }
  let low = Infinity, high = -Infinity;
  for (const item of items) {
    low = Math.min(low, item.x - item.width / 2);
    high = Math.max(high, item.x + item.width / 2);
  }
  if (!items.length) low = high = 0;
  const x = new Float64Array(count), y = new Float64Array(count);
  items.forEach((item) => {
    item.x -= low;
    if (item.box < 0) return;
    x[item.box] = item.x;
    y[item.box] = tops[item.layer].top + tops[item.layer].tall / 2;
  });
  const ways = edges.map((edge, i) => {
    const way = [{x: x[edge.from], y: y[edge.from] + boxes[edge.from].height / 2}];
    for (const k of through[i] || []) {
      const {top, tall} = tops[items[k].layer];
      way.push({x: items[k].x, y: top}, {x: items[k].x, y: top + tall});
    }
    way.push({x: x[edge.to], y: y[edge.to] - boxes[edge.to].height / 2});
    return way;
  });
  return {x, y, width: high - low, height: Math.max(height - gapY, 0), ways};
}
