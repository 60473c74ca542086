// Elements made of text and attributes: nothing here, or anywhere on the page, reads HTML.

import { NOTHING } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

// Make an HTML element; functions among the attributes listen to the event of their name.
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// Make an SVG element.
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Make a table with its caption for screen readers; a cell is text, a number (right) or an element.
export function table(caption, columns, rows) {
  const isNumber = (place) => rows.some((row) => typeof row[place] === "number");
  const head = columns.map((name, place) => el("th", { scope: "col", class: isNumber(place) && "number" }, name));
  const body = rows.map((row) => el("tr", {}, ...row.map(cell)));
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {}, el("caption", { class: "unseen" }, caption), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body)),
  );
}

export function cell(value) {
  if (value instanceof Node) return el("td", {}, value);
  const isNumber = typeof value === "number";
  return el("td", isNumber ? { class: "number" } : {}, isNumber ? value.toLocaleString("en") : (value ?? ""));
}

// On a narrow screen each row is a card: cells from `first` on carry the names of their columns, and those
// that hold nothing are left out.
export function label(body, columns, first) {
  for (const line of body.rows) {
    [...line.cells].forEach((one, place) => {
      if (place >= first) one.setAttribute("data-column", columns[place]);
      one.classList.toggle("nothing", one.textContent === "" || one.textContent === NOTHING);
    });
  }
}

// A table whose rows are cards on a narrow screen, cells from `first` on with the names of their columns.
export function cards(holder, columns, first = 0) {
  holder.classList.add("cards");
  label(holder.querySelector("tbody"), columns, first);
  return holder;
}

export function section(title, ...children) {
  return el("section", {}, el("h2", {}, title), ...children);
}

export function note(text) {
  return el("p", { class: "note" }, text);
}
