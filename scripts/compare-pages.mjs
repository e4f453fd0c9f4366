// Compares pages with what Sealane makes of them; see compare-pages.sh.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { gzipSync } from "node:zlib";
import { parse as parseScript } from "acorn";
import * as css from "css-tree";
import { parse as parsePage } from "parse5";

const [directory, server] = process.argv.slice(2);
const MAX_PAGES = Number(process.env.MAX_PAGES ?? 40);
const HTML = "http://www.w3.org/1999/xhtml";
const SHOWN = new Set(["pre", "textarea", "listing", "xmp", "plaintext", "code", "samp", "kbd"]);
const RAW = new Set(["script", "style", "iframe", "noscript"]);
const SCRIPTS = new Set(["", "text/javascript", "application/javascript", "module"]);

function files(root, pattern) {
  const found = [];
  for (const entry of readdirSync(root, { withFileTypes: true, recursive: true })) {
    if (entry.isFile() && pattern.test(entry.name)) found.push(join(entry.parentPath, entry.name));
  }
  return found.sort();
}

const attribute = (node, name) => node.attrs?.find((one) => one.name === name)?.value;
const text = (node) => node.childNodes.map((child) => child.value ?? "").join("");

// A page as it is shown: its tree without comments, texts with collapsed white space, and the
// scripts and style sheets in it.
function shown(page) {
  const lines = [], scripts = [], styles = [];
  const visit = (node, depth, spaced) => {
    let joined = "";
    const endText = () => {
      const collapsed = spaced ? joined : joined.replace(/[ \t\n]+/g, " ");
      if (collapsed) lines.push(`${depth} ${JSON.stringify(collapsed)}`);
      joined = "";
    };
    for (const child of node.childNodes ?? []) {
      if (child.nodeName === "#comment") continue;
      if (child.nodeName === "#text") {
        joined += child.value;
        continue;
      }
      endText();
      const attrs = JSON.stringify((child.attrs ?? []).map((one) => [one.name, one.value]));
      lines.push(`${depth} <${child.nodeName} ${child.namespaceURI ?? ""} ${attrs}>`);
      const isHtml = child.namespaceURI === HTML;
      const type = attribute(child, "type")?.trim().toLowerCase();
      if (isHtml && child.nodeName === "script" && SCRIPTS.has(type ?? "")) {
        scripts.push({ text: text(child), isModule: type === "module" });
        continue;
      }
      if (isHtml && child.nodeName === "style" && ["", "text/css"].includes(type ?? "")) {
        styles.push(text(child));
        continue;
      }
      const shows = isHtml && (SHOWN.has(child.nodeName) || RAW.has(child.nodeName));
      const styled = /white-space:\s*(pre|break)/i.test(attribute(child, "style") ?? "");
      visit(child, depth + 1, spaced || shows || styled);
      if (child.content) visit(child.content, depth + 1, spaced);
    }
    endText();
  };
  visit(parsePage(page), 0, false);
  return { lines, scripts, styles };
}

// The syntax tree without positions; the error if it is none.
function program({ text, isModule }) {
  try {
    const tree = parseScript(text, {
      ecmaVersion: "latest",
      sourceType: isModule ? "module" : "script",
    });
    const keep = (key, value) =>
      key === "start" || key === "end" ? undefined : typeof value === "bigint" ? `${value}n` : value;
    return JSON.stringify(tree, keep);
  } catch (error) {
    return `error: ${error.message.replace(/ \(.*/, "")}`;
  }
}

function sheet(text) {
  const tree = css.parse(text, { parseCustomProperty: false });
  css.walk(tree, (node, item, list) => {
    if (node.type === "Comment" && list) list.remove(item);
    // What the parser does not take apart.
    if (node.type === "Raw") {
      const value = node.value.replace(/\/\*[^]*?\*\//g, "").replace(/\s+/g, " ");
      node.value = value.replace(/\s*,\s*/g, ",").trim();
    }
  });
  return css.generate(tree);
}

async function get(path) {
  const response = await fetch(server + path, { headers: { "Accept-Encoding": "identity" } });
  const body = Buffer.from(await response.arrayBuffer());
  if (response.status !== 200) throw new Error(`${path}: ${response.status}`);
  return body;
}

const url = (path) => path.split("/").map(encodeURIComponent).join("/");
let failures = 0;
function check(what, before, after) {
  if (before === after) return;
  failures += 1;
  let at = 0;
  while (before[at] === after[at]) at += 1;
  console.log(`DIFFERENT ${what}\n  before: ${String(before.slice(Math.max(0, at - 80), at + 120))}`);
  console.log(`  after:  ${String(after.slice(Math.max(0, at - 80), at + 120))}`);
}

const rows = [];
for (const application of readdirSync(directory).sort()) {
  const root = join(directory, application);
  const all = files(root, /\.html?$/);
  const step = Math.max(1, all.length / MAX_PAGES);
  const pages = all.filter((_, at) => Math.floor(at / step) !== Math.floor((at - 1) / step));
  const row = { application, pages: 0, scripts: 0, styles: 0, bytes: 0, markup: 0, trimmed: 0,
    gzip: 0, "trimmed+gzip": 0, concat: 0 };
  for (const file of pages) {
    const path = url(relative(directory, file));
    const source = readFileSync(file);
    if (source.length === 0) continue;
    const plain = await get(`/plain/${path}`);
    check(`${path}: plain`, source.toString("latin1"), plain.toString("latin1"));
    const footer = await get(`/footer/${path}`);
    const marked = `${source.toString("latin1")}<!-- ${decodeURIComponent(`/footer/${path}`)} -->`;
    check(`${path}: footer`, marked, footer.toString("latin1"));
    const trimmed = await get(`/trim/${path}`), markup = await get(`/markup/${path}`);
    const [before, after, half] = [plain, trimmed, markup].map((page) => shown(page.toString()));
    for (const [name, other] of [["trim", after], ["markup", half]]) {
      check(`${path}: tree (${name})`, before.lines.join("\n"), other.lines.join("\n"));
    }
    check(`${path}: untouched code`, JSON.stringify([before.scripts, before.styles]),
      JSON.stringify([half.scripts, half.styles]));
    before.scripts.forEach((script, at) => {
      check(`${path}: script ${at}`, program(script), program(after.scripts[at]));
    });
    before.styles.forEach((style, at) => {
      check(`${path}: style ${at}`, sheet(style), sheet(after.styles[at]));
    });
    row.pages += 1;
    row.scripts += before.scripts.filter((script) => script.text.trim()).length;
    row.styles += before.styles.length;
    row.bytes += plain.length;
    row.markup += markup.length;
    row.trimmed += trimmed.length;
    row.gzip += gzipSync(plain).length;
    row["trimmed+gzip"] += gzipSync(trimmed).length;
  }
  // Up to ten scripts and style sheets as one response.
  const parts = files(root, /\.(js|css)$/).filter((file) => !/[,?#]/.test(file)).slice(0, 10);
  if (parts.length > 0) {
    const list = parts.map((file, at) => `${url(relative(root, file))}?v=${at}`).join(",");
    const joined = Buffer.concat(parts.map((file) => readFileSync(file)));
    const response = await get(`/concat/${url(application)}/??${list}`);
    check(`${application}: concat`, joined.toString("latin1"), response.toString("latin1"));
    row.concat = parts.length;
  }
  rows.push(row);
}
console.table(rows);
console.log(failures === 0 ? "all equal" : `${failures} differences`);
process.exit(failures === 0 ? 0 : 1);
