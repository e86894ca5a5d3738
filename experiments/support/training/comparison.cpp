#include "experiments/support/training/comparison.h"

#include <optional>
#include <set>

#include "experiments/support/text/words.h"

namespace fovea {

namespace {

std::string trimmed(std::string_view text) {
  std::size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last - first + 1));
}

/// 'x y' and "x y" as a shell reads them.
std::string unquoted(const std::string& text) {
  const bool quoted = text.size() > 1 && text.front() == text.back() && (text.front() == '"' || text.front() == '\'');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

/// "--a x y --b" as it would be on a command line: "--a", "x y", "--b". A value goes to the next flag, with quotes or
/// without.
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

}  // namespace

void Comparison::add_rows_to(Cli& cli) {
  cli.option(
      "--compare", compare_,
      fmt::format("models to compare, separated by ';': values of {}, or flags, as in \"global; wide: --model-dim "
                  "256 --heads 8\"",
                  main_flag_));
}

void Comparison::add_to(Cli& cli) {
  add_rows_to(cli);
  cli.option("--seeds", seeds_, "runs of each, with seeds --seed, --seed + 1, ...").range(1, 1000);
}

std::vector<Comparison::Row> Comparison::rows(const Cli& cli) const {
  if (compare_.empty()) {
    std::string title = cli.configuration().at(main_flag_.substr(2)).get<std::string>();
    return {{title.empty() ? "model" : title, {}}};
  }
  std::vector<Row> rows;
  std::set<std::string> titles;
  for (std::string_view text : split_columns(compare_, ';')) {
    std::string row = trimmed(text);
    if (row.empty()) continue;
    std::size_t flags = row.starts_with("--") ? 0 : row.find(": --");
    if (flags == std::string::npos)
      rows.push_back({row, {main_flag_ + "=" + row}});
    else if (flags == 0)
      rows.push_back({row, arguments_of(row)});
    else
      rows.push_back({trimmed(row.substr(0, flags)), arguments_of(std::string_view(row).substr(flags + 2))});
    require(titles.insert(file_name_for(rows.back().title)).second, "--compare: '{}' is there twice",
            rows.back().title);
  }
  require(!rows.empty(), "--compare: there is nothing in '{}'; write \"global; gaussian\"", compare_);
  return rows;
}

void Comparison::check(Cli& cli, const std::function<void()>& check) const {
  for (const Row& row : rows(cli)) {
    if (compare_.empty())
      check();
    else
      with_flag(fmt::format("--compare: '{}'", row.title), [&] { cli.with(row.arguments, check); });
  }
}

void Comparison::run(Cli& cli, std::uint64_t& seed, const RunDirectory& directory,
                     const std::function<void(const RunDirectory&)>& prepare,
                     const std::function<void(const Training&)>& train) const {
  for (const Row& row : rows(cli)) {
    for (std::int64_t k = 0; k < seeds_; ++k) {
      cli.with(row.arguments, [&] {
        const std::uint64_t first_seed = seed;
        seed += static_cast<std::uint64_t>(k);
        std::string title = fmt::format("{} seed {}", row.title, seed);
        Json configuration = cli.configuration();
        std::optional<RunDirectory> part;
        if (!is_alone()) {
          configuration["compare"] = "";
          configuration["seeds"] = 1;
          part = directory.part(title);
          save_json(part->configuration(), configuration);
          prepare(*part);
        }
        train({row, seed, {part ? *part : directory, configuration, title, directory.path()}});
        seed = first_seed;
      });
    }
  }
}

}  // namespace fovea
