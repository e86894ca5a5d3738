/// `attend --check`: the properties that every attention must have (attention/properties), on one.
#pragma once
#include <optional>
#include <string>

#include "experiments/support/program/cli.h"
#include "nn/attention.h"

namespace fovea {

/// The attention to check: a method, which is also checked with each of its options, in sums and on some heads, or a
/// specification, which is checked alone. The property and the place restrict what is checked.
struct PropertyCheck {
  std::string attention, property;

  void add_to(Cli& cli);
  /// Prints a line for each property, and for each case that fails the command that checks it alone. Throws Error for a
  /// specification with a mistake or without a place, and ChecksFailed if a property does not hold.
  void run(const Cli& cli, std::optional<Place> place) const;
};

}  // namespace fovea
