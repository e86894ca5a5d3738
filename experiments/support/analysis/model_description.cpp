// The model of a run in words.
#include <algorithm>

#include <fmt/core.h>

#include "attention/language/specification.h"
#include "attention/registry.h"
#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/analysis/commands.h"
#include "experiments/support/analysis/run_flags.h"

namespace fovea {

namespace {

void add_methods(const std::vector<MethodText>& sum, std::vector<std::string>& names) {
  for (const MethodText& method : sum) {
    if (std::find(names.begin(), names.end(), method.name) == names.end()) names.push_back(method.name);
    for (const Share& share : method.shares) add_methods(share.sum, names);
  }
}

}  // namespace

Finding model_description(Cli& cli) {
  RunFlags flags(cli, false);
  cli.parse();
  const auto run = flags.open();
  Finding finding{.title = "Model of " + title_of_run(flags.one()), .runs = {flags.one()}};
  std::vector<std::string> methods;
  for (Place stack : {Place::encoder, Place::decoder}) {
    std::string order;
    for (const SpecifiedSubLayer& layer : run->sub_layers(stack)) {
      order += (order.empty() ? "" : " → ") + layer.text();
      if (!layer.specification.empty()) add_methods(parse_specification(layer.specification), methods);
    }
    if (!order.empty()) finding.notes.push_back(fmt::format("A layer of the {}: {}", name_of(stack), order));
  }
  Table equations({"method", "what it does", "equation", "paper"});
  for (const std::string& name : methods) {
    const MethodEntry* entry = find_method(name);
    const Combination* combination = find_combination(name);
    if (!entry && !combination) continue;
    const MethodCard& card = entry ? entry->card : combination->card;
    std::string formula = card.formula;
    std::replace(formula.begin(), formula.end(), '\n', ';');
    equations.row({name, card.summary, formula, card.reference});
  }
  Table parameters({"part", "parameters"});
  for (const ModuleCount& part : run->model().module_counts())
    if (!part.name.empty() && std::count(part.name.begin(), part.name.end(), '.') <= 2)
      parameters.row({part.name, part.parameters});
  parameters.rule().row({"total", run->model().parameter_count()});
  finding.tables = {{"attentions", equations}, {"parameters", parameters}};
  return finding;
}

}  // namespace fovea
