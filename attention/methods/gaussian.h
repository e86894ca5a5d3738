/// Localness as a Gaussian bias on the logits.
/// Yang et al. 2018, "Modeling Localness for Self-Attention Networks", eq. 4-9.
///
///   z_ij = s_ij − 2 ((j − P_i) / D_i)²          P: centre, D: window width (sigma = D / 2), in tokens
///
/// u_i = tanh(q_i W_p + b_p)                     q_i: the projected query of all heads side by side, [d]
/// P_i = (len − 1) sigmoid(u_i U_p + c)          [B, H, I]; len: number of keys that i may see
/// D_i by `window`:
///   fixed  D = width
///   layer  D = len sigmoid(tanh(K̄ W_d + b_d) U_d + e) + epsilon     K̄: mean of the projected keys that i may see
///   query  D = len sigmoid(u_i U_d + e) + epsilon                    with the u_i of the centre
///   head   D = N sigmoid(z) + epsilon                                z: one number per head
///
/// At the start U_p and U_d are small and c = e = 0: every centre is near the middle of the visible keys, and every
/// width near half of their number. W_p, U_p, W_d and U_d learn at 1 / sqrt(d) of the rate (NamedParameter::rate),
/// because each of their outputs is read from d numbers: otherwise tanh and sigmoid saturate.
#pragma once
#include <optional>

#include "attention/method.h"
#include "nn/linear.h"

namespace fovea {

/// The bias: logit − 2 ((j − P) / D)².
struct GaussianBias {
  static constexpr const char* name = "gaussian_bias";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T> at, T center, T inverse_width) const {
    T distance = (at.key - center) * inverse_width;
    return z - T(2) * distance * distance;
  }
};

class GaussianLocalness : public LocalnessMethod {
 public:
  enum class Window { fixed, layer, query, head };
  enum class CenterScale { last, paper };
  enum class CenterInput { query, query_and_context };
  struct Options {
    Window window = Window::query;
    double width = 10;          ///< with window = fixed: D, in tokens
    double largest_width = 50;  ///< with window = head: N, in tokens
    /// last: P = (len − 1) sigmoid, as in the authors' code; paper: P = len · sigmoid − 1, the paper's formula with
    /// positions counted from 0
    CenterScale center_scale = CenterScale::last;
    double epsilon = 0.1;  ///< in tokens, added to D as in the authors' code; 0: as in the paper, but D ≥ 1e-3
    /// The centre is predicted from the query, or from the query and the output of plain attention (footnote 2).
    CenterInput center_input = CenterInput::query;
    bool shared_width = false;  ///< with window = layer: one D for all heads (eq. 8 as printed), not one per head
    // The baseline of Nguyen et al. 2020 (their code): window = fixed, width = 5, center_scale = paper and these two.
    bool linear = false;        ///< u_i without tanh
    bool unit_initial = false;  ///< initial W_p and U_p between 0 and 1: the centres start at the last key
    /// Initial values as in the authors' code: Xavier-uniform, at the full learning rate. With rates such as 5e-3 the
    /// centres' sigmoids then saturate within a hundred updates, at the ends of the sentence.
    bool published_initial = false;
  };

  static constexpr MethodCard card = {
      "gaussian", "Gaussian bias with a learned centre and width", "Yang et al. 2018, eq. 4-9",
      "z_ij = s_ij - 2 ((j - P_i) / D_i)^2\n"
      "u_i = tanh(q_i hidden), q_i: all heads of the projected query; P_i = (len - 1) sigmoid(u_i center)\n"
      "window=fixed: D = width; query: D_i = len sigmoid(u_i width) + epsilon; head: N sigmoid(head_width) + epsilon;\n"
      "layer: len sigmoid(tanh(mean_j k_j width_hidden) width) + epsilon; q+ctx: u_i = tanh(q_i hidden + o_i context)"};
  static void visit(OptionVisitor& visitor, Options& options);

  GaussianLocalness(const MethodShape& shape, const Options& options);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Variable center(const AttentionContext& in, const Variable& hidden) const;
  Variable width(const AttentionContext& in, const Variable& hidden) const;

  Options options_;
  int heads_;
  Linear hidden_;                               // W_p [d, d]
  Linear center_;                               // U_p [d, H]
  std::optional<Linear> context_;               // W_o [H D, d], no bias
  std::optional<Linear> width_hidden_, width_;  // W_d [d, d], U_d [d, H], or [d, 1] with shared_width
  Variable head_width_;                         // z [H]
};

}  // namespace fovea
