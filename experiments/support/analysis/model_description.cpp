// The model of a run in words.
#include <algorithm>

#include <fmt/core.h>

#include "attention/language/specification.h"
#include "attention/registry.h"
#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/analysis/commands.h"

namespace fovea {

Finding model_description(Cli& cli) {
  RunFlags flags(cli, 0);
  cli.parse();
  const auto run = flags.open(flags.run());
  Finding finding{.title = "Model of " + title_of_run(flags.run()), .runs = {flags.run()}};
  std::vector<std::string> methods;
  for (Place stack : {Place::encoder, Place::decoder}) {
    std::string order;
    for (const SpecifiedSubLayer& layer : run->sub_layers(stack)) {
      order += (order.empty() ? "" : " → ") + layer.text();
      const std::vector<MethodText> sum =
          layer.specification.empty() ? std::vector<MethodText>() : parse_specification(layer.specification);
      for (const MethodText* method : all_methods(sum))
        if (std::ranges::find(methods, method->name) == methods.end()) methods.push_back(method->name);
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
    std::ranges::replace(formula, '\n', ';');
    equations.row({name, card.summary, formula, card.reference});
  }
  Table parameters({"part", "parameters"});
  for (const ModuleCount& part : run->model().module_counts())
    if (!part.name.empty() && std::ranges::count(part.name, '.') <= 2) parameters.row({part.name, part.parameters});
  parameters.rule().row({"total", run->model().parameter_count()});
  finding.tables = {{"attentions", equations}, {"parameters", parameters}};
  return finding;
}

}  // namespace fovea
