/// Sliding window: a fixed number of keys on each side of the query.
/// Beltagy et al. 2020, "Longformer: The Long-Document Transformer", §3.1.
///
///   softmax over the keys i − left ≤ j ≤ i + right that i may see
///
/// With a dilation, the keys of a window are `dilation` tokens apart:
///
///   softmax over j = i + dilation · r, −left ≤ r ≤ right
#pragma once
#include "attention/method.h"
#include "attention/methods/ranges.h"

namespace fovea {

class SlidingWindow : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t left = 16, right = 16;  ///< number of keys before and after the query
    std::int64_t dilation = 1;           ///< distance between neighbouring keys of the window, in tokens
  };
  static constexpr MethodCard card = {"sliding", "a hard window: a number of keys before and after the query",
                                      "Beltagy et al. 2020, section 3.1",
                                      "softmax over j = i + dilation r, -left <= r <= right"};
  static void visit(OptionVisitor& visitor, Options& options) {
    visitor.integer("left", options.left, 0, std::int64_t{1} << 31, "number of keys before the query");
    visitor.integer("right", options.right, 0, std::int64_t{1} << 31, "number of keys after the query");
    visitor.integer("dilation", options.dilation, 1, 1 << 20, "distance between neighbouring keys, in tokens");
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
