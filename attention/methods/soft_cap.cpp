#include "attention/methods/soft_cap.h"

namespace fovea {

void SoftCap::add_terms(const AttentionContext&, Plan& plan) {
  plan.score_changes.push_back(pointwise(SoftCapScore{options_.cap}));
}

}  // namespace fovea
