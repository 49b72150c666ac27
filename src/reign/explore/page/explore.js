"use strict";
// The page asks the server below its own address, and shows texts as texts and pictures as images: nothing that comes back can run.

const find = (id) => document.getElementById(id);
let state = { subgraphs: 0, subgraph: 0, graph: "", policy: "" };
let waiting = 0;

async function ask(name, question, errorPlace) {
  errorPlace.textContent = "";
  waiting += 1;
  document.body.classList.add("busy");
  try {
    const reply = await fetch(name, { method: "POST", body: JSON.stringify(question), headers: { "Content-Type": "application/json" } });
    const found = await reply.json();
    if (!reply.ok) throw new Error(found.error);
    return found;
  } catch (error) {
    errorPlace.textContent = error instanceof TypeError ? "The server does not answer; is reign explore still running?" : error.message;
    return null;
  } finally {
    waiting -= 1;
    document.body.classList.toggle("busy", waiting > 0);
  }
}

function picture(place, svg, words) {
  place.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg);
  place.alt = words;
}

function fill(table, rows) {
  const body = table.tBodies[0];
  body.replaceChildren(...rows.map((row) => {
    const line = document.createElement("tr");
    line.replaceChildren(...row.map((text) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      return cell;
    }));
    return line;
  }));
  table.hidden = rows.length === 0;
}

const number = (value) => (typeof value === "number" ? value.toPrecision(4) : "");

// a bag, and its subgraphs one by one

async function showBag(subgraph) {
  const found = await ask("bag", { graph: state.graph, policy: state.policy, subgraph }, find("bag-error"));
  if (found === null) return;
  state.subgraphs = found.subgraphs;
  state.subgraph = found.subgraph;
  find("sizes").textContent = `${found.nodes} nodes, ${found.edges} edges; policy ${found.policy}: ${found.subgraphs} subgraphs, ${found.pairs} pairs, ` +
    `${found.members} of them members`;
  const all = found.subgraph < 0;
  const several = found.drawn < found.subgraphs ? `the first ${found.drawn} of ${found.subgraphs} subgraphs` : `all ${found.subgraphs} subgraphs`;
  find("step").textContent = !found.subgraphs ? "no subgraphs" : all ? several : `subgraph ${found.subgraph} of 0 to ${found.subgraphs - 1}`;
  find("inside").textContent = found.subgraphs && !all ? `root ${found.root.join(", ") || "none"}; members ${found.inside.join(", ") || "none"}; ` +
    `${found.inner_edges} edges` : "";
  find("previous").disabled = all;
  find("next").disabled = found.subgraph >= found.subgraphs - 1;
  picture(find("picture"), found.picture, all ? `The bag of ${found.name}` : `Subgraph ${found.subgraph} of ${found.name}`);
}

function show() {
  state.graph = find("graph").value;
  state.policy = find("policy").value;
  return showBag(-1);
}
find("show").addEventListener("click", show);
find("previous").addEventListener("click", () => showBag(state.subgraph - 1));
find("next").addEventListener("click", () => showBag(state.subgraph + 1));

// two graphs

find("go").addEventListener("click", async () => {
  const question = { one: find("one").value, other: find("other").value, policy: find("compare-policy").value };
  const found = await ask("compare", question, find("compare-error"));
  const said = { true: "yes", false: "no", null: "not possible" };
  fill(find("verdicts"), found === null ? [] : found.rows.map((row) => [row.method, said[row.separated], row.text]));
});

// a run

find("predict").addEventListener("click", async () => {
  const found = await ask("predict", { smiles: find("smiles").value, target: find("target").value }, find("run-error"));
  if (found === null) return;
  const alone = found.name !== "prediction"; // a forest predicts, too: then the uncertainty is not that of this number
  const unc = alone ? null : found.row[`${found.target}_unc`];
  find("prediction").textContent = `${found.target}: ${number(found.prediction)}` + (alone ? ` (${found.name})` : "") + (typeof unc === "number" ? ` ± ${number(unc)}` : "") +
    `; error of the sum of all scores: ${number(found.error)}` +
    (found.row.warning ? `; warning: ${found.row.warning}` : "");
  picture(find("molecule"), found.molecule, "Atoms and bonds in the colours of their scores");
  picture(find("matrix"), found.matrix, "What each node adds in each subgraph");
  fill(find("atoms"), found.atoms.map(([atom, score, without]) => [atom, number(score), number(without)]));
});

// drawing

const SVG = "http://www.w3.org/2000/svg";
let nodes = [];
let edges = new Set();
let chosen = null;

function make(kind, attributes, text) {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function redraw() {
  const lines = [...edges].map((edge) => {
    const [a, b] = edge.split("-").map((word) => nodes[Number(word)]);
    return make("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y });
  });
  const dots = nodes.flatMap((node, i) => [
    make("circle", { cx: node.x, cy: node.y, r: 10, "data-node": i, class: i === chosen ? "chosen" : "" }),
    make("text", { x: node.x, y: node.y }, String(i)),
  ]);
  find("paper").replaceChildren(...lines, ...dots);
}

find("paper").addEventListener("click", (event) => {
  const node = event.target.dataset.node;
  if (node === undefined) {
    const box = find("paper").getBoundingClientRect();
    nodes.push({ x: ((event.clientX - box.left) * 300) / box.width, y: ((event.clientY - box.top) * 220) / box.height });
  } else if (chosen === null) {
    chosen = Number(node);
  } else {
    const [a, b] = [chosen, Number(node)].sort((one, other) => one - other);
    if (a !== b && !edges.delete(`${a}-${b}`)) edges.add(`${a}-${b}`);
    chosen = null;
  }
  redraw();
});

function drawn() {
  const joined = new Set([...edges].flatMap((edge) => edge.split("-").map(Number)));
  return [...edges, ...nodes.map((_, i) => i).filter((i) => !joined.has(i))].join(",");
}

for (const [button, place] of [["use", "graph"], ["use-one", "one"], ["use-other", "other"]]) {
  find(button).addEventListener("click", () => { find(place).value = drawn(); });
}
find("clear").addEventListener("click", () => {
  nodes = [];
  edges = new Set();
  chosen = null;
  redraw();
});

// what there is to choose from, and the first picture

(async () => {
  const found = await ask("start", {}, find("bag-error"));
  if (found === null) return;
  const option = (value) => {
    const made = document.createElement("option");
    made.value = made.textContent = value;
    return made;
  };
  find("policies").replaceChildren(...found.policies.map(option));
  find("target").replaceChildren(...found.targets.map(option));
  find("run").hidden = found.run === null;
  find("run-name").textContent = found.run ?? "";
  find("graph").value = found.graph;
  await show();
  document.body.dataset.ready = "yes";
})();
