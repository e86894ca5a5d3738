/// The result of an analysis: tables and figures under one title, which can be printed or written in several formats.
#pragma once
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "experiments/support/report/svg.h"
#include "experiments/support/report/table.h"

namespace fovea {

class Cli;

using Chart = std::variant<LineChart, ScatterPlot, Histogram, HeatMap, HeadMaps>;

struct Finding {
  struct CaptionedTable {
    std::string caption;
    Table table;
  };
  std::string title;
  std::vector<std::string> notes = {};  ///< paragraphs for readers
  std::vector<CaptionedTable> tables = {};
  std::vector<Chart> figures = {};
  std::function<std::string()> page = {};  ///< makes the HTML page; empty: the page has tables and figures
};

/// The formats: for a terminal; the tables with tabs, and as JSON; the figures; and both as a page.
enum class Format { text, tsv, json, svg, png, html };

/// The finding as the contents of a file. Throws Error for a format that it does not have: SVG without a figure, PNG
/// unless its only figure is a map.
std::string contents_of(const Finding& finding, Format format);

/// --format and --out.
struct OutputFlags {
  Format format = Format::text;
  std::vector<std::string> out;  ///< files, or "-" for standard output; empty: standard output

  void add_to(Cli& cli);
  /// Prints the finding, or writes it to the files, each atomically. The format of a file is that of --format, or else
  /// its ending.
  void write(const Cli& cli, const Finding& finding) const;
};

}  // namespace fovea
