#include "experiments/support/program/comparison.h"

#include <map>

#include <fmt/core.h>

#include "experiments/support/program/run_directory.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/in_quotes.h"

namespace fovea {

namespace {

/// The text without the quotes around it: 'x y' and "x y" are x y.
std::string unquoted(const std::string& text) {
  const bool quoted = text.size() > 1 && text.front() == text.back() && (text.front() == '"' || text.front() == '\'');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

/// The values between commas. Commas in parentheses do not separate values: "gaussian(window=query, layers=1), global"
/// has two.
std::vector<std::string> listed_values(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  for (char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0)
      values.emplace_back();
    else
      values.back() += c;
  }
  for (std::string& value : values) value = trimmed(value);
  return values;
}

/// Parses a row: "name: --flag value", or a value of the main flag. The choices of a grid become part of the title.
Comparison::Row row_of(const GridPoint& row, const std::string& main_flag) {
  const std::size_t flags = row.text.starts_with("--") ? 0 : row.text.find(": --");
  if (flags == std::string::npos) return {row.text, {main_flag + "=" + row.text}};
  if (flags == 0) return {row.text, arguments_of(row.text)};
  const std::string name = trimmed(row.text.substr(0, flags));
  return {name + (row.choice.empty() ? "" : " " + row.choice),
          arguments_of(std::string_view(row.text).substr(flags + 2))};
}

}  // namespace

std::vector<std::string> arguments_of(std::string_view flags) {
  std::vector<std::string> arguments;
  while (!flags.empty()) {
    std::size_t next = flags.find(" --", 2);
    std::string one = trimmed(flags.substr(0, next));
    std::size_t space = one.find_first_of(" =");
    arguments.push_back(one.substr(0, space));
    if (space != std::string::npos)
      arguments.back() += "=" + unquoted(trimmed(std::string_view(one).substr(space + 1)));
    flags = next == std::string_view::npos ? "" : flags.substr(next + 1);
  }
  return arguments;
}

std::vector<GridPoint> grid_points(const std::string& grid) {
  const std::size_t open = grid.find('{'), close = grid.find('}');
  if (open == std::string::npos && close == std::string::npos) return {{grid, ""}};
  const std::size_t second = open == std::string::npos ? open : grid.find('{', open + 1);
  require(open < close, "{}: a '}}' without its '{{'", in_quotes_around(grid, close + 1));
  require(close != std::string::npos && close < second, "{}: a '{{' without its '}}'",
          in_quotes_around(grid, open + 1));
  constexpr std::size_t most = 1000;
  std::vector<GridPoint> all;
  for (const std::string& chosen : listed_values(std::string_view(grid).substr(open + 1, close - open - 1))) {
    for (const GridPoint& rest : grid_points(grid.substr(close + 1))) {
      require(all.size() < most, "{}: a grid of more than {} rows", in_quotes_around(grid, open + 1), most);
      all.push_back(
          {grid.substr(0, open) + chosen + rest.text, chosen + (rest.choice.empty() ? "" : " " + rest.choice)});
    }
  }
  return all;
}

void Comparison::add_to(Cli& cli) {
  cli.option(
      "--compare", compare_,
      fmt::format(
          "rows to compare, with semicolons between them; values of {}, or flags after a name, as in \"global; wide: "
          "--model-dim 256 --heads 8\"; {{64,128}} in a row makes a grid",
          main_flag_));
}

std::vector<Comparison::Row> Comparison::rows(const Cli& cli) const {
  if (compare_.empty()) {
    std::string title = cli.configuration().at(main_flag_.substr(2)).get<std::string>();
    return {{title.empty() ? "model" : title, {}}};
  }
  std::vector<Row> rows;
  std::map<std::string, std::string> titles;  // by the name of the row's folder
  for (std::string_view text : split_columns(compare_, ';')) {
    const std::string whole = trimmed(text);
    if (whole.empty()) continue;
    with_flag("--compare", [&] {
      for (const GridPoint& one : grid_points(whole)) rows.push_back(row_of(one, main_flag_));
    });
  }
  for (const Row& row : rows) {
    const auto [other, is_new] = titles.emplace(file_name_for(row.title), row.title);
    require(is_new || other->second != row.title, "--compare: there are two rows {}; rows need different names",
            in_quotes(row.title));
    require(is_new, "--compare: the rows {} and {} would share the folder {}; name one, as in \"mine: {} ...\"",
            in_quotes(other->second), in_quotes(row.title), other->first, main_flag_);
  }
  require(!rows.empty(), "--compare: {} has no rows; write \"global; gaussian\"", in_quotes(compare_));
  return rows;
}

}  // namespace fovea
