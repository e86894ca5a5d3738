#include "experiments/support/analysis/attention_page.h"

#include <cmath>

#include <fmt/core.h>

#include "experiments/support/program/json_file.h"
#include "experiments/support/report/html.h"
#include "experiments/support/text/words.h"

namespace fovea {

namespace {

constexpr std::string_view style = R"(
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 1140px; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .8rem; overflow-wrap: anywhere; }
form { display: flex; flex-wrap: wrap; gap: .6rem 1.1rem; align-items: end; }
label { display: grid; gap: .15rem; font-size: .85rem; color: var(--faint); max-width: 100%; }
select { font: inherit; font-size: .95rem; color: var(--ink); background: var(--panel); border: 1px solid var(--line);
  border-radius: 5px; padding: .3rem .4rem; max-width: min(30rem, 92vw); }
select:focus-visible, #map:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
#text { margin: .9rem 0 .2rem; overflow-wrap: anywhere; } #method { margin: 0; color: var(--faint); font-size: .9rem; }
#value { min-height: 1.6em; margin: .7rem 0 .3rem; font-variant-numeric: tabular-nums; }
#frame { overflow-x: auto; } svg { display: block; } svg text { fill: var(--ink); font-size: 12px; }
.panel { fill: var(--panel); } .hot { fill: var(--hot); } .cold { fill: var(--cold); } .missing { fill: var(--line); }
.here { fill: none; stroke: var(--c1); stroke-width: 2; pointer-events: none; }
.hint { color: var(--faint); font-size: .85rem; max-width: 46rem; }
)";

constexpr std::string_view body = R"(
<form id="choice" onsubmit="return false">
<label>sentence <select id="sentence"></select></label>
<label>attention <select id="attention"></select></label>
<label>quantity <select id="quantity"></select></label>
<label>head <select id="head"></select></label>
</form>
<p id="text"></p><p id="method"></p><p id="value" role="status"></p>
<div id="frame"><div id="map" tabindex="0" role="application"
  aria-label="map; the arrow keys move from pair to pair"></div></div>
<p class="hint">Rows are queries, columns are keys. Blue is positive, red is negative, grey is minus infinity: a key
that the query does not see. The strongest colour stands for <span id="scale"></span>. Point at a cell, or move to the
map with the Tab key and use the arrow keys, to read its number.</p>
)";

constexpr std::string_view script = R"JS(
const choose = id => document.getElementById(id), names = ['sentence', 'attention', 'quantity', 'head'];
let at = {row: 0, column: 0};
const fill = (id, options, wanted) => {
  const list = choose(id);
  list.replaceChildren(...options.map((text, k) => new Option(text, k)));
  const k = options.indexOf(wanted);
  list.selectedIndex = k < 0 ? 0 : k;
};
const chosen = id => choose(id).options[choose(id).selectedIndex]?.text;
const sentence = () => data[choose('sentence').value];
const attention = () => sentence().attentions[choose('attention').value];
const quantity = () => attention().quantities[choose('quantity').value];
const finite = x => x !== null;
const values = () => {
  const q = quantity(), h = q.heads.length > 1 ? Number(choose('head').value) : 1;
  if (h > 0) return q.heads[h - 1];
  return q.heads[0].map((_, i) => q.heads.some(head => !finite(head[i])) ? null
    : q.heads.reduce((sum, head) => sum + head[i], 0) / q.heads.length);
};
const element = (name, attributes, text) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};
const shown = value => finite(value) ? String(Number(value.toPrecision(4))) : '−∞';
const short = text => text.length > 16 ? text.slice(0, 15) + '…' : text;
function say() {
  const a = attention(), q = quantity(), columns = q.pairs ? a.keys.length : 1;
  const value = values()[at.row * columns + at.column], head = q.heads.length > 1 ? ', head ' + chosen('head') : '';
  choose('value').textContent = `${q.name}${head}: query ${at.row} “${a.queries[at.row]}”` +
    (q.pairs ? `, key ${at.column} “${a.keys[at.column]}”` : '') + ': ' + shown(value);
  const cell = choose('map').querySelector('.here');
  if (cell) { cell.setAttribute('x', cell.dataset.left * 1 + at.column * cell.dataset.size);
    cell.setAttribute('y', cell.dataset.top * 1 + at.row * cell.dataset.size); }
}
function draw() {
  const a = attention(), q = quantity(), numbers = values(), columns = q.pairs ? a.keys.length : 1;
  const pen = document.createElement('canvas').getContext('2d');
  pen.font = '12px ' + getComputedStyle(document.body).fontFamily;
  const longest = words => Math.max(...words.map(word => pen.measureText(short(word)).width)) + 12;
  const left = longest(a.queries), room = choose('frame').clientWidth - left - 10;
  const size = Math.max(12, Math.min(30, q.pairs ? room / columns : 30, 760 / a.queries.length));
  const top = q.pairs ? longest(a.keys) : 8, width = left + columns * size + (q.pairs ? 8 : 90);
  const full = Math.max(1e-12, ...numbers.filter(finite).map(Math.abs));
  const svg = element('svg', {width, height: top + a.queries.length * size + 8, role: 'img'});
  svg.append(element('rect', {class: 'panel', x: left, y: top, width: columns * size,
    height: a.queries.length * size}));
  a.queries.forEach((word, i) => svg.append(element('text', {x: left - 6, y: top + i * size + size / 2 + 4,
    'text-anchor': 'end'}, short(word))));
  if (q.pairs) a.keys.forEach((word, j) => { const x = left + j * size + size / 2 + 4, y = top - 6;
    svg.append(element('text', {x, y, transform: `rotate(-90 ${x} ${y})`}, short(word))); });
  numbers.forEach((value, k) => {
    const row = Math.floor(k / columns), column = k % columns;
    const cell = element('rect', {x: left + column * size, y: top + row * size, width: size - 1, height: size - 1,
      class: !finite(value) ? 'missing' : value < 0 ? 'cold' : 'hot',
      'fill-opacity': finite(value) ? Math.min(1, Math.abs(value) / full) : 1, 'pointer-events': 'all'});
    cell.addEventListener('pointerenter', () => { at = {row, column}; say(); });
    svg.append(cell);
    if (!q.pairs) svg.append(element('text', {x: left + size + 8, y: top + row * size + size / 2 + 4},
      shown(value)));
  });
  const here = element('rect', {class: 'here', width: size - 1, height: size - 1});
  Object.assign(here.dataset, {left, top, size});
  svg.append(here);
  choose('map').replaceChildren(svg);
  choose('text').textContent = sentence().text;
  choose('method').textContent = a.method;
  choose('scale').textContent = shown(full);
  at = {row: Math.min(at.row, a.queries.length - 1), column: Math.min(at.column, columns - 1)};
  say();
}
function refill(from, wanted = {}) {
  const kept = {...Object.fromEntries(names.map(id => [id, chosen(id)])), ...wanted};
  if (from < 1) fill('attention', sentence().attentions.map(each => each.title), kept.attention);
  if (from < 2) fill('quantity', attention().quantities.map(each => each.name), kept.quantity);
  if (from < 3) fill('head', quantity().heads.length > 1
    ? ['mean', ...quantity().heads.map((_, h) => String(h + 1))] : ['all'], kept.head);
  draw();
}
fill('sentence', data.map(each => `${each.number}${each.text.slice(0, 60)}`));
window.addEventListener('resize', draw);
names.forEach((id, k) => choose(id).addEventListener('change', () => refill(k)));
choose('map').addEventListener('keydown', event => {
  const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
  if (!step) return;
  event.preventDefault();
  const columns = quantity().pairs ? attention().keys.length : 1;
  at.row = Math.max(0, Math.min(attention().queries.length - 1, at.row + step[0]));
  at.column = Math.max(0, Math.min(columns - 1, at.column + step[1]));
  say();
});
refill(0, start);
)JS";

/// The numbers rounded to four digits; null for infinities and NaN, which JSON does not have.
Json rounded(const std::vector<double>& values) {
  Json numbers = Json::array();
  for (double value : values)
    numbers.push_back(std::isfinite(value) ? Json(std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr)) : Json());
  return numbers;
}

Json json_of(const AttentionView& view) {
  Json quantities = Json::array();
  for (const ViewedQuantity& quantity : view.quantities) {
    if (quantity.name == "scores" || quantity.name == "seen") continue;  // the logits less the bias; their finite ones
    Json heads = Json::array();
    for (std::int64_t h = 1; h <= quantity.heads; ++h) heads.push_back(rounded(view.head(quantity, h)));
    quantities.push_back({{"name", quantity.name}, {"pairs", quantity.of_pairs}, {"heads", heads}});
  }
  return {{"title", view.title()},
          {"method", view.method},
          {"queries", view.queries},
          {"keys", view.keys},
          {"quantities", quantities}};
}

/// JSON inside of a <script> element must not contain "</script>".
std::string embedded(const Json& data) {
  std::string text = text_of(data), result;
  for (char c : text) result += c == '<' ? "\\u003c" : std::string(1, c);
  return result;
}

}  // namespace

std::string attention_page(const std::string& title, const std::string& origin,
                           const std::vector<SentenceView>& sentences, std::optional<std::int64_t> first,
                           const PageStart& start) {
  Json data = Json::array();
  for (const SentenceView& sentence : sentences) {
    Json attentions = Json::array();
    for (const AttentionView& view : sentence.attentions) attentions.push_back(json_of(view));
    const std::string number = first ? fmt::format("{}: ", *first + std::ssize(data)) : "";
    data.push_back({{"number", number}, {"text", sentence.text()}, {"attentions", attentions}});
  }
  const Json shown{{"attention", start.attention},
                   {"quantity", start.quantity},
                   {"head", start.head > 0 ? std::to_string(start.head) : "mean"}};
  std::string origin_lines;
  for (std::string_view line : split_columns(origin, '\n')) origin_lines += "<p>" + escape_html(line) + "</p>\n";
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light "
      "dark\">\n<title>{0}</title>\n<style>{1}{2}</style>\n</head>\n<body>\n"
      "<main>\n<h1>{0}</h1>\n{6}{3}</main>\n<script>\nconst data = {4}, start = {7};{5}</script>\n</body>\n</html>\n",
      escape_html(title), palette_style(), style, body, embedded(data), script, origin_lines, embedded(shown));
}

}  // namespace fovea
