"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const PAGE = 4096, SECTOR = 512, UNITS_MAX = 600, LINES_MAX = 12;
  const byId = (id) => document.getElementById(id);
  const made = (name, text, kind) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };

  // Bytes, once asked for. None where the page had no room for them.
  const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stepBytes = data.events.map(() => undefined);
  const bytesOfStep = (event) => {
    const step = data.events[event];
    if (stepBytes[event] === undefined) {
      stepBytes[event] = step[5] === null ? null : bytesOf(step[5]);
    }
    return stepBytes[event];
  };

  // A directory tree: nodes are made anew where they change.
  const base = data.nodes.map((node) => {
    if (node.dir) return { dir: new Map(Object.entries(node.dir)) };
    if (node.link !== undefined) return { link: node.link };
    const pages = new Map(), unknown = new Set();
    for (const [number, text] of node.pages) {
      if (text === null) { unknown.add(number); continue; }
      const page = new Uint8Array(PAGE);
      page.set(bytesOf(text));
      pages.set(number, page);
    }
    return { size: node.size, pages, unknown };
  });
  const copied = (node) => node.dir ? { dir: new Map(node.dir) }
    : node.pages ? { size: node.size, pages: new Map(node.pages), unknown: new Set(node.unknown) } : node;

  const write = (file, offset, length, bytes, from) => {
    for (let done = 0; done < length;) {
      const at = offset + done, number = Math.floor(at / PAGE), within = at % PAGE;
      const part = Math.min(PAGE - within, length - done);
      const page = file.pages.get(number)?.slice() ?? new Uint8Array(PAGE);
      if (bytes === null) file.unknown.add(number);
      // Zeros at the end of a step's bytes are left out.
      else for (let i = 0; i < part; i++) page[within + i] = bytes[from + done + i] ?? 0;
      file.pages.set(number, page);
      done += part;
    }
  };
  const cut = (file, size) => {
    file.size = size;
    for (const number of [...file.pages.keys()]) {
      if (number * PAGE >= size) file.pages.delete(number);
      else if ((number + 1) * PAGE > size) {
        const page = file.pages.get(number).slice();
        page.fill(0, size - number * PAGE);
        file.pages.set(number, page);
      }
    }
  };
  const apply = (tree, touched, unit) => {
    const [event, , offset, length] = unit, step = data.events[event];
    const own = (id) => {
      if (!touched.has(id)) { tree[id] = copied(tree[id]); touched.add(id); }
      return tree[id];
    };
    switch (step[0]) {
      case "data": write(own(step[2]), offset, length, bytesOfStep(event), offset - step[3]); break;
      case "size": own(step[2]).size = step[3]; break;
      case "cut": cut(own(step[2]), step[3]); break;
      case "name":
        if (step[4] === null) own(step[2]).dir.delete(step[3]); else own(step[2]).dir.set(step[3], step[4]);
        break;
      case "move": {
        const from = own(step[2]).dir;
        if (step[7] === null) from.delete(step[3]); else from.set(step[3], step[7]);
        own(step[4]).dir.set(step[5], step[6]);
      }
    }
  };
  // The directory with the first `below` units and `kept`.
  const treeOf = (model, below, kept) => {
    const tree = base.slice(), touched = new Set();
    for (let unit = 0; unit < below; unit++) apply(tree, touched, model.units[unit]);
    for (const unit of [...kept].sort((a, b) => a - b)) apply(tree, touched, model.units[unit]);
    return tree;
  };
  const filesOf = (tree) => {
    const files = new Map();
    const walk = (id, path, depth) => {
      for (const [name, child] of [...tree[id].dir].sort((a, b) => a[0] < b[0] ? -1 : 1)) {
        const node = tree[child], here = path ? path + "/" + name : name;
        files.set(node.dir ? here + "/" : here, node);
        if (node.dir && depth < 64) walk(child, here, depth + 1);
      }
    };
    walk(0, "", 0);
    return files;
  };

  // What of the run is there at a moment, as in the search.
  let model = data.models[0], now = null, kept = new Set();
  const momentAt = (event) => {
    const next = model.moments.find((moment) => moment[0] >= event) ?? model.moments.at(-1);
    let units = 0;
    while (units < model.units.length && model.units[units][0] < event) units++;
    const forced = new Set(next[3].filter((unit) => unit < units));
    let [issued, acked] = data.promised;
    for (const step of data.events.slice(0, event)) {
      if (step[0] === "issued") issued = Math.max(issued, step[2]);
      if (step[0] === "acked") acked = Math.max(acked, step[2]);
    }
    return { event, units, below: Math.min(next[2], units), forced, issued, acked };
  };
  const isForced = (unit) => unit < now.below || now.forced.has(unit);
  const pending = () => {
    const found = [];
    for (let unit = now.below; unit < now.units; unit++) if (!now.forced.has(unit)) found.push(unit);
    return found;
  };
  const keep = (unit) => {
    if (isForced(unit) || kept.has(unit)) return;
    kept.add(unit);
    model.units[unit][1].forEach(keep);
  };
  // Units come after what they need: one pass finds all that depends on the dropped one.
  const drop = (dropped) => {
    const gone = new Set([dropped]);
    for (const unit of pending()) {
      if (unit > dropped && model.units[unit][1].some((need) => gone.has(need))) gone.add(unit);
    }
    gone.forEach((unit) => kept.delete(unit));
  };

  const unitText = (unit) => {
    const [event, , offset, length] = model.units[unit], step = data.events[event];
    const call = data.calls[step[1]][1];
    return step[0] === "data" ? `${length} bytes at ${offset} of: ${call}`
      : step[0] === "size" ? `the size ${step[3]} of: ${call}` : call;
  };
  const showUnits = () => {
    const list = byId("units"), units = pending();
    const row = (unit) => {
      const item = made("li"), label = made("label"), box = made("input");
      box.type = "checkbox";
      box.checked = kept.has(unit);
      box.dataset.unit = unit;
      item.className = box.checked ? "" : "dropped";
      label.append(box, made("b", String(unit)), made("span", unitText(unit)));
      item.append(label);
      return item;
    };
    const rows = units.slice(-UNITS_MAX).map(row);
    if (units.length > UNITS_MAX) rows.unshift(made("li", `${units.length - UNITS_MAX} earlier ones are left out`, "forced"));
    rows.unshift(made("li", `${now.units - units.length} changes before are durable`, "forced"));
    const place = list.scrollTop;
    list.replaceChildren(...rows);
    list.scrollTop = place;
    byId("counts").textContent = `${units.filter((unit) => kept.has(unit)).length} of ${units.length} pending ones kept`;
  };

  const byte = (file, at) => at < (file?.size ?? 0) ? file.pages.get(Math.floor(at / PAGE))?.[at % PAGE] ?? 0 : null;
  const sectorsThatDiffer = (one, other) => {
    const numbers = new Set([...one.pages.keys(), ...other.pages.keys()]), found = [];
    const end = Math.max(one.size, other.size), least = Math.min(one.size, other.size);
    if (one.size !== other.size) { numbers.add(Math.floor(least / PAGE)); }
    for (const number of [...numbers].sort((a, b) => a - b)) {
      const mine = one.pages.get(number), theirs = other.pages.get(number);
      if (mine === theirs && (number + 1) * PAGE <= least) continue;
      for (let at = number * PAGE; at < Math.min((number + 1) * PAGE, end); at += SECTOR) {
        for (let i = at; i < Math.min(at + SECTOR, end); i++) {
          if (byte(one, i) !== byte(other, i)) { found.push(at); break; }
        }
      }
    }
    return found;
  };
  const hex = (value) => value === null ? "··" : value.toString(16).padStart(2, "0");
  const letter = (value) => value === null ? " " : value > 31 && value < 127 ? String.fromCharCode(value) : ".";
  const dump = (path, file, whole, sectors) => {
    const box = made("div");
    box.append(made("h4", `${path}: ${sectors.length} sector${sectors.length === 1 ? "" : "s"} of ${SECTOR} bytes differ${sectors.length === 1 ? "s" : ""}`));
    const pre = made("div", undefined, "hex");
    pre.tabIndex = 0;
    pre.setAttribute("aria-label", `Bytes of ${path}: in this state, then as the program saw them`);
    let lines = 0, left = 0;
    const end = Math.max(file.size, whole.size);
    for (const sector of sectors) {
      for (let at = sector; at < Math.min(sector + SECTOR, end); at += 16) {
        const places = [...Array(Math.min(16, end - at)).keys()].map((i) => at + i);
        if (places.every((i) => byte(file, i) === byte(whole, i))) continue;
        if (++lines > LINES_MAX) { left++; continue; }
        const put = (of, against, tag) => {
          pre.append(made("i", `${at.toString(16).padStart(8, "0")}  `));
          for (const i of places) {
            const text = hex(byte(of, i));
            pre.append(byte(of, i) === byte(against, i) ? text : made(tag, text), " ");
          }
          pre.append("   ".repeat(16 - places.length) + " " + places.map((i) => letter(byte(of, i))).join("") + "\n");
        };
        put(file, whole, "mark");
        put(whole, file, "ins");
      }
    }
    if (left) pre.append(made("i", `${left} more lines differ\n`));
    box.append(pre);
    return box;
  };
  const showFiles = () => {
    const all = new Set();
    for (let unit = now.below; unit < now.units; unit++) all.add(unit);
    const there = new Set(kept);
    now.forced.forEach((unit) => there.add(unit));
    const state = filesOf(treeOf(model, now.below, there)), whole = filesOf(treeOf(model, now.below, all));
    const rows = [], dumps = [];
    for (const path of [...new Set([...state.keys(), ...whole.keys()])].sort()) {
      const mine = state.get(path), theirs = whole.get(path), row = made("tr");
      const name = made("th", path);
      name.scope = "row";
      const told = made("td", "the same", "text good");
      const wrong = (text) => { told.textContent = text; told.className = "text bad"; };
      if (!mine) { row.className = "gone"; wrong("missing"); }
      else if (!theirs) wrong("still there");
      else if (mine.pages && theirs.pages) {
        const sectors = sectorsThatDiffer(mine, theirs);
        const unknown = mine.unknown.size + theirs.unknown.size > 0;
        if (mine.size !== theirs.size || sectors.length) {
          wrong(mine.size !== theirs.size ? `${theirs.size} bytes there` : "other bytes");
          if (!unknown) dumps.push(dump(path, mine, theirs, sectors));
        }
        if (unknown) told.textContent += "; some content is not in this page";
      } else if (mine.link !== theirs.link || !mine.dir !== !theirs.dir) wrong("another kind");
      const node = mine ?? theirs;
      row.append(name, made("td", node.dir ? "" : node.link !== undefined ? "→ " + node.link : String(node.size)), told);
      rows.push(row);
    }
    byId("files").replaceChildren(...rows);
    if (!rows.length) {
      const row = made("tr");
      row.append(made("th", "nothing"));
      byId("files").append(row);
    }
    byId("bytes").replaceChildren(...dumps.slice(0, 8));
  };

  const lanes = byId("lanes");
  const showLine = () => {
    if (!lanes) return;
    let line = byId("crash-line");
    if (!line) {
      line = document.createElementNS("http://www.w3.org/2000/svg", "g");
      line.id = "crash-line";
      const stroke = document.createElementNS("http://www.w3.org/2000/svg", "line");
      stroke.setAttribute("y1", 8);
      stroke.setAttribute("y2", lanes.viewBox.baseVal.height - 20);
      const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
      text.setAttribute("y", lanes.viewBox.baseVal.height - 6);
      text.setAttribute("text-anchor", "middle");
      text.textContent = "power fails";
      line.append(stroke, text);
      lanes.append(line);
    }
    const before = [...lanes.querySelectorAll(".call")].filter((call) => Number(call.dataset.event) < now.event).length;
    const x = Number(lanes.dataset.left) + Number(lanes.dataset.step) * before;
    line.setAttribute("transform", `translate(${x} 0)`);
    return x;
  };
  const show = () => {
    const step = data.events[now.event];
    byId("event").value = now.event;
    byId("event-number").textContent = `${now.event} of ${data.events.length}`;
    byId("place").textContent = (step ? `Before: ${data.calls[step[1]][1]}. ` : "At the end of the run. ")
      + `${now.issued} begun, ${now.acked} acknowledged. ${model.name}: ${model.about}.`;
    showUnits();
    showFiles();
    showLine();
  };
  const goTo = (event, lost) => {
    now = momentAt(event);
    kept = new Set(pending());
    (lost ?? []).forEach(drop);
    show();
  };
  const colour = (crash) => {
    if (!lanes) return;
    for (const call of lanes.querySelectorAll(".call")) {
      call.classList.toggle("lost", !!crash && Number(call.dataset.call) === crash.lostCall);
      call.classList.toggle("kept", !!crash && Number(call.dataset.call) === crash.keptCall);
    }
  };
  const choose = (index) => {
    const crash = data.crashes[index];
    for (const button of document.querySelectorAll("button.show")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.finding) === index));
    }
    model = data.models[crash.model];
    byId("model").value = crash.model;
    colour(crash);
    goTo(crash.event, crash.lost);
    const x = showLine(), plot = lanes?.closest(".plot");
    if (plot) plot.scrollLeft = Math.max(0, x - plot.clientWidth * 0.7);
  };

  if (!data.models.length) return;
  byId("crash").hidden = false;
  data.models.forEach((one, index) => byId("model").append(new Option(one.name, index)));
  byId("event").max = data.events.length;
  byId("model").addEventListener("change", (e) => { model = data.models[e.target.value]; goTo(now.event); });
  byId("event").addEventListener("input", (e) => goTo(Number(e.target.value)));
  byId("step-back").addEventListener("click", () => goTo(Math.max(0, now.event - 1)));
  byId("step-on").addEventListener("click", () => goTo(Math.min(data.events.length, now.event + 1)));
  byId("keep-all").addEventListener("click", () => { kept = new Set(pending()); show(); });
  byId("drop-all").addEventListener("click", () => { kept.clear(); show(); });
  byId("units").addEventListener("change", (e) => {
    const unit = Number(e.target.dataset.unit);
    if (e.target.checked) keep(unit); else drop(unit);
    show();
    byId("units").querySelector(`[data-unit="${unit}"]`)?.focus();
  });
  lanes?.addEventListener("click", (e) => {
    const call = e.target.closest(".call");
    if (call) goTo(Number(call.dataset.event) + 1);
  });
  for (const button of document.querySelectorAll("button.show")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      choose(Number(button.dataset.finding));
      byId("explorer").scrollIntoView();
    });
  }
  const first = data.crashes.findIndex((crash) => crash);
  if (first >= 0) choose(first); else goTo(data.events.length);
})();
