#include "experiments/support/report/html.h"

#include <map>

#include <fmt/core.h>

#include "experiments/support/program/terminal.h"
#include "experiments/support/report/finding.h"
#include "experiments/support/text/words.h"

namespace fovea {
namespace {

constexpr std::string_view page_style = R"(
* { box-sizing: border-box; }
body { margin: 0; background: #ffffff; color: #1b1f24;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 1140px; margin: 0 auto; padding: 2.5rem 1.5rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0; letter-spacing: -0.01em; overflow-wrap: anywhere; }
@media (max-width: 600px) { h1 { font-size: 1.4rem; } main { padding: 1.5rem 1rem 3rem; } }
.subtitle { color: #626b76; font-size: .9rem; margin: .4rem 0 0; overflow-wrap: anywhere; }
nav { margin: 1.2rem 0 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; font-size: .92rem; }
a { color: #0b62b0; text-decoration: none; } a:hover { text-decoration: underline; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .8rem; padding-top: 1.2rem; border-top: 1px solid #dfe3e8; }
h3 { font-size: 1.02rem; margin: 2rem 0 .4rem; overflow-wrap: anywhere; }
p { max-width: 46rem; margin: .6rem 0; }
pre, .subtitle { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
pre { background: #f5f6f8; border-radius: 6px; padding: .8rem 1rem; overflow-x: auto; font-size: .85rem; }
.figures { display: flex; flex-wrap: wrap; gap: 1.6rem 2rem; align-items: flex-start; margin: 1.2rem 0; }
figure { margin: 0; max-width: 100%; overflow-x: auto; }
figure svg { display: block; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
.caption { color: #626b76; font-size: .9rem; margin: 1rem 0 .5rem; } .caption + .scroll { margin-top: 0; }
th { text-align: left; font-weight: 600; border-bottom: 2px solid #1b1f24; vertical-align: bottom; }
td { vertical-align: baseline; }
th, td { padding: .34rem 1.15rem .34rem 0; }
td { border-bottom: 1px solid #dfe3e8; }
tr.rule td { border-top: 2px solid #1b1f24; }
.number { text-align: right; } td.number { white-space: nowrap; }
@media print { nav { display: none; } }
)";

/// The lines of the text that are not empty, each as an element.
std::string elements(const char* tag, const std::string& text) {
  std::string lines;
  for (std::string_view line : split_columns(text, '\n'))
    if (!line.empty()) lines += fmt::format("<p class=\"{}\">{}</p>\n", tag, escape_html(line));
  return lines;
}

struct PageBody {
  std::string html;
  std::vector<std::string> headings = {};  ///< of the sections

  void add(const Finding& finding) {
    for (const std::string& note : finding.notes)
      if (!note.empty()) html += "<p>" + escape_html(note) + "</p>\n";
    if (!finding.figures.empty()) html += "<div class=\"figures\">\n";
    for (const Figure& figure : finding.figures) html += "<figure>" + figure.svg + "</figure>\n";
    if (!finding.figures.empty()) html += "</div>\n";
    for (const auto& [name, table, caption] : finding.tables)
      html += elements("caption", name + (name.empty() || caption.empty() ? "" : ". ") + caption) +
              "<div class=\"scroll\">" + table.html() + "</div>\n";
    for (const std::string& output : finding.outputs) {
      html += "<pre>";
      for (std::string_view line : split_columns(output, '\n')) html += escape_html(line) + "\n";
      html += "</pre>\n";
    }
    add_sections(finding.sections);
    if (finding.sections_of_page) add_sections(finding.sections_of_page());
  }

 private:
  void add_sections(const std::vector<Finding>& sections) {
    for (const Finding& section : sections) {
      if (!section.title.empty()) {
        headings.push_back(escape_html(section.title));
        html += fmt::format("<h2 id=\"section-{}\">{}</h2>\n", headings.size(), headings.back());
      }
      if (!section.subtitle.empty()) html += "<h3>" + escape_html(section.subtitle) + "</h3>\n";
      add(section);
    }
  }
};

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

std::string html_of(const Finding& finding) {
  PageBody body;
  body.add(finding);
  std::string navigation;
  for (std::size_t k = 0; k < body.headings.size() && body.headings.size() > 1; ++k)
    navigation += fmt::format("<a href=\"#section-{}\">{}</a>", k + 1, body.headings[k]);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}{2}</style>\n</head>\n"
      "<body>\n<main>\n<header><h1>{0}</h1>\n{3}<nav>{4}</nav>\n</header>\n{5}</main>\n</body>\n</html>\n",
      escape_html(finding.full_title()), chart_style(), page_style, elements("subtitle", finding.origin), navigation,
      body.html);
}

}  // namespace fovea
