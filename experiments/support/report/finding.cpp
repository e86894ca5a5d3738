#include "experiments/support/report/finding.h"

#include <algorithm>
#include <cstdio>

#include <fmt/core.h>

#include "experiments/support/program/cli.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/report/html.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace {

/// The lines of the text, each behind `sign`; none of an empty text.
std::string commented(const std::string& text, const std::string& sign) {
  std::string lines;
  for (std::string_view line : split_columns(text, '\n'))
    if (!line.empty()) lines += fmt::format("{}{}\n", sign, line);
  return lines;
}

std::string name_of(const Finding& finding, const Finding::NamedTable& table) {
  return finding.tables.size() > 1 ? table.name : "";
}

/// A link that shows the picture. Signs of the name that mean something in a link are escaped.
std::string markdown_picture(const std::string& file) {
  constexpr std::string_view in_text = "[]\\*_`<", in_target = " ()<>%#?\\";
  std::string text, target;
  for (const char c : file) {
    text += in_text.find(c) != in_text.npos ? std::string{'\\', c} : std::string{c};
    target += in_target.find(c) != in_target.npos ? fmt::format("%{:02X}", c) : std::string{c};
  }
  return fmt::format("![{}]({})\n\n", text, target);
}

/// The finding as text to read, for a terminal or as Markdown, whose headings begin with `level` signs. Figures are
/// links to their files; a terminal shows none.
std::string prose(const Finding& finding, bool is_markdown, int level = 1) {
  const auto heading = [&](const std::string& title, int at) {
    if (title.empty()) return title;
    return is_markdown ? std::string(std::size_t(at), '#') + " " + title + "\n\n" : title + "\n";
  };
  std::string text = heading(finding.full_title(), level);
  if (!text.empty() && !is_markdown) text += "\n";
  for (const std::string& note : finding.notes)
    if (!note.empty()) text += (is_markdown ? note + "\n" : folded_lines(note)) + "\n";
  for (const Figure& figure : finding.figures)
    if (is_markdown && !figure.file.empty()) text += markdown_picture(figure.file);
  for (const Finding::NamedTable& each : finding.tables) {
    text += heading(name_of(finding, each), level + 1);
    if (is_markdown)
      text += each.table.markdown() + "\n" + commented(each.caption, "") + (each.caption.empty() ? "" : "\n");
    else
      text += each.table.text() + folded_lines(each.caption) + "\n";
  }
  for (const std::string& output : finding.outputs) {
    const std::string fence(output.find("```") == std::string::npos ? 3 : 12, '`');
    text += is_markdown ? fence + "\n" + output + fence + "\n\n" : output + "\n";
  }
  for (const Finding& section : finding.sections) text += prose(section, is_markdown, level + 1);
  return text + commented(finding.origin, "");
}

/// The tables as LaTeX below each other, and everything else in comments.
std::string latex_of(const Finding& finding) {
  constexpr const char* comment = "% ";
  std::string text;
  for (const Finding::NamedTable& each : finding.tables)
    text += (text.empty() ? "" : "\n") + commented(name_of(finding, each), comment) + each.table.latex() +
            commented(each.caption, comment);
  for (const Finding& section : finding.sections)
    text += "\n" + commented(section.full_title(), comment) + latex_of(section);
  return text + commented(finding.origin, comment);
}

/// Several tables are one, which has their names in a column: programs read one table from a file.
std::string csv_of_tables(const Finding& finding) {
  std::vector<Json> rows;
  for (const auto& [name, table, caption] : finding.tables)
    for (Json& row : table.json()) {
      rows.push_back(finding.tables.size() > 1 ? Json{{"table", name}} : Json::object());
      rows.back().update(row);
    }
  return csv_of(rows) + commented(finding.origin, "# ");
}

Json json_of(const Finding& finding) {
  Json all{
      {"title", finding.full_title()}, {"origin", finding.origin}, {"notes", finding.notes}, {"tables", Json::array()}};
  for (const Finding::NamedTable& each : finding.tables)
    all["tables"].push_back({{"name", each.name}, {"caption", each.caption}, {"rows", each.table.json()}});
  for (const Finding& section : finding.sections) all["sections"].push_back(json_of(section));
  return all;
}

constexpr const char* no_picture = "a table is no picture; use text, markdown, latex, csv, json or html";

/// The figures below each other; the origin is their description.
std::string svg_of(const Finding& finding) {
  require(!finding.figures.empty(), no_picture);
  std::vector<std::string> svgs;
  for (const Figure& figure : finding.figures) svgs.push_back(figure.svg);
  std::string file = stacked(svgs);
  return file_of(file.insert(file.find('>') + 1, "\n<desc>" + escape_html(finding.origin) + "</desc>"));
}

struct NamedFormat {
  const char *name, *ending;
  Format format;
  std::string (*contents)(const Finding&);
};
constexpr NamedFormat formats[] = {
    {"text", ".txt", Format::text, [](const Finding& finding) { return prose(finding, false); }},
    {"markdown", ".md", Format::markdown, [](const Finding& finding) { return prose(finding, true); }},
    {"latex", ".tex", Format::latex,
     [](const Finding& finding) { return "% The tables need \\usepackage{booktabs}\n" + latex_of(finding); }},
    {"csv", ".csv", Format::csv, csv_of_tables},
    {"json", ".json", Format::json, [](const Finding& finding) { return text_of(json_of(finding), 2) + "\n"; }},
    {"svg", ".svg", Format::svg, svg_of},
    {"html", ".html", Format::html, html_of}};

const NamedFormat& entry_of(Format format) {
  return *std::find_if(std::begin(formats), std::end(formats), [&](const auto& each) { return each.format == format; });
}

}  // namespace

void Finding::add_origin(const RunResult& run) {
  if (run.starts.empty()) runs.push_back(run.directory);
  starts.insert(starts.end(), run.starts.begin(), run.starts.end());
}

std::string contents_of(const Finding& finding, Format format) { return entry_of(format).contents(finding); }

void OutputFlags::add_to(Cli& cli) {
  cli.group("Output");
  std::vector<std::pair<std::string, Format>> names;
  for (const NamedFormat& each : formats) names.emplace_back(each.name, each.format);
  cli.choice(
      "--format", format, names,
      "text for a terminal; markdown; latex for the package booktabs; csv or json with the numbers in full "
      "precision; svg: the pictures; html: a page. Without it, the endings of --out decide (.txt, .md, .tex, .csv, "
      "...)");
  cli.option("--out", out,
             "a file to write, - for standard output; may be given several times. Without it, the result is printed");
}

void OutputFlags::write(const Cli& cli, Finding finding) const {
  const auto format_of = [&](const std::filesystem::path& file) {
    if (file == "-") return format;
    require(!std::filesystem::is_directory(file) && file.has_filename(), "--out {}: names a directory, expected a file",
            file.string());
    require_no_file_of_run("--out", file);
    const std::string ending = file.extension();
    std::vector<std::string> endings;
    for (const NamedFormat& each : formats) {
      endings.emplace_back(each.ending);
      if (ending != each.ending) continue;
      require(!cli.given("--format") || format == each.format,
              "--out {}: the ending is that of {}, but --format is {}; leave --format out, or change the ending",
              file.string(), each.name, entry_of(format).name);
      return each.format;
    }
    if (cli.given("--format")) return format;
    fail("--out {}: unknown ending '{}'; expected {}, or give --format", file.string(), ending, alternatives(endings));
  };
  finding.origin = origin_of(finding.runs, cli.command(), finding.starts);
  const auto contents = [&](const std::string& file) {
    const Format form = format_of(file);
    require(form != Format::svg || !finding.figures.empty(), "{}: {}",
            cli.given("--format") ? "--format svg" : "--out " + file, no_picture);
    return contents_of(finding, form);
  };
  std::vector<std::pair<std::string, std::string>> all;  // files and contents, before any is written
  for (const std::string& file : out.empty() ? std::vector<std::string>{"-"} : out)
    all.emplace_back(file, contents(file));
  for (const auto& [file, contents] : all) {
    if (file == "-") {
      std::fwrite(contents.data(), 1, contents.size(), stdout);
      std::fflush(stdout);  // before the names of files on standard error
    } else {
      write_file_atomically(file, contents);
      fmt::print(stderr, "{} written\n", file);
    }
  }
}

}  // namespace fovea
