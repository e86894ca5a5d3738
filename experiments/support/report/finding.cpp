#include "experiments/support/report/finding.h"

#include <cstdio>

#include <fmt/core.h>

#include "experiments/support/program/cli.h"
#include "experiments/support/report/html.h"
#include "experiments/support/report/png.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace {

const std::vector<std::pair<std::string, Format>> formats{{"text", Format::text}, {"tsv", Format::tsv},
                                                          {"json", Format::json}, {"svg", Format::svg},
                                                          {"png", Format::png},   {"html", Format::html}};

/// The tables below each other, each under its caption if it is not the only one.
std::string tables_of(const Finding& finding, std::string (Table::*form)() const, const std::string& before_caption) {
  std::string text;
  for (const Finding::CaptionedTable& each : finding.tables) {
    if (!text.empty()) text += "\n";
    if (finding.tables.size() > 1 && !each.caption.empty()) text += before_caption + each.caption + "\n";
    text += (each.table.*form)();
  }
  return text;
}

std::string printed_text(const Finding& finding) {
  std::string text = finding.title.empty() ? "" : finding.title + "\n\n";
  for (const std::string& note : finding.notes)
    if (!note.empty()) text += note + "\n\n";
  return text + tables_of(finding, &Table::text, "");
}

Json json_of(const Finding& finding) {
  Json all{{"title", finding.title}, {"notes", finding.notes}, {"tables", Json::array()}};
  for (const Finding::CaptionedTable& each : finding.tables)
    all["tables"].push_back({{"caption", each.caption}, {"rows", each.table.json()}});
  return all;
}

std::string svg_of(const Finding& finding) {
  require(!finding.figures.empty(), "--format svg: this has no picture; use text, tsv, json or html");
  std::vector<std::string> svgs;
  for (const Chart& figure : finding.figures)
    svgs.push_back(std::visit([](const auto& chart) { return svg(chart); }, figure));
  return file_of(stacked(svgs));
}

std::string png_of(const Finding& finding) {
  if (finding.figures.size() == 1) {
    if (const auto* map = std::get_if<HeatMap>(&finding.figures[0])) return png(*map);
    if (const auto* maps = std::get_if<HeadMaps>(&finding.figures[0])) return png(*maps);
  }
  fail("--format png: a PNG has the cells of one map, and this is {}; use svg",
       finding.figures.empty()       ? "a table"
       : finding.figures.size() == 1 ? "a chart"
                                     : fmt::format("{} pictures", finding.figures.size()));
}

std::string html_of(const Finding& finding) {
  if (finding.page) return finding.page();
  Report report(finding.title);
  for (const std::string& note : finding.notes) report.text(note);
  for (const Chart& figure : finding.figures) std::visit([&](const auto& chart) { report.add(chart); }, figure);
  for (const Finding::CaptionedTable& each : finding.tables) report.add(each.table, each.caption);
  return report.html();
}

}  // namespace

std::string contents_of(const Finding& finding, Format format) {
  switch (format) {
    case Format::text:
      return printed_text(finding);
    case Format::tsv:
      return tables_of(finding, &Table::tsv, "# ");
    case Format::json:
      return text_of(json_of(finding), 2) + "\n";
    case Format::svg:
      return svg_of(finding);
    case Format::png:
      return png_of(finding);
    case Format::html:
      break;
  }
  return html_of(finding);
}

void OutputFlags::add_to(Cli& cli) {
  cli.group("Output");
  cli.choice(
      "--format", format, formats,
      "text for a terminal; tsv or json with the numbers in full precision; svg: the pictures; png: the cells of "
      "one map; html: a page. Without it, the endings of --out decide");
  cli.option("--out", out,
             "a file to write, - for standard output; may be given several times. Without it, the result is printed");
}

void OutputFlags::write(const Cli& cli, const Finding& finding) const {
  const auto format_of = [&](const std::filesystem::path& file) {
    if (cli.given("--format") || file == "-") return format;
    for (const auto& [name, meaning] : formats)
      if (file.extension() == "." + name) return meaning;
    require(file.extension() == ".txt",
            "--out {}: unknown ending '{}'; expected .txt, .tsv, .json, .svg, .png or .html, or give --format",
            file.string(), file.extension().string());
    return Format::text;
  };
  std::vector<std::pair<std::string, std::string>> all;  // files and contents, before any is written
  for (const std::string& file : out.empty() ? std::vector<std::string>{"-"} : out)
    all.emplace_back(file, contents_of(finding, format_of(file)));
  for (const auto& [file, contents] : all) {
    if (file == "-")
      std::fwrite(contents.data(), 1, contents.size(), stdout);
    else
      write_file_atomically(file, contents);
  }
}

}  // namespace fovea
