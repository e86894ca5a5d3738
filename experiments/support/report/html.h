/// Reports as one HTML file with styles and drawings inside, in light and dark colours.
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

/// Escapes text for the content of an element or a quoted attribute of HTML or SVG. Control characters become visible.
std::string escape_html(std::string_view text);

/// A relative path as the address of a link: all but letters, digits and -._~/ is percent-encoded.
std::string link_to(const std::filesystem::path& path);

/// A chart or picture of a page.
struct Figure {
  std::string title, svg;
};

/// Sections of text, tables and charts. Successive charts stand side by side if there is room.
///
///   Report report("agreement");
///   report.section("Accuracy").add(table).add(LineChart{...});
///   report.write("runs/a1/report.html");
class Report {
 public:
  /// `subtitle`: a line below the title, such as the command of the run.
  explicit Report(std::string title, std::string subtitle = "");

  Report& section(const std::string& heading);
  /// Adds a heading inside a section, without a link at the top of the page.
  Report& subsection(const std::string& heading);
  Report& text(const std::string& paragraph);
  /// Adds text whose spaces and line breaks are kept: a command, an error.
  Report& code(const std::string& text);
  Report& add(const Table& table, const std::string& caption = "");
  Report& add(const Chart& chart);
  /// Adds a drawing, an <svg> element. In figures(), `owner` (a row, for example) stands before its title.
  Report& add_figure(const std::string& svg, const std::string& owner = "");
  /// Adds the keys and values of a configuration, in columns.
  Report& configuration(const Json& values);

  /// All charts and pictures added so far.
  const std::vector<Figure>& figures() const { return figures_; }

  std::string html() const;
  /// Writes the page atomically (AtomicFile).
  void write(const std::filesystem::path& path) const;

 private:
  Report& add_block(const std::string& html);

  std::string title_, subtitle_, body_;
  std::vector<std::string> headings_;
  std::vector<Figure> figures_;
  bool in_figures_ = false;
};

}  // namespace fovea
