#include "experiments/support/report/sheet.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/core.h>

#include "attention/language/specification.h"
#include "attention/registry.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/sequence/sequence_models.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"
#include "experiments/support/training/comparison.h"
#include "experiments/support/training/presets.h"
#include "tensor/error.h"
#include "tensor/support/suggestion.h"

namespace fovea {

namespace fs = std::filesystem;

// ---- Reading

std::string sheets_directory() { return FOVEA_SHEETS; }

std::vector<std::string> sheet_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(sheets_directory())) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() == ".json" && name != "recipes" && name != "boxes") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
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

const std::map<std::string, Recipe>& recipes() {
  static const std::map<std::string, Recipe> all = [] {
    std::map<std::string, Recipe> read;
    const fs::path path = fs::path(sheets_directory()) / "recipes.json";
    const Json json = load_json(path);
    auto read_all = [&] {
      const std::map<std::string, Variables> variables = json.at("variables");
      for (const auto& [name, recipe] : json.at("recipes").items()) read[name] = recipe_of(recipe, read, variables);
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
  if (json.contains("paper"))
    for (const Json& value : json.at("paper"))
      row.printed.push_back(value.is_null() ? std::nan("") : value.get<double>());
  return row;
}

Sheet sheet_of(const Json& json) {
  Sheet sheet;
  sheet.title = json.at("title");
  sheet.about = json.value("about", "");
  sheet.box = json.at("box");
  for (const Json& task : json.at("tasks"))
    sheet.tasks.push_back({task.at("name"), task.value("data", ""), task.at("recipe"), texts_of(task, "like")});
  for (const Json& column : json.at("columns")) {
    sheet.columns.push_back({.heading = column.at("heading"),
                             .task = column.value("task", sheet.tasks.front().name),
                             .metric = column.at("metric"),
                             .decimals = column.value("decimals", 2),
                             .factor = column.value("factor", 1.0),
                             .trained = {},
                             .is_printed = column.value("printed", true)});
    if (column.contains("trained")) sheet.columns.back().trained = column.at("trained");
  }
  for (const Json& row : json.at("rows")) sheet.rows.push_back(row_of(row, false));
  if (json.contains("cited"))
    for (const Json& row : json.at("cited")) sheet.rows.push_back(row_of(row, true));
  for (const std::string& text : texts_of(json, "must_show")) sheet.claims.push_back({text, false});
  for (const std::string& text : texts_of(json, "must_hold")) sheet.claims.push_back({text, true});
  return sheet;
}

/// Throws Error unless everything that a sheet names exists in it.
void require_consistent(const Sheet& sheet, const std::string& origin) {
  std::size_t printed = 0;
  for (const Sheet::Column& column : sheet.columns) {
    sheet.task(column.task);
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

Sheet load_sheet(const std::string& name) {
  const bool is_file = name.ends_with(".json");
  const fs::path path = is_file ? fs::path(name) : fs::path(sheets_directory()) / (name + ".json");
  const std::vector<std::string> names = sheet_names();
  require(is_file || fs::exists(path), "there is no sheet '{}'; there are {}, and any .json file{}", name,
          listed(names, ", "), did_you_mean(name, names));
  const Json json = load_json(path);
  Sheet sheet;
  reading_json(
      path.string(), [&] { sheet = sheet_of(json); }, "a sheet (experiments/sheets/README.md)");
  sheet.name = path.stem().string();
  require_consistent(sheet, path.string());
  return sheet;
}

const Sheet::Row& Sheet::row(const std::string& wanted) const {
  auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& one) { return one.name == wanted; });
  require(found != rows.end(), "sheet '{}': there is no row '{}'", title, wanted);
  return *found;
}

const Sheet::Task& Sheet::task(const std::string& wanted) const {
  auto found = std::find_if(tasks.begin(), tasks.end(), [&](const Task& one) { return one.name == wanted; });
  require(found != tasks.end(), "sheet '{}': there is no task '{}'", title, wanted);
  return *found;
}

const Recipe& Sheet::recipe(const Task& of) const {
  auto found = recipes().find(of.recipe);
  require(found != recipes().end(), "sheet '{}': there is no recipe '{}' in recipes.json", title, of.recipe);
  return found->second;
}

// ---- Flags

FlagValues flag_values(const std::string& flags, const std::map<std::string, std::string>& variables) {
  std::string text = flags;
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at)) {
    std::size_t end = at + 1;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
    auto found = variables.find(text.substr(at + 1, end - at - 1));
    require(found != variables.end(), "'{}': there is no variable '{}' at this tier", flags, text.substr(at, end - at));
    text.replace(at, end - at, found->second);
  }
  FlagValues values;
  for (const std::string& argument : arguments_of(text)) {
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    auto known = std::find_if(values.begin(), values.end(), [&](const auto& one) { return one.first == name; });
    if (known != values.end())
      known->second = value;
    else
      values.emplace_back(name, value);
  }
  return values;
}

std::string flags_text(const FlagValues& flags) {
  std::string text;
  for (const auto& [name, value] : flags) {
    text += (text.empty() ? "--" : " --") + name;
    if (value.empty()) continue;
    text += " " + quoted_for_shell(value);
  }
  return text;
}

FlagValues row_flags(const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task, const std::string& tier) {
  const auto& tiers = sheet.recipe(task).tiers;
  require(tiers.contains(tier), "recipe '{}' has no tier '{}'", task.recipe, tier);
  const Recipe::Tier& at = tiers.at(tier);
  const std::string of_model = row.model.empty() ? "" : sheet.row(row.model).flags + " ";
  FlagValues flags = flag_values(at.flags + " " + of_model + row.flags, at.variables);
  // A tier without an optional setting defines its variable as empty text; drop it.
  std::erase_if(flags, [](const auto& flag) { return flag.first.empty(); });
  return flags;
}

// ---- Canonical attentions

namespace {

std::vector<OptionDescription> options_of(const std::string& method) {
  if (const MethodEntry* entry = find_method(method)) return describe_options(*entry);
  if (const Combination* entry = find_combination(method)) return describe_options(*entry);
  return {};
}

std::string joined(const std::set<std::string>& parts, const char* between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

/// The value in a unique form: 1.0 becomes 1.
std::string plain_value(const std::string& value) {
  const std::optional<double> known = number<double>(value);
  return known ? fmt::format("{}", *known) : value;
}

/// FIRST-LAST in a unique form: empty if it covers all of `count` layers, "2" for 2-2. `count` 0: unknown.
std::string plain_range(const std::string& value, int count) {
  const std::size_t dash = value.find('-');
  const std::string first = value.substr(0, dash), last = dash == std::string::npos ? first : value.substr(dash + 1);
  if (first == "1" && count > 0 && number<int>(last).value_or(0) >= count) return "";
  return first == last ? first : first + "-" + last;
}

/// The methods of a sum, sorted by name, with their non-default options. "global" is left out unless it is alone.
std::string canonical(const std::vector<MethodText>& sum, int layers) {
  std::set<std::string> methods;
  for (const MethodText& method : sum) {
    if (method.name == "global") continue;
    std::set<std::string> parts;
    for (const OptionText& option : method.options) {
      const std::string value = option.name == "layers" ? plain_range(option.value, layers) : plain_value(option.value);
      bool is_default = value.empty();
      for (const OptionDescription& known : options_of(method.name))
        is_default = is_default || (known.name == option.name && plain_value(known.default_value) == value);
      if (!is_default) parts.insert(option.name + "=" + value);
    }
    std::size_t place = 0;  // shares are in the order of their heads
    for (const Share& share : method.shares)
      parts.insert(fmt::format("{}: {}*{}", place++, canonical(share.sum, layers), share.heads));
    methods.insert(method.name + "(" + joined(parts, ",") + ")");
  }
  return methods.empty() ? "global" : joined(methods, "+");
}

/// The parts of an order of sub-layers, with attentions in canonical form.
std::string canonical_order(const std::string& order, int layers) {
  std::string text;
  for (const std::string& part : parts_of_order(order)) {
    const bool is_kind = part == "attention" || part == "cross" || part == "feed-forward";
    text += (is_kind ? part : canonical_attention(part, layers)) + ">";
  }
  return text;
}

bool is_attention(const std::string& option) {
  return option == "attention" || option == "decoder-attention" || option == "cross-attention";
}

}  // namespace

std::string canonical_attention(const std::string& specification, int layers) {
  return specification.empty() ? "global" : canonical(parse_specification(specification), layers);
}

// ---- Which row a run belongs to

namespace {

using OptionValues = std::map<std::string, std::string>;

/// The value of an option that neither flags nor a preset name. Flags and presets of sheets must agree with programs.
std::string default_of(const std::string& option) {
  static const OptionValues defaults{{"architecture", "transformer"},
                                     {"block-order", "attention > feed-forward"},
                                     {"block-order-in", "both"},
                                     {"units", "words"},
                                     {"label-smoothing", "0"},
                                     {"loss-per", "token"},
                                     {"norm", "pre"},
                                     {"query", "previous"},
                                     {"encoder-layers", "0"},
                                     {"decoder-layers", "0"}};
  auto found = defaults.find(option);
  return found == defaults.end() ? "" : found->second;
}

std::string text_of_value(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : text_of(value);
}

std::string value_of(const OptionValues& values, const std::string& option) {
  auto found = values.find(option);
  return found == values.end() || found->second.empty() ? default_of(option) : found->second;
}

/// The value of an option in a form in which equal models have equal texts.
std::string canonical_value(const OptionValues& values, const std::string& option) {
  const std::string of_stack = value_of(values, option == "attention" ? "encoder-layers" : "decoder-layers");
  const std::string depth = of_stack.empty() || of_stack == "0" ? value_of(values, "layers") : of_stack;
  const int layers = number<int>(depth).value_or(0);
  const std::string value = value_of(values, option);
  if (option == "init") return value.empty() ? "" : "another run";
  if (option == "block-order") return canonical_order(value, layers);
  if (!is_attention(option)) return plain_value(value);
  const bool is_additive = option == "attention" && value.empty() && value_of(values, "architecture") == "rnn";
  return canonical_attention(is_additive ? "classic(additive)" : value, layers);
}

OptionValues values_of(const FlagValues& flags) {
  OptionValues values;
  for (const auto& [name, value] : flags) {
    if (name != "preset") continue;
    const Json preset = preset_values(value);
    for (const auto& [key, of_preset] : preset.items()) values[key] = text_of_value(of_preset);
  }
  for (const auto& [name, value] : flags) {
    const bool is_off = value.empty() && name.starts_with("no-");
    values[is_off ? name.substr(3) : name] = !value.empty() ? value : is_off ? "false" : "true";
  }
  return values;
}

OptionValues values_of(const Json& configuration) {
  OptionValues values;
  for (const auto& [name, value] : configuration.items()) values[name] = text_of_value(value);
  if (value_of(values, "program") == "language_model" && !value_of(values, "decoder-attention").empty())
    values["attention"] = values["decoder-attention"];
  return values;
}

/// The options that distinguish the rows of a sheet.
std::set<std::string> distinguishing_options(const Sheet& sheet, const Sheet::Task& task, const std::string& tier) {
  std::set<std::string> options{"architecture", "attention"};
  for (const Sheet::Row& row : sheet.rows) {
    if (row.is_cited) continue;
    const auto& variables = sheet.recipe(task).tiers.at(tier).variables;
    for (const auto& [name, value] : values_of(flag_values(row.flags, variables))) options.insert(name);
    if (row.flags.find("layers=") != std::string::npos) options.insert({"layers", "encoder-layers"});
    if (!row.initial.empty()) options.insert("init");
  }
  for (const char* not_of_model : {"beam", "length-penalty", "no-repeat", "updates", "schedule", "spread"})
    options.erase(not_of_model);
  if (value_of(values_of(row_flags(sheet, sheet.rows.front(), task, tier)), "architecture") == "rnn")
    options.insert("units");
  return options;
}

/// The number of flags of a task's recipe with which the run agrees, at the tier where most agree.
std::size_t agreement(const Sheet& sheet, const Sheet::Task& task, const OptionValues& run) {
  std::size_t most = 0;
  for (const auto& [name, tier] : sheet.recipe(task).tiers) {
    const OptionValues wanted = values_of(flag_values(tier.flags, tier.variables));
    most = std::max(most, static_cast<std::size_t>(std::count_if(wanted.begin(), wanted.end(), [&](const auto& flag) {
                      return canonical_value(wanted, flag.first) == canonical_value(run, flag.first);
                    })));
  }
  return most;
}

/// The task of a run: of those with data of a name like the run's, or else of all with its program, the one with whose
/// recipe it agrees most.
const Sheet::Task* task_of(const Sheet& sheet, const OptionValues& run) {
  const std::string data = value_of(run, "data");
  auto is_like = [&](const Sheet::Task& task) {
    return std::any_of(task.like.begin(), task.like.end(),
                       [&](const std::string& part) { return data.find(part) != std::string::npos; });
  };
  const bool any_is_like = std::any_of(sheet.tasks.begin(), sheet.tasks.end(), is_like);
  const Sheet::Task* best = nullptr;
  for (const Sheet::Task& task : sheet.tasks) {
    if (sheet.recipe(task).program != value_of(run, "program") || (any_is_like && !is_like(task))) continue;
    if (!best || agreement(sheet, task, run) > agreement(sheet, *best, run)) best = &task;
  }
  return best;
}

bool agrees(const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task, const std::string& tier,
            const OptionValues& run) {
  OptionValues wanted = values_of(row_flags(sheet, row, task, tier));
  const Sheet::Row& trained = row.model.empty() ? row : sheet.row(row.model);
  if (!trained.initial.empty()) wanted["init"] = trained.initial;
  const std::set<std::string> options = distinguishing_options(sheet, task, tier);
  return std::all_of(options.begin(), options.end(), [&](const std::string& option) {
    return canonical_value(wanted, option) == canonical_value(run, option);
  });
}

}  // namespace

SheetRuns match_runs(const Sheet& sheet, const std::vector<const RunResult*>& runs) {
  SheetRuns found;
  std::map<std::string, std::string> examples;  // by task: the test examples of its first run
  for (const RunResult* run : runs) {
    const OptionValues values = values_of(run->configuration);
    const Sheet::Task* task = task_of(sheet, values);
    if (!task || !run->failure.empty()) continue;
    auto belongs = [&](const Sheet::Row& row) {
      const auto& tiers = sheet.recipe(*task).tiers;
      return !row.is_cited && std::any_of(tiers.begin(), tiers.end(), [&](const auto& tier) {
        return agrees(sheet, row, *task, tier.first, values);
      });
    };
    const auto first = std::find_if(sheet.rows.begin(), sheet.rows.end(), belongs);
    if (first == sheet.rows.end()) continue;
    const std::string key = key_of_examples(*run);
    if (examples.try_emplace(task->name, key).first->second != key) continue;
    for (const Sheet::Row& row : sheet.rows) {
      // rows that read parts of the same model have the same runs
      if (&row != &*first && (row.part.empty() || !belongs(row))) continue;
      std::vector<const RunResult*>& of_row = found[{row.name, task->name}];
      const bool is_another_seed = of_row.empty() || (agree_but_for_seed(*of_row.front(), *run) &&
                                                      std::none_of(of_row.begin(), of_row.end(),
                                                                   [&](auto* one) { return one->seed == run->seed; }));
      if (is_another_seed) of_row.push_back(run);
    }
  }
  return found;
}

}  // namespace fovea
