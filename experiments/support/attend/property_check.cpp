#include "experiments/support/attend/property_check.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "attention/properties/cases.h"
#include "attention/properties/property.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/program/program.h"
#include "experiments/support/report/attention_view.h"
#include "experiments/support/text/words.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace {

std::vector<std::string> specifications_to_check(const std::string& attention) {
  if (const MethodEntry* method = find_method(attention)) return properties::specifications_with_sums(*method);
  attention_factory(attention);  // throws for a mistake
  return {attention};
}

/// The command that checks one case again.
std::string command_of(const Cli& cli, const properties::Property& property, const properties::Failure& failure) {
  std::string command = "attend";
  const nlohmann::ordered_json configuration = cli.configuration();
  if (configuration.contains("methods"))
    for (const auto& library : configuration["methods"].items())
      command += " --methods " + quoted_for_shell(library.key());
  return command + fmt::format(" --check {} --property {} --place {}", quoted_for_shell(failure.specification),
                               property.name, name_of(failure.place));
}

/// Checks a property, and prints its line and those of the cases that fail.
properties::Outcome checked(const Cli& cli, const properties::Property& property,
                            const std::vector<std::string>& specifications, std::optional<Place> place) {
  const auto start = std::chrono::steady_clock::now();
  const properties::Outcome outcome = properties::check(property, specifications, place);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::string claim = property.name;
  std::ranges::replace(claim, '_', ' ');
  const std::string result = !outcome.failures.empty() ? "FAILED" : outcome.checked == 0 ? "-" : "ok";
  fmt::print("{:<7} {:<66} {:>2} cases {:>6.1f} s\n", result, claim, outcome.checked, seconds.count());
  for (const properties::Failure& failure : outcome.failures)
    fmt::print("        {} in {}: {}\n        {}\n", failure.specification, name_of(failure.place), failure.reason,
               command_of(cli, property, failure));
  std::fflush(stdout);
  return outcome;
}

}  // namespace

void PropertyCheck::add_to(Cli& cli) {
  std::vector<std::string> names;
  for (const properties::Property& property : properties::all_properties()) names.emplace_back(property.name);
  cli.option("--check", attention,
             "check the properties that every attention must have, such as gradients and causality, on a method with "
             "each of its options, or on a specification, and exit");
  cli.option("--property", property, "with --check: the only property").one_of(names);
}

void PropertyCheck::run(const Cli& cli, std::optional<Place> place) const {
  const NoWarnings quiet;
  std::vector<std::string> specifications;
  with_flag("--check", [&] { specifications = specifications_to_check(attention); });
  fmt::print("{}\n", fmt::join(specifications, "; "));
  int claims = 0, failed = 0, cases = 0;
  for (const properties::Property& each : properties::all_properties()) {
    if ((!property.empty() && property != each.name) || (each.needs_gpu && !cuda_is_available())) continue;
    const properties::Outcome outcome = checked(cli, each, specifications, place);
    ++claims;
    cases += outcome.checked;
    failed += !outcome.failures.empty();
  }
  require(cases > 0,
          "--check {}: nothing was checked: it is not defined in this place, or the property says nothing "
          "about it",
          attention);
  if (failed > 0) throw ChecksFailed(fmt::format("{} of {} properties do not hold", failed, claims));
}

}  // namespace fovea
