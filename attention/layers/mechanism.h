/// Attention without projections, as before the Transformer, over the inputs themselves; and combinations of several
/// attention mechanisms. Luong et al. 2015, section 3; Watson 2019 (slides), where several mechanisms are the heads.
///
///   classic(sum)             o_i = Σ_j w_ij v_j, of one head; classic(sum, heads=H) splits the inputs into H heads
///   multi_head(sum)          o_i = [head_1; ...; head_H] W^O + b, with projections; the same as the sum alone
///   average(sum, sum, ...)   o_i = (o_i^1 + ... + o_i^K) / K
///   concat(sum, sum, ...)    o_i = [o_i^1; ...; o_i^K] W
///
/// with query [B, I, d_q], key [B, J, d_k], value [B, J, d_v] and W [Σ width of o^k, width]. Each of the K mechanisms
/// has parameters of its own. A mechanism in average(...) or concat(...) is a sum of methods, which means classic(sum)
/// there, or one of these four combinations.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "attention/layers/placed_methods.h"
#include "nn/linear.h"

namespace fovea {

/// AttentionShape::heads heads over the inputs, without projections: head h reads the h-th part of the widths of
/// queries, keys and values, and the results of the heads lie side by side. The score is the scaled dot product, unless
/// a method sets another score. The only parameters are those of the methods.
class ClassicAttention : public Attention {
 public:
  /// Throws Error unless the number of heads divides the widths of queries, keys and values, and if a method changes
  /// the width of the values or the number of key heads, or the shape's head_dim is not the width of a head's part.
  ClassicAttention(const AttentionShape& shape, PlacedMethods methods);
  /// The output [B, I, d_v]. Throws Error for inputs whose widths differ from those of the shape.
  Variable forward(const AttentionInput& input) override;
  std::int64_t output_dim() const override { return shape_.value_dim; }
  std::int64_t heads() const override { return shape_.heads; }

  /// The shape that a method which acts on `heads` heads of this attention is constructed with.
  static MethodShape method_shape(const AttentionShape& shape, int heads);

 private:
  Variable forward_of_clean(const AttentionInput& input);

  AttentionShape shape_;
  PlacedMethods methods_;
  Surroundings surroundings_;  // after the change() of all methods
};

/// classic(sum): attention without projections.
struct Classic {
  struct Options {
    std::int64_t heads = 1;
  };
  static constexpr MethodCard card = {"classic", "attention over the inputs themselves, without projections",
                                      "Luong et al. 2015, section 3", "o_i = sum_j w_ij v_j"};
  static void visit(OptionVisitor& visitor, Options& options);
  /// The only one of the mechanisms, with these heads. Throws Error for several.
  static std::unique_ptr<Attention> make(AttentionShape shape, const std::vector<AttentionFactory>& mechanisms,
                                         const Options& options);
};

/// multi_head(sum): a MultiHeadAttention, with projections of its own, as one mechanism. Its output has the width of
/// the model; average(...) combines it only with mechanisms whose values have that width.
struct MultiHead {
  struct Options {
    std::int64_t heads = 0;  ///< 0: the number of heads of the model
    bool output = true;      ///< apply W^O; false: the output is the concatenated heads, for the W of concat(...)
  };
  static constexpr MethodCard card = {
      "multi_head", "multi-head attention with projections, as a mechanism", "Vaswani et al. 2017, section 3.2.2",
      "o_i = [head_1; ...; head_H] W^O + b, head_h = sum_j w_ij v_j of x W^Q + b, x W^K + b, x W^V + b"};
  static void visit(OptionVisitor& visitor, Options& options);
  /// Throws Error for several mechanisms.
  static std::unique_ptr<Attention> make(AttentionShape shape, const std::vector<AttentionFactory>& mechanisms,
                                         const Options& options);
};

/// The base class of average(...) and concat(...): K mechanisms over the inputs, or over parts of their projections.
/// AttentionInput::mask, allowed, left_pointer, right_pointer and previous_focus have in their dimension of heads
/// either 1, which serves all mechanisms, or K, or the number of all heads of all mechanisms, in the order of the
/// traced weights.
class MixedAttention : public Attention {
 public:
  /// The input of mechanism k: the whole inputs, or its part of the projected inputs.
  enum class HeadInput { full, split };

  /// The output [B, I, output_dim()]. Throws Error if the dimension of heads of one of these inputs has another size.
  Variable forward(const AttentionInput& input) override;
  std::int64_t heads() const override;

 protected:
  /// With HeadInput::split the inputs are projected to width d: query W^Q + b, key W^K + b, value W^V + b. Mechanism k,
  /// counted from 0, reads the columns k d / K to (k + 1) d / K − 1. K must divide d; otherwise throws Error.
  MixedAttention(const char* name, const AttentionShape& shape, const std::vector<AttentionFactory>& mechanisms,
                 HeadInput head_input);
  /// The result, from the outputs of all mechanisms, each [B, I, its width].
  virtual Variable combine(const std::vector<Variable>& outputs) const = 0;
  std::int64_t mechanisms() const { return static_cast<std::int64_t>(mechanisms_.size()); }
  std::int64_t value_dim() const;  ///< sum of the widths of all mechanisms' outputs
  const Attention& mechanism(std::int64_t k) const { return *mechanisms_[static_cast<std::size_t>(k)]; }

 private:
  Variable outputs_together(const AttentionInput& input);
  std::vector<AttentionInput> inputs_of_mechanisms(const AttentionInput& input) const;
  Variable part_of_mechanism(const Variable& x, int rank, std::int64_t k, const char* what) const;

  std::optional<Linear> query_, key_, value_;
  std::vector<std::unique_ptr<Attention>> mechanisms_;
};

class AverageAttention : public MixedAttention {
 public:
  struct Options {
    HeadInput head_input = HeadInput::full;
  };
  static constexpr MethodCard card = {"average", "the mean of several mechanisms' outputs", "Watson 2019",
                                      "o_i = (o_i^1 + ... + o_i^K) / K"};
  static void visit(OptionVisitor& visitor, Options& options);
  /// Throws Error if the mechanisms' outputs differ in width.
  AverageAttention(const AttentionShape& shape, const std::vector<AttentionFactory>& mechanisms,
                   const Options& options);
  std::int64_t output_dim() const override { return mechanism(0).output_dim(); }

 protected:
  Variable combine(const std::vector<Variable>& outputs) const override;
};

class ConcatAttention : public MixedAttention {
 public:
  struct Options {
    HeadInput head_input = HeadInput::full;
    bool linear = true;      ///< multiply by W; otherwise the output's width is the sum of the mechanisms' widths
    std::int64_t width = 0;  ///< width of the output; 0: that of the values
  };
  static constexpr MethodCard card = {"concat", "several mechanisms' outputs side by side, and a linear layer",
                                      "Watson 2019", "o_i = [o_i^1; ...; o_i^K] W"};
  static void visit(OptionVisitor& visitor, Options& options);
  ConcatAttention(const AttentionShape& shape, const std::vector<AttentionFactory>& mechanisms, const Options& options);
  std::int64_t output_dim() const override { return output_ ? output_->weight().size(1) : value_dim(); }

 protected:
  Variable combine(const std::vector<Variable>& outputs) const override;

 private:
  std::optional<Linear> output_;  // W [Σ width of o^k, width], no bias; absent if linear is false
};

}  // namespace fovea
