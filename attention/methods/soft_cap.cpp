#include "attention/methods/soft_cap.h"

namespace fovea {

void SoftCap::add_terms(const AttentionContext&, Terms& terms) {
  terms.scores.push_back(pointwise(SoftCapScore{options_.cap}));
}

}  // namespace fovea
