/// Comparisons: rows, which differ in their flags.
#pragma once
#include <string>
#include <vector>

#include "experiments/support/program/cli.h"

namespace fovea {

/// --compare "global; gaussian; both: --encoder-attention gaussian --decoder-attention relative". Rows are separated by
/// ';'. A row is either flags, after a name and ':' if it has one, or without flags a value of the program's main flag.
/// Values in braces make a grid: "wide: --model-dim {64,128} --heads {2,4}" is four rows.
class Comparison {
 public:
  struct Row {
    std::string title;
    std::vector<std::string> arguments;  ///< as on a command line
  };

  explicit Comparison(std::string main_flag) : main_flag_(std::move(main_flag)) {}
  /// Declares --compare.
  void add_to(Cli& cli);

  /// The rows of --compare; empty ones are skipped. Without --compare, one row without arguments, whose title is the
  /// main flag's value, or "model" if that is empty. Throws Error if no row is left, if two rows have the same title or
  /// would share a folder, and for a brace without its partner.
  std::vector<Row> rows(const Cli& cli) const;
  bool is_given() const { return !compare_.empty(); }

 private:
  std::string main_flag_, compare_;
};

/// "--a x y --b" as it would be on a command line: "--a=x y", "--b". A value reaches to the next flag, with quotes or
/// without.
std::vector<std::string> arguments_of(std::string_view flags);

/// The combinations of a grid, each with the values that its braces stand for: "--rate {1,2}" gives {"--rate 1", "1"}
/// and {"--rate 2", "2"}. Text without braces is one combination. Throws Error for a brace without its partner.
struct GridPoint {
  std::string text, choice;
};
std::vector<GridPoint> grid_points(const std::string& grid);

/// The value of an Options that a row's flags give: those of the command line, overridden by the row's own. `declare`
/// declares the same flags as for the command line. Errors begin with the row's title.
template <class Options, class Declare>
Options options_of(const Cli& line, const Comparison::Row& row, const Declare& declare) {
  Options options;
  Cli cli(line, row.arguments);
  declare(cli, options);
  auto parse = [&] { cli.parse(); };
  row.arguments.empty() ? parse() : with_flag("--compare: '" + row.title + "'", parse);
  return options;
}

}  // namespace fovea
