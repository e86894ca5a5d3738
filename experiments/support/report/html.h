/// A report as one HTML file: styles and drawings are in it, nothing is fetched, light and dark.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/support/program/json_file.h"
#include "experiments/support/report/svg.h"
#include "experiments/support/report/table.h"

namespace fovea {

/// Text as the content of an element or a quoted attribute of HTML or SVG. Control characters become visible.
std::string escape_html(std::string_view text);

/// Sections of text, tables and charts; charts that follow each other stand side by side where there is room.
///
///   Report report("agreement");
///   report.section("Accuracy").add(table).add(LineChart{...});
///   report.write("runs/a1/report.html");
class Report {
 public:
  /// `subtitle`: a line below the title; the command that was run, say.
  explicit Report(std::string title, std::string subtitle = "");

  Report& section(const std::string& heading);
  /// A heading inside a section; it is not among the links at the top.
  Report& subsection(const std::string& heading);
  Report& text(const std::string& paragraph);
  /// Text whose spaces and line breaks count: a command, an error.
  Report& code(const std::string& text);
  Report& add(const Table& table, const std::string& caption = "");
  Report& add(const LineChart& chart);
  Report& add(const ScatterPlot& chart);
  Report& add(const Histogram& chart);
  Report& add(const HeatMap& chart);
  Report& add(const HeadMaps& maps);
  /// A drawing: an <svg> element.
  Report& add_figure(const std::string& svg);
  /// Keys and values of a resolved configuration, in columns.
  Report& configuration(const Json& values);

  std::string html() const;
  /// Writes the page in one step (AtomicFile).
  void write(const std::filesystem::path& path) const;

 private:
  Report& add_block(const std::string& html);

  std::string title_, subtitle_, body_;
  std::vector<std::string> headings_;
  bool in_figures_ = false;
};

}  // namespace fovea
