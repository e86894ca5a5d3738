/// Rows of the states that hold NaN, infinities or huge numbers change nothing for queries that do not see them.
///
/// A weight of exactly 0 does not hide such a row from a matrix product, because 0 · NaN is NaN. Nor does a gradient of
/// 0 hide it from the gradient of a projection, Xᵀ dY. So the rows are replaced before anything reads them.
#pragma once
#include <functional>

#include "attention/engine/attend.h"

namespace fovea {

/// Collects which keys the queries of a call see, in any head of any mechanism. While an object of this class lives,
/// the mechanisms that this thread calls have clean inputs: their forward_without_unseen() does nothing but this.
class SeenPairs {
 public:
  /// `collects`: whether the caller wants `pairs`.
  explicit SeenPairs(bool collects);
  /// The caller wants `sums` of `marks` [B, J], to which they are added: [B, I].
  SeenPairs(Tensor marks, Tensor sums);
  ~SeenPairs();
  SeenPairs(const SeenPairs&) = delete;
  SeenPairs& operator=(const SeenPairs&) = delete;
  /// The innermost object of this thread; null if there is none.
  static SeenPairs* current();

  /// Adds the pairs that a mechanism with this plan computes.
  void add(const AttentionContext& in, const Plan& plan);

  /// bool [B or 1, I or 1, J]: whether a query sees a key. Undefined: every query sees every key, or nothing was added.
  Tensor pairs;
  /// The caller's sums [B, I], to which the marks of the keys that each query sees are added, once for each mechanism.
  /// Computed for a few queries at a time, because `pairs` of all of them may take more memory than the engine.
  Tensor sums;

 private:
  void add_marks(const AttentionContext& in, const Plan& plan);

  Tensor marks_;
  bool collects_, sees_all_ = false, is_first_ = true;
  SeenPairs* before_;
};

/// forward(input), such that rows of the states which a query does not see do not matter to its result. `forward` is
/// the attention's equation with its projections; it calls SeenPairs::add() if there is a current() object. Numbers
/// beyond ±largest_state, infinities and NaN are called out of range. The rules, in full in attention/README.md:
///
/// - Keys and values that no query sees, because of key_lengths, `allowed` or causality, are read as 0 where they are
///   out of range. In self-attention the same holds for the queries behind key_lengths, which are the same rows.
/// - On the CPU, without a decoder's memory, rows that some queries see are computed twice if there are numbers out of
///   range: with 0 in their place for the queries that do not see them, and as they are for the others.
/// - On other devices the host would have to wait to know whether there are any. There only numbers beyond
///   ±largest_state_on_device are out of range in rows that some queries see. The call is computed once, with 0 in
///   their place, and the results of queries that see one, or that have one in their own state, are NaN.
///
/// In decoding, `keeps_source` says that the attention reads the source in the first call only. The memory keeps under
/// `owner` whether the source is in range, so that the CPU looks at it once. Rows of a decoder's own tokens are not
/// replaced.
///
/// On the CPU the cost is one pass over the states; on other devices, a kernel for each of them forward and backward,
/// the sum of a number for each pair of query and key, and an addition to the result, which the caller may make
/// (AttentionInput::marks).
Variable forward_without_unseen(const AttentionInput& input, const void* owner, bool keeps_source,
                                const std::function<Variable(const AttentionInput&)>& forward);

/// Larger states are out of range: the square of the product of two rows of them would no longer fit f32.
inline constexpr double largest_state = 1e8;
/// The same for rows that some queries see, on devices other than the CPU, where their readers get NaN: the square of a
/// larger number is nearly beyond f32.
inline constexpr double largest_state_on_device = 1e18;

}  // namespace fovea
