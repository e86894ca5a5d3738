/// Sliding window.
/// Beltagy et al. 2020, "Longformer: The Long-Document Transformer", §3.1.
///
///   softmax over i − left ≤ j ≤ i + right, among the keys that i may see
///
/// With a dilation every step-th of these keys, dilation · left before the query and dilation · right after it:
///
///   softmax over j = i + dilation · r, −left ≤ r ≤ right
#pragma once
#include "attention/methods/ranges.h"
#include "attention/registry.h"

namespace fovea {

class SlidingWindow : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t left = 16, right = 16;  ///< keys
    std::int64_t dilation = 1;           ///< distance from one of them to the next, in tokens
  };
  static constexpr MethodCard card = {"sliding", "keys from a number before to a number after the query",
                                      "Beltagy et al. 2020, section 3.1",
                                      "softmax over j = i + dilation r, -left <= r <= right"};
  static void visit(OptionVisitor& visitor, Options& options) {
    visitor.integer("left", options.left, 0, std::int64_t{1} << 31, "keys before the query");
    visitor.integer("right", options.right, 0, std::int64_t{1} << 31, "keys after it");
    visitor.integer("dilation", options.dilation, 1, 1 << 20, "from one of these keys to the next, in tokens");
  }

  SlidingWindow(const MethodShape&, const Options& options) : options_(options) {}
  void add_terms(const AttentionContext& in, Plan& plan) override {
    add_range(plan, in, keys_around(in, options_.dilation * options_.left, options_.dilation * options_.right));
    if (options_.dilation > 1) plan.dilations.push_back({options_.dilation});
  }

 private:
  Options options_;
};

}  // namespace fovea
