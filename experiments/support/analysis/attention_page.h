/// A page on which readers look into the attentions of a model: they choose the sentence, the attention, the quantity
/// and the head, and see the number of each pair. One file, light and dark, usable with the keyboard alone.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/report/attention_view.h"

namespace fovea {

/// The attention, quantity and head that are selected when the page is opened.
struct PageStart {
  std::string attention, quantity;  ///< AttentionView::title(), ViewedQuantity::name
  std::int64_t head = 0;            ///< from 1; 0: the mean of the heads
};

/// `origin`: when and how the page was made. `first`: the number of the first sentence in its set; empty: they are
/// texts of the user's.
std::string attention_page(const std::string& title, const std::string& origin,
                           const std::vector<SentenceView>& sentences, std::optional<std::int64_t> first,
                           const PageStart& start);

}  // namespace fovea
