// Which row of a sheet a run belongs to.
#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "attention/language/specification.h"
#include "attention/registry.h"
#include "experiments/support/report/program_options.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/report/sheet.h"
#include "experiments/support/text/number.h"

namespace fovea {

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

/// FIRST-LAST in a unique form: empty if it covers all of `count` layers, otherwise with their number. 0: unknown.
std::string plain_range(const std::string& value, int count) {
  const std::size_t dash = value.find('-');
  const std::string first = value.substr(0, dash), last = dash == std::string::npos ? first : value.substr(dash + 1);
  if (first == "1" && count > 0 && number<int>(last).value_or(0) >= count) return "";
  return fmt::format("{}-{} of {}", first, last, count);
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

}  // namespace

std::string canonical_attention(const std::string& specification, int layers) {
  return specification.empty() ? "global" : canonical(parse_specification(specification), layers);
}

// ---- Configurations

namespace {

/// The number of layers of the stack whose attention the option is.
int depth_of(const Json& configuration, const std::string& option) {
  const char* of_stack = option == "attention" ? "encoder-layers" : "decoder-layers";
  const int own = number<int>(text_at(configuration, of_stack)).value_or(0);
  return own > 0 ? own : number<int>(text_at(configuration, "layers")).value_or(0);
}

/// The value of an option in a form in which equal models have equal texts.
std::string canonical_value(const Json& configuration, const std::string& option) {
  const std::string value = text_at(configuration, option);
  if (option == "init") return value.empty() ? "" : "another run";
  if (option == "block-order") return canonical_order(value, depth_of(configuration, "attention"));
  if (option != "attention" && option != "decoder-attention" && option != "cross-attention") return plain_value(value);
  const bool is_additive = value.empty() && option == "attention" && text_at(configuration, "architecture") == "rnn";
  return canonical_attention(is_additive ? "classic(additive)" : value, depth_of(configuration, option));
}

/// The configuration of a run. Options that its version of the program did not have yet get their defaults.
Json completed_configuration(const RunResult& run) {
  Json configuration = configuration_of(program_of(run), {});
  configuration.update(run.configuration);
  if (program_of(run) == "language_model" && !text_at(configuration, "decoder-attention").empty())
    configuration["attention"] = configuration["decoder-attention"];
  return configuration;
}

// ---- Rows

/// The options that decide which row a run belongs to, with their canonical values for one row at one tier.
struct RowOptions {
  const Sheet::Row* row;
  std::map<std::string, std::string> wanted;

  bool agrees_with(const Json& configuration) const {
    return std::all_of(wanted.begin(), wanted.end(), [&](const auto& option) {
      return canonical_value(configuration, option.first) == option.second;
    });
  }
};

/// The options that the flags of any row name, or change by a preset, and those that make the kind of a model. Left out
/// are options of how long is trained and how the model is tested.
std::set<std::string> distinguishing_options(const Sheet& sheet, const Recipe& recipe, const Recipe::Tier& tier,
                                             const std::vector<Json>& rows) {
  std::set<std::string> options{"architecture", "attention"};
  if (text_at(rows.front(), "architecture") == "rnn") options.insert("units");
  for (const Sheet::Row& row : sheet.rows)
    for (const auto& [name, value] : flag_values(row.flags, tier.variables))
      options.insert(value.empty() && name.starts_with("no-") ? name.substr(3) : name);
  const Json plain = configuration_of(recipe.program, arguments_of(flag_values(tier.flags, tier.variables)));
  for (const Json& row : rows)
    for (const auto& [name, value] : row.items())
      if (canonical_value(row, name) != canonical_value(plain, name)) options.insert(name);
  for (const char* not_of_model :
       {"", "preset", "beam", "length-penalty", "no-repeat", "spread", "updates", "schedule"})
    options.erase(not_of_model);
  return options;
}

/// The rows of a task at one tier.
std::vector<RowOptions> rows_at(const Sheet& sheet, const Sheet::Task& task, const std::string& tier) {
  std::vector<const Sheet::Row*> rows;
  std::vector<Json> configurations;
  for (const Sheet::Row& row : sheet.rows) {
    if (row.is_cited) continue;
    rows.push_back(&row);
    configurations.push_back(
        configuration_of(sheet.recipe(task).program, arguments_of(row_flags(sheet, row, task, tier))));
    const Sheet::Row& trained = row.model.empty() ? row : sheet.row(row.model);
    if (!trained.initial.empty()) configurations.back()["init"] = trained.initial;
  }
  const Recipe& recipe = sheet.recipe(task);
  const std::set<std::string> options = distinguishing_options(sheet, recipe, recipe.tiers.at(tier), configurations);
  std::vector<RowOptions> all;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    all.push_back({rows[k], {}});
    for (const std::string& option : options) all.back().wanted[option] = canonical_value(configurations[k], option);
  }
  return all;
}

/// A task at a tier, and the number of options in which a run agrees with its recipe.
struct TaskAtTier {
  const Sheet::Task* task;
  std::string tier;
  std::size_t agreement = 0;
};

/// The places where the run may belong, those with which it agrees most first, and only those of one task. If any task
/// has data of a name like the run's, it is such a task.
std::vector<TaskAtTier> places_of(const Sheet& sheet, const Json& run) {
  const std::string data = text_at(run, "data");
  auto is_like = [&](const Sheet::Task& task) {
    return std::any_of(task.like.begin(), task.like.end(),
                       [&](const std::string& part) { return data.find(part) != std::string::npos; });
  };
  const bool any_is_like = std::any_of(sheet.tasks.begin(), sheet.tasks.end(), is_like);
  std::vector<TaskAtTier> places;
  for (const Sheet::Task& task : sheet.tasks) {
    const Recipe& recipe = sheet.recipe(task);
    if (recipe.program != text_at(run, "program") || (any_is_like && !is_like(task))) continue;
    for (const auto& [name, tier] : recipe.tiers) {
      TaskAtTier& place = places.emplace_back(TaskAtTier{&task, name});
      const Json wanted = configuration_of(recipe.program, arguments_of(flag_values(tier.flags, tier.variables)));
      for (const auto& [option, value] : wanted.items())
        place.agreement += canonical_value(wanted, option) == canonical_value(run, option);
    }
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const TaskAtTier& a, const TaskAtTier& b) { return a.agreement > b.agreement; });
  std::erase_if(places, [task = places.empty() ? nullptr : places.front().task](const TaskAtTier& place) {
    return place.task != task;
  });
  return places;
}

}  // namespace

SheetRuns match_runs(const Sheet& sheet, const std::vector<const RunResult*>& runs) {
  SheetRuns found;
  std::map<std::string, std::string> examples;                                  // by task: those of its first run
  std::map<std::pair<std::string, std::string>, std::vector<RowOptions>> rows;  // by task and tier
  for (const RunResult* run : runs) {
    const bool has_program = std::any_of(sheet.tasks.begin(), sheet.tasks.end(), [&](const Sheet::Task& task) {
      return sheet.recipe(task).program == program_of(*run);
    });
    if (!has_program || !run->failure.empty()) continue;
    const Json configuration = completed_configuration(*run);
    for (const auto& [task, tier, agreement] : places_of(sheet, configuration)) {
      auto [at, is_new] = rows.try_emplace({task->name, tier});
      if (is_new) at->second = rows_at(sheet, *task, tier);
      std::vector<const Sheet::Row*> agreeing;
      for (const RowOptions& one : at->second)
        if (one.agrees_with(configuration)) agreeing.push_back(one.row);
      if (agreeing.empty()) continue;
      const std::string key = key_of_examples(*run);
      if (examples.try_emplace(task->name, key).first->second != key) break;
      // Several rows agree if they read parts of one model, or are one model at this tier.
      for (const Sheet::Row* row : agreeing) {
        SeedRuns& of_row = found[{row->name, task->name}];
        const bool is_another_seed =
            of_row.empty() ||
            (agree_but_for_seed(*of_row.front(), *run) &&
             std::none_of(of_row.begin(), of_row.end(), [&](auto* one) { return one->seed == run->seed; }));
        if (is_another_seed) of_row.push_back(run);
      }
      break;
    }
  }
  for (auto& [key, of_row] : found)
    std::sort(of_row.begin(), of_row.end(), [](auto* a, auto* b) { return a->seed < b->seed; });
  return found;
}

}  // namespace fovea
