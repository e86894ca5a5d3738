/// Grouped-query attention: groups of query heads share the keys and values of one head.
/// Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints",
/// section 2.2.
///
///   s_ij^h = q_i^h · k_j^g / sqrt(D), o_i^h = Σ_j a_ij^h v_j^g        g = ⌊h G / H⌋, G heads of keys and values
///
/// W^K is [d, G D] and W^V [d, G D_v], and a decoder's memory holds G heads only. G = 1 is multi-query attention
/// (Shazeer 2019), G = H plain attention. If rotary positions act on some heads only, rotary(heads=...), the memory
/// also holds the rotated keys of all H heads. Each call repeats keys and values for the H query heads: for G = 1 as a
/// view, otherwise as a copy.
#pragma once
#include "attention/method.h"

namespace fovea {

class GroupedQueries : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t key_heads = 0;  ///< G, a divisor of H; 0: H / 2, or 1 for odd H
  };
  static constexpr MethodCard card = {
      "grouped", "groups of query heads share the keys and values of one head", "Ainslie et al. 2023, section 2.2",
      "z_ij = q_i . k_j^g / sqrt(D), o_i = sum_j w_ij v_j^g, g = floor(h G / H) for head h = 0 to H - 1, G: key_heads"};
  static void visit(OptionVisitor& visitor, Options& options) {
    visitor.integer("key_heads", options.key_heads, 0, 65536,
                    "G, number of heads of keys and values, a divisor of H; 0: H / 2, or 1 for odd H");
  }

  GroupedQueries(const MethodShape& shape, const Options& options)
      : key_heads_(options.key_heads > 0  ? options.key_heads
                   : shape.heads % 2 == 0 ? shape.heads / 2
                                          : 1) {
    require(shape.heads == shape.all_heads,
            "grouped: it acts on all heads, so heads= and heads(...) cannot be used with it");
    require(shape.heads % key_heads_ == 0, "grouped: key_heads={} does not divide the number of heads, {}", key_heads_,
            shape.heads);
  }
  bool has_independent_queries() const override { return true; }
  void change(Surroundings& surroundings) const override {
    require(surroundings.key_heads == 0 || surroundings.key_heads == key_heads_,
            "grouped: two methods set the number of key heads, to {} and to {}", surroundings.key_heads, key_heads_);
    surroundings.key_heads = key_heads_;
  }
  void add_terms(const AttentionContext&, Plan&) override {}

 private:
  std::int64_t key_heads_;  // G
};

}  // namespace fovea
