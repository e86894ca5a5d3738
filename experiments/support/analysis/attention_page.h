/// A page on which readers look into the attentions of a model: they choose the sentence, the attention, the quantity
/// and the head, and see the number of each pair. One file, light and dark, usable with the keyboard alone.
#pragma once
#include <string>
#include <vector>

#include "experiments/support/analysis/attention_view.h"

namespace fovea {

std::string attention_page(const std::string& title, const std::vector<SentenceView>& sentences);

}  // namespace fovea
