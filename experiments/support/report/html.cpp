#include "experiments/support/report/html.h"

#include <map>

#include <fmt/core.h>

#include "experiments/support/program/terminal.h"
#include "experiments/support/report/drawing.h"
#include "experiments/support/text/words.h"
#include "tensor/support/atomic_file.h"

namespace fovea {
namespace {

constexpr std::string_view page_style = R"(
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 1140px; margin: 0 auto; padding: 2.5rem 1.5rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0; letter-spacing: -0.01em; overflow-wrap: anywhere; }
@media (max-width: 600px) { h1 { font-size: 1.4rem; } main { padding: 1.5rem 1rem 3rem; } }
.subtitle { color: var(--faint); font-size: .9rem; margin: .4rem 0 0; overflow-wrap: anywhere; }
nav { margin: 1.2rem 0 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; font-size: .92rem; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .8rem; padding-top: 1.2rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.02rem; margin: 2rem 0 .4rem; overflow-wrap: anywhere; }
p { max-width: 46rem; margin: .6rem 0; }
pre, .values dd, .subtitle { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
pre { background: var(--panel); border-radius: 6px; padding: .8rem 1rem; overflow-x: auto; font-size: .85rem; }
.figures { display: flex; flex-wrap: wrap; gap: 1.6rem 2rem; align-items: flex-start; margin: 1.2rem 0; }
figure { margin: 0; max-width: 100%; overflow-x: auto; }
figure svg { display: block; max-width: 100%; height: auto; }
.wide svg { max-width: none; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
.caption { color: var(--faint); font-size: .9rem; margin: 1rem 0 .5rem; } .caption + .scroll { margin-top: 0; }
th { text-align: left; font-weight: 600; border-bottom: 2px solid var(--ink); vertical-align: bottom; }
td { vertical-align: baseline; }
th, td { padding: .34rem 1.15rem .34rem 0; }
td { border-bottom: 1px solid var(--line); }
tr.rule td { border-top: 2px solid var(--ink); }
.number { text-align: right; } td.number { white-space: nowrap; }
.deviation { color: var(--faint); } .absent { visibility: hidden; }
.mark { position: absolute; margin-left: .15em; }
.values { display: grid; grid-template-columns: repeat(auto-fill, minmax(19rem, 1fr)); gap: 0 2.5rem; margin: 1rem 0;
  font-size: .88rem; }
.values div { display: flex; justify-content: space-between; gap: 1rem; padding: .22rem 0;
  border-bottom: 1px solid var(--line); }
.values dt { color: var(--faint); white-space: nowrap; }
.values dd { margin: 0; text-align: right; overflow-wrap: anywhere; }
@media print { nav { display: none; } }
)";

std::string value_text(const Json& value) { return value.is_string() ? value.get<std::string>() : text_of(value); }

}  // namespace

std::string escape_html(std::string_view text) {
  static const std::map<char, std::string> signs{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string result;
  for (char c : printable(text)) {
    const auto sign = signs.find(c);
    result += sign == signs.end() ? std::string(1, c) : sign->second;
  }
  return result;
}

std::string link_to(const std::filesystem::path& path) {
  std::string link;
  for (char c : path.string()) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          std::string_view("-._~/").find(c) != std::string_view::npos;
    link += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return link;
}

Report::Report(std::string title, std::string subtitle) : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

Report& Report::add_block(const std::string& html) {
  if (in_figures_) body_ += "</div>\n";
  in_figures_ = false;
  body_ += html;
  return *this;
}

Report& Report::add_figure(const std::string& svg, const std::string& owner) {
  if (!in_figures_) body_ += "<div class=\"figures\">\n";
  in_figures_ = true;
  // the drawing's description is its title
  const std::size_t label = svg.find("aria-label=\""), end = svg.find('"', label + 12);
  const std::string title = label < svg.size() ? svg.substr(label + 12, end - label - 12) : "figure";
  figures_.push_back({owner.empty() ? title : owner + " " + title, svg});
  // A wide drawing keeps its size on a small screen, where it can be scrolled.
  const double width = std::strtod(svg.c_str() + std::min(svg.find("width=\"") + 7, svg.size()), nullptr);
  body_ += fmt::format("<figure{}>{}</figure>\n", width > 1.2 * chart_width ? " class=\"wide\"" : "", svg);
  return *this;
}

Report& Report::section(const std::string& heading) {
  headings_.push_back(heading);
  return add_block(fmt::format("<h2 id=\"section-{}\">{}</h2>\n", headings_.size(), escape_html(heading)));
}

Report& Report::subsection(const std::string& heading) { return add_block("<h3>" + escape_html(heading) + "</h3>\n"); }

Report& Report::text(const std::string& paragraph) { return add_block("<p>" + escape_html(paragraph) + "</p>\n"); }

Report& Report::code(const std::string& text) {
  std::string lines;
  for (std::string_view line : split_columns(text, '\n')) lines += escape_html(line) + "\n";
  lines.pop_back();
  return add_block("<pre>" + lines + "</pre>\n");
}

Report& Report::add(const Table& table, const std::string& caption) {
  const std::string text = caption.empty() ? "" : "<p class=\"caption\">" + escape_html(caption) + "</p>\n";
  return add_block(text + "<div class=\"scroll\">" + table.html() + "</div>\n");
}

Report& Report::add(const Chart& chart) { return add_figure(svg(chart)); }

Report& Report::configuration(const Json& values) {
  std::string list = "<dl class=\"values\">\n";
  for (const auto& [key, value] : values.items()) {
    list += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(key), escape_html(value_text(value)));
  }
  return add_block(list + "</dl>\n");
}

std::string Report::html() const {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n";
  page += fmt::format("<title>{}</title>\n<style>{}{}{}</style>\n</head>\n<body>\n<main>\n", escape_html(title_),
                      palette_style(), chart_style(), page_style);
  page += fmt::format("<header><h1>{}</h1>\n", escape_html(title_));
  for (std::string_view line : split_columns(subtitle_, '\n'))
    if (!line.empty()) page += fmt::format("<p class=\"subtitle\">{}</p>\n", escape_html(line));
  if (headings_.size() > 1) {
    page += "<nav>";
    for (std::size_t i = 0; i < headings_.size(); ++i) {
      page += fmt::format("<a href=\"#section-{}\">{}</a>", i + 1, escape_html(headings_[i]));
    }
    page += "</nav>\n";
  }
  page += "</header>\n" + body_;
  if (in_figures_) page += "</div>\n";
  return page + "</main>\n</body>\n</html>\n";
}

void Report::write(const std::filesystem::path& path) const { write_file_atomically(path, html()); }

}  // namespace fovea
