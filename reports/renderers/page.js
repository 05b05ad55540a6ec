"use strict";
(() => {
  const root = document.documentElement;

  // Light and dark: the reader's system decides until the button is used.
  const button = document.getElementById("theme");
  const remember = (value) => { try { localStorage.setItem("rankscope-theme", value); } catch { /* private window */ } };
  const remembered = () => { try { return localStorage.getItem("rankscope-theme"); } catch { return null; } };
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (["light", "dark"].includes(remembered())) root.dataset.theme = remembered();
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remember(root.dataset.theme);
  });

  // Copy buttons.
  for (const copy of document.querySelectorAll("button.copy")) {
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      const line = copy.previousElementSibling;
      try {
        await navigator.clipboard.writeText(line.textContent);
      } catch {
        getSelection().selectAllChildren(line);
        document.execCommand("copy");
      }
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    });
  }

  // Tables sort by the exact value; what is unknown stays last.
  const value = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    if (cell.classList.contains("unknown")) return null;
    return cell.textContent;
  };
  const order = (a, b) => typeof a === "number" && typeof b === "number"
    ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  const sort = (table, column, heading) => {
    const down = heading.getAttribute("aria-sort") !== "descending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => {
      const x = value(a, column), y = value(b, column);
      if (x === null || y === null) return (x === null) - (y === null);
      return down ? order(y, x) : order(x, y);
    });
    table.tBodies[0].append(...rows);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const by = document.createElement("button");
      by.type = "button";
      by.textContent = heading.textContent;
      heading.replaceChildren(by);
      by.addEventListener("click", () => sort(table, column, heading));
    });
  }

  // A legend entry under the pointer shows its part in every bar.
  for (const entry of document.querySelectorAll(".legend li")) {
    const figure = entry.closest("figure");
    entry.addEventListener("pointerenter", () => {
      for (const part of figure.querySelectorAll(".bar rect")) {
        part.classList.toggle("dim", !part.classList.contains("b-" + entry.dataset.bucket));
      }
    });
    entry.addEventListener("pointerleave", () => {
      for (const part of figure.querySelectorAll(".bar rect.dim")) part.classList.remove("dim");
    });
  }

  // Tooltips at once instead of after a second; without this script the browser's own appear.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const text = (target) => {
    const title = target.querySelector(":scope > title");
    if (title) {
      target.dataset.tip = title.textContent;
      title.remove();
    } else if (target.title) {
      target.dataset.tip = target.title;
      target.removeAttribute("title");
    }
    return target.dataset.tip;
  };
  document.addEventListener("pointermove", (event) => {
    const target = event.target.closest ? event.target.closest("rect, [title], [data-tip]") : null;
    const shown = target ? text(target) : "";
    tip.hidden = !shown;
    if (!shown) return;
    tip.textContent = shown;
    const across = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18 + tip.offsetHeight > innerHeight;
    tip.style.setProperty("left", Math.max(8, across) + "px");
    tip.style.setProperty("top", (below ? event.clientY - tip.offsetHeight - 12 : event.clientY + 18) + "px");
  });
  document.addEventListener("pointerleave", () => { tip.hidden = true; });
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  // Links open what they point to; paper shows everything.
  const open = () => {
    const target = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
    const folded = target ? target.querySelector(":scope > details") : null;
    if (folded) folded.open = true;
  };
  addEventListener("hashchange", open);
  open();
  addEventListener("beforeprint", () => { for (const each of document.querySelectorAll("details")) each.open = true; });

  // The section in view is marked in the navigation.
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      const link = links.get(entry.target.id);
      if (link) link.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const section of document.querySelectorAll("main > section")) seen.observe(section);
})();
