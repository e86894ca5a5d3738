#include "experiments/support/report/sheet.h"

#include <algorithm>

#include <fmt/core.h>

#include "experiments/support/program/comparison.h"
#include "experiments/support/program/files.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

// ---- Reading

std::string sheets_directory() { return data_directory("sheets").string(); }

std::vector<std::string> sheet_names() {
  std::vector<std::string> names = names_of_data("sheets");
  std::erase_if(names, [](const std::string& name) { return name == "recipes" || name == "items"; });
  return names;
}

namespace {

std::vector<std::string> texts_of(const Json& json, const char* key) {
  return json.value(key, std::vector<std::string>());
}

using Variables = std::map<std::string, std::string>;

/// A recipe may be like another one, with other tiers. `variables` are those that all recipes have at a tier.
Recipe recipe_of(const Json& json, const std::map<std::string, Recipe>& known,
                 const std::map<std::string, Variables>& variables) {
  Recipe recipe = json.contains("like") ? known.at(json.at("like").get<std::string>()) : Recipe{};
  recipe.program = json.value("program", recipe.program);
  for (const auto& [name, tier] : json.at("tiers").items()) {
    Variables all = tier.value("variables", Variables());
    all.insert(variables.at(name).begin(), variables.at(name).end());
    recipe.tiers[name] = {.flags = tier.at("flags"),
                          .data = tier.value("data", ""),
                          .machine = tier.value("machine", ""),
                          .variables = std::move(all),
                          .minutes = tier.value("minutes", 0.0),
                          .seeds = tier.value("seeds", std::vector<std::uint64_t>{1})};
  }
  return recipe;
}

struct Recipes {
  std::map<std::string, Variables> variables;  // by tier
  std::map<std::string, Recipe> by_name;
};

const Recipes& recipes() {
  static const Recipes all = [] {
    Recipes read;
    const fs::path path = fs::path(sheets_directory()) / "recipes.json";
    const Json json = load_json(path);
    auto read_all = [&] {
      read.variables = json.at("variables");
      for (const auto& [name, recipe] : json.at("recipes").items())
        read.by_name[name] = recipe_of(recipe, read.by_name, read.variables);
    };
    reading_json(path.string(), read_all, "a file of recipes");
    return read;
  }();
  return all;
}

Sheet::Row row_of(const Json& json, bool is_cited) {
  Sheet::Row row{.name = json.at("name"),
                 .flags = json.value("flags", ""),
                 .model = json.value("model_of", ""),
                 .initial = json.value("continues", ""),
                 .part = json.value("part", ""),
                 .printed = {},
                 .is_cited = is_cited,
                 .tasks = texts_of(json, "tasks"),
                 .tiers = texts_of(json, "tiers")};
  for (const Json& value : json.value("paper", Json::array()))
    row.printed.push_back(value.is_null() ? std::nan("") : value.get<double>());
  return row;
}

Sheet sheet_of(const Json& json) {
  Sheet sheet;
  sheet.title = json.at("title");
  for (const char* key : {"tasks", "columns", "rows"})
    require(!json.at(key).empty(), "sheet '{}': \"{}\" is empty; a sheet has at least one of them", sheet.title, key);
  sheet.about = json.value("about", "");
  sheet.item = json.at("item");
  sheet.compares_methods = json.value("compares_methods", false);
  for (const Json& task : json.at("tasks"))
    sheet.tasks.push_back({task.at("name"), task.value("data", ""), task.at("recipe"), task.value("flags", "")});
  for (const Json& column : json.at("columns")) {
    sheet.columns.push_back({.heading = column.at("heading"),
                             .task = column.value("task", sheet.tasks.front().name),
                             .metric = column.value("metric", ""),
                             .decimals = column.value("decimals", 2),
                             .factor = column.value("factor", 1.0),
                             .trained = column.value("trained", std::map<std::string, double>()),
                             .is_printed = column.value("printed", true)});
  }
  for (const Json& row : json.at("rows")) sheet.rows.push_back(row_of(row, false));
  for (const Json& row : json.value("cited", Json::array())) sheet.rows.push_back(row_of(row, true));
  for (const Json& one : json.value("main", std::vector<Json>())) {
    const std::string says = one.at("says"), claim = one.at("claim");
    require(!trimmed(says).empty(), "sheet '{}': main: '{}' has no words in \"says\"", sheet.title, claim);
    sheet.claims.push_back({.text = claim, .says = says, .of = one.value("of", "")});
  }
  for (const std::string& text : texts_of(json, "must_show")) sheet.claims.push_back({.text = text});
  for (const std::string& text : texts_of(json, "must_hold"))
    sheet.claims.push_back({.text = text, .is_required = true});
  return sheet;
}

/// Throws Error unless everything that a sheet names exists in it.
void require_consistent(const Sheet& sheet, const std::string& origin) {
  std::size_t printed = 0;
  for (const Sheet::Column& column : sheet.columns) {
    sheet.task(column.task);
    require(0 <= column.decimals && column.decimals <= 20, "{}: column '{}' has {} decimals, expected 0 to 20", origin,
            column.heading, column.decimals);
    printed += column.is_printed ? 1 : 0;
  }
  for (const Sheet::Row& row : sheet.rows) {
    require(row.printed.size() <= printed, "{}: row '{}' has {} numbers of the paper; there are {} printed columns",
            origin, row.name, row.printed.size(), printed);
    if (!row.model.empty()) sheet.row(row.model);
    if (!row.initial.empty()) sheet.row(row.initial);
    for (const std::string& task : row.tasks) sheet.task(task);
  }
  for (const Sheet::Task& task : sheet.tasks) sheet.recipe(task);
  with_flag(origin, [&] { check_claims(sheet, {}); });
}

}  // namespace

const std::map<std::string, std::string>& variables_of(const std::string& tier) { return recipes().variables.at(tier); }

Sheet load_sheet(const std::string& name) {
  const fs::path path = path_of_data("sheet", name, sheet_names());
  const Json json = load_json(path);
  Sheet sheet;
  reading_json(
      path.string(), [&] { sheet = sheet_of(json); }, "a sheet (experiments/sheets/README.md)");
  sheet.name = path.stem().string();
  require_consistent(sheet, path.string());
  return sheet;
}

namespace {

template <class Named>
const Named& named(const Sheet& sheet, const std::vector<Named>& all, const char* what, const std::string& wanted) {
  const auto found = std::ranges::find_if(all, [&](const Named& one) { return one.name == wanted; });
  require(found != all.end(), "sheet '{}': there is no {} '{}'", sheet.title, what, wanted);
  return *found;
}

}  // namespace

const Sheet::Row& Sheet::row(const std::string& wanted) const { return named(*this, rows, "row", wanted); }
const Sheet::Task& Sheet::task(const std::string& wanted) const { return named(*this, tasks, "task", wanted); }

const Recipe& Sheet::recipe(const Task& of) const {
  auto found = recipes().by_name.find(of.recipe);
  require(found != recipes().by_name.end(), "sheet '{}': there is no recipe '{}' in recipes.json", title, of.recipe);
  return found->second;
}

bool Sheet::is_trained(const Row& row, const Task& of, const std::string& tier) const {
  const auto has = [](const std::vector<std::string>& names, const std::string& one) {
    return names.empty() || std::ranges::count(names, one) > 0;
  };
  return !row.is_cited && has(row.tasks, of.name) && has(row.tiers, tier) && recipe(of).tiers.contains(tier);
}

std::string name_of(const Sheet& sheet, const Sheet::Task& task, const Sheet::Row& row) {
  return fmt::format("{}{}: {}", sheet.name, sheet.tasks.size() > 1 ? ", " + task.name : "", row.name);
}

// ---- Flags

std::string substituted(std::string text, const std::map<std::string, std::string>& variables) {
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at)) {
    std::size_t end = at + 1;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
    auto found = variables.find(text.substr(at + 1, end - at - 1));
    require(found != variables.end(), "'{}': there is no variable '{}' at this tier", text, text.substr(at, end - at));
    text.replace(at, end - at, found->second);
  }
  return text;
}

FlagValues flag_values(const std::string& flags, const std::map<std::string, std::string>& variables) {
  FlagValues values;
  for (const std::string& argument : arguments_of(substituted(flags, variables))) {
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    auto known = std::ranges::find_if(values, [&](const auto& one) { return one.first == name; });
    if (known != values.end())
      known->second = value;
    else
      values.emplace_back(name, value);
  }
  return values;
}

std::vector<std::string> arguments_of(const FlagValues& flags) {
  std::vector<std::string> arguments;
  for (const auto& [name, value] : flags) arguments.push_back("--" + name + (value.empty() ? "" : "=" + value));
  return arguments;
}

std::string flags_text(const FlagValues& flags) {
  std::string text;
  for (const auto& [name, value] : flags) {
    append_word(text, "--" + name);
    if (!value.empty()) append_word(text, quoted_for_shell(value));
  }
  return text;
}

FlagValues row_flags(const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task, const std::string& tier) {
  const auto& tiers = sheet.recipe(task).tiers;
  require(tiers.contains(tier), "recipe '{}' has no tier '{}'", task.recipe, tier);
  const Recipe::Tier& at = tiers.at(tier);
  const std::string of_model = row.model.empty() ? "" : sheet.row(row.model).flags + " ";
  FlagValues flags = flag_values(at.flags + " " + task.flags + " " + of_model + row.flags, at.variables);
  // A tier without an optional setting defines its variable as empty text; drop it.
  std::erase_if(flags, [](const auto& flag) { return flag.first.empty(); });
  return flags;
}

}  // namespace fovea
