/// Statements of the papers about their own methods, computed on random numbers.
#pragma once
#include <cstdint>
#include <string>

#include "experiments/support/report/finding.h"

namespace fovea {

class Cli;

/// The papers whose statements are checked; empty: all.
struct IdentityCheck {
  std::string paper;
  std::uint64_t seed = 1;

  void add_to(Cli& cli);
};

/// Computes both sides of each statement in double precision, and shows the largest difference. Throws Error if a
/// statement does not hold.
Finding checked_identities(const IdentityCheck& options);

}  // namespace fovea
