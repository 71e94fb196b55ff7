"use strict";
// Charts in the page's colours, a choice of views, the theme, copying, and the section in sight.
(async () => {
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const merge = (base, more) => {
    const result = { ...base };
    for (const [key, value] of Object.entries(more)) {
      const nested = value && typeof value === "object" && !Array.isArray(value) && result[key];
      result[key] = nested ? merge(result[key], value) : value;
    }
    return result;
  };

  function layoutOf(chart) {
    const axis = { gridcolor: color("--grid"), zerolinecolor: color("--grid"), linecolor: color("--line"), automargin: true };
    const base = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
      font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: color("--soft") },
      margin: { l: 56, r: 12, t: 8, b: 44 }, xaxis: axis, yaxis: axis,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: color("--ink") }, itemsizing: "constant" },
      hoverlabel: { bgcolor: color("--panel"), bordercolor: color("--line"), font: { color: color("--ink") }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: color("--soft"), activecolor: color("--accent") }, uirevision: "kept",
    };
    return merge(base, chart.layout);
  }

  // Colours are chosen for white paper; on black they are a little lighter.
  function tint(value) {
    if (Array.isArray(value)) return value.map(tint);
    if (root.dataset.theme !== "dark" || !/^#[0-9a-f]{6}$/i.test(value)) return value;
    const lighter = [1, 3, 5].map((at) => Math.round(0.78 * parseInt(value.slice(at, at + 2), 16) + 0.22 * 255));
    return `rgb(${lighter.join(",")})`;
  }

  function tracesOf(traces, points) {
    return traces.map(({ members, ends, ...trace }) => {
      if (members) for (const key of Object.keys(points)) trace[key] = members.map((member) => points[key][member]);
      if (ends) {
        for (const axis of ["x", "y"]) {
          trace[axis] = ends[0].flatMap((start, line) => [points[axis][start], points[axis][ends[1][line]], null]);
        }
      }
      if (trace.colorscale === "theme") trace.colorscale = [[0, color("--low")], [1, color("--high")]];
      for (const part of ["marker", "line"]) if (trace[part]?.color) trace[part] = { ...trace[part], color: tint(trace[part].color) };
      if (trace.marker?.line?.color === "theme") trace.marker.line = { ...trace.marker.line, color: color("--panel") };
      return trace;
    });
  }

  async function draw(name) {
    const chart = charts[name];
    const place = document.getElementById("chart-" + name);
    const chosen = document.querySelector(`input[data-chart="${name}"]:checked`);
    const view = chosen ? chosen.value : Object.keys(chart.views)[0];
    const settings = {
      responsive: true, displaylogo: false, displayModeBar: true,
      modeBarButtons: [["toImage", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    };
    await Plotly.react(place, tracesOf([...chart.ground, ...chart.views[view]], chart.points), layoutOf(chart), settings);
    place.dataset.view = view;
    for (const button of place.querySelectorAll(".modebar-btn:not([tabindex])")) {
      button.setAttribute("tabindex", "0");
      button.setAttribute("role", "button");
      button.setAttribute("aria-label", button.dataset.title || "");
      button.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); button.click(); }
      });
    }
  }

  const remembered = { get() { try { return localStorage.getItem("gpnn-theme"); } catch { return null; } },
                       set(value) { try { localStorage.setItem("gpnn-theme", value); } catch { /* a private window */ } } };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  function show(theme) {
    root.dataset.theme = theme;
    button.setAttribute("aria-pressed", String(theme === "dark"));
    if (window.Plotly) for (const name of Object.keys(charts)) if (document.getElementById("chart-" + name).dataset.view) draw(name);
  }
  show(remembered.get() || (dark.matches ? "dark" : "light"));
  button.addEventListener("click", () => {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    remembered.set(theme);
    show(theme);
  });
  dark.addEventListener("change", () => { if (!remembered.get()) show(dark.matches ? "dark" : "light"); });

  for (const input of document.querySelectorAll("input[data-chart]")) {
    input.addEventListener("change", () => draw(input.dataset.chart));
  }
  for (const panel of document.querySelectorAll(".search")) {
    const find = panel.querySelector("input[type=search]"), bodies = [...panel.querySelectorAll("tbody")];
    const look = () => {
      const chosen = bodies[Number(panel.querySelector("input[type=radio]:checked").value)], words = find.value.trim().toLowerCase();
      for (const body of bodies) body.hidden = body !== chosen;
      for (const row of chosen.rows) row.hidden = !row.textContent.toLowerCase().includes(words);
      const found = [...chosen.rows].filter((row) => !row.hidden).length;
      panel.querySelector(".count").textContent = found < chosen.rows.length ? `${found} of ${chosen.rows.length}` : `${found} nodes`;
    };
    panel.addEventListener("input", look);
    look();
  }
  const unfold = () => { const fold = document.getElementById(location.hash.slice(1))?.querySelector("details"); if (fold) fold.open = true; };
  addEventListener("hashchange", unfold);
  unfold();
  let before = null;  // paper is white, and narrower than the screen; its size is known to nobody before it is printed
  const resize = (size) => { for (const place of document.querySelectorAll(".chart[data-view]")) Plotly.relayout(place, size(place)); };
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    if (before === "dark") show("light");
    resize((place) => ({ autosize: false, width: 640, height: Math.min(place.clientHeight, 840) }));
  });
  addEventListener("afterprint", () => {
    if (before === "dark") show("dark");
    before = null;
    resize(() => ({ autosize: true, width: null, height: null }));
  });
  for (const copy of document.querySelectorAll(".copy")) {
    copy.addEventListener("click", async () => {
      const text = copy.closest(".panel").querySelector("pre").textContent;
      try { await navigator.clipboard.writeText(text); copy.textContent = "Copied"; } catch { copy.textContent = "Not allowed here"; }
      setTimeout(() => { copy.textContent = "Copy"; }, 1600);
    });
  }

  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) seen[entry.isIntersecting ? "add" : "delete"](entry.target.id);
    const first = [...links.keys()].find((name) => seen.has(name));
    for (const [name, link] of links) name === first ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
  }, { rootMargin: "-130px 0px -55% 0px" });
  for (const name of links.keys()) observer.observe(document.getElementById(name));

  if (!Object.keys(charts).length) { root.dataset.ready = "true"; return; }
  try {
    const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const library = document.createElement("script");
    library.nonce = document.currentScript?.nonce || document.querySelector("script[nonce]").nonce;
    library.textContent = await new Response(stream).text();
    document.head.append(library);
    for (const name of Object.keys(charts)) {
      await draw(name);
      await new Promise((resolve) => setTimeout(resolve));
    }
    root.dataset.ready = "true";
  } catch (error) {
    const problem = document.getElementById("problem");
    problem.textContent = `The charts could not be drawn (${error.message}). They need a browser of 2023 or newer.`;
    problem.hidden = false;
  }
})();
