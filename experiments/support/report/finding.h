/// A finding is the result of a program: texts, tables and figures under one title. It can be printed in every form.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "experiments/support/program/json_file.h"
#include "experiments/support/report/svg.h"
#include "experiments/support/report/table.h"

namespace fovea {

class Cli;
struct RunResult;

struct Finding {
  struct NamedTable {
    std::string name;  ///< shown if there are several tables
    Table table;
    std::string caption = {};
  };
  std::string title, subtitle = {};
  std::vector<std::string> notes = {};  ///< paragraphs for readers
  std::vector<NamedTable> tables = {};
  std::vector<std::string> outputs = {};  ///< texts whose line breaks are kept: what a command printed
  std::vector<Figure> figures = {};       ///< side by side if there is room
  std::vector<Finding> sections = {};
  std::vector<std::filesystem::path> runs = {};  ///< the directories of the runs that were read
  std::vector<Json> starts = {};                 ///< those of the runs that were read and have no directory
  std::string origin = {};                       ///< when, by which command and version, and where all of it was made
  /// Makes the sections that only an HTML page has, such as pictures of further sentences; empty: there are none.
  std::function<std::vector<Finding>()> sections_of_page = {};

  /// Adds a run that was read to `runs` or `starts`.
  void add_origin(const RunResult& run);
  /// "title: subtitle"
  std::string full_title() const { return title + (subtitle.empty() ? "" : ": ") + subtitle; }
};

/// For a terminal; as Markdown and LaTeX (with the package booktabs); the tables with full precision, with commas and
/// as JSON; the figures; and all as a page. Whatever has no place in a form is a comment there: the origin is in every
/// form.
enum class Format { text, markdown, latex, csv, json, svg, html };

/// The finding as the contents of a file. Throws Error for SVG without a figure.
std::string contents_of(const Finding& finding, Format format);

/// --format and --out.
struct OutputFlags {
  Format format = Format::text;
  std::vector<std::string> out;  ///< files, or "-" for standard output; empty: standard output

  void add_to(Cli& cli);
  /// Prints the finding, or writes it to the files, each atomically, with the command line as its origin, and names the
  /// files on standard error. The format of a file is that of --format, or else its ending.
  void write(const Cli& cli, Finding finding) const;
};

}  // namespace fovea
