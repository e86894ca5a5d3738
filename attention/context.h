/// The inputs of one attention call, as methods and engines see them.
///
/// Letters of shapes: B sentences, H heads, I queries, J keys, D width of a head, d model width.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "nn/attention.h"

namespace fovea {

class Linear;

/// The heads first ≤ h < first + count of an attention; all of its heads if count is 0.
struct HeadRange {
  std::int64_t first = 0, count = 0;
};

/// The keys that each query sees as an interval, first ≤ j < end. Both i32 on the device of the queries, and broadcast
/// to [B, H, I]. Undefined: the interval begins with the first key, or ends with the last one.
struct KeyRange {
  Tensor first, end;
};

/// The positions of consecutive tokens.
struct TokenPositions {
  std::int64_t first;  ///< of the first token, in its row
  /// Position of the first token of each token's document, [B, 1, T], of a floating-point type. Undefined: there are no
  /// documents. A position in the document is the one in the row less this number.
  Tensor document_start = {};
};

/// Results of linear layers that were applied to the same states in one product.
struct ProjectedStates {
  Variable states;
  std::map<const Linear*, Variable> results;
};

/// The inputs of one call, for methods and engines.
struct AttentionContext {
  Variable query_states;  ///< input of the sub-layer, [B, I, d]
  /// States of the keys that this call passes, [B, J, d]. Keys of earlier calls, in the decoder's memory, have none
  /// here.
  Variable key_states;
  /// Projected states with bias, without the factor 1 / sqrt(D): [B, I, d], and [B, J, G D] of the G heads of keys
  Variable projected_query, projected_key;
  /// [B, H, I, D], [B, H, J, D], [B, H, J, D]. In attention without projections there is one head, with the widths of
  /// the inputs.
  Variable query, key, value;
  Variable mask;   ///< AttentionInput::mask, [B or 1, H or 1, I or 1, J], or undefined
  Tensor allowed;  ///< AttentionInput::allowed, on the device of the queries, or undefined
  /// AttentionInput::left_pointer and right_pointer, or undefined. Floating-point numbers: positions [B or 1, H or 1,
  /// I or 1] or distributions [B or 1, H or 1, I or 1, J].
  Variable left_pointer, right_pointer;
  KeyRange visible;  ///< the keys that queries may see by lengths and causality
  bool causal = false;
  std::int64_t query_offset = 0;  ///< position of the first query
  Place place = Place::encoder;

  Variable length;  ///< number of keys that a query may see, without padding, [B or 1, 1, 1 or I]
  /// Position of the first key of each query's document, [B, 1, I], if there are documents (AttentionInput::documents);
  /// otherwise undefined. Lengths and what is computed from them are counted from there.
  Variable document_start;
  Variable query_positions;  ///< in tokens, counted from 0, [I]
  Variable key_positions;    ///< [J]
  /// AttentionInput::grid: row and column of the tokens of queries and keys, [B or 1, 1, I, 2] and [B or 1, 1, J, 2],
  /// or undefined.
  Variable query_grid, key_grid;

  Variable step_input;      ///< AttentionInput::step_input, [B, I, d_e], or undefined
  Variable previous_focus;  ///< focus before the first query, [B, H or 1], or undefined
  DecoderMemory* memory = nullptr;
  /// Results of the projections and of LocalnessMethod::add_layers(), by the states that they were made from. Null:
  /// none.
  std::shared_ptr<const std::vector<ProjectedStates>> projected;
  /// The context of all heads, if this is one of some heads; otherwise null.
  std::shared_ptr<const AttentionContext> whole;

  double scale() const;  ///< 1 / sqrt(D)
  /// layer(states), from `projected` if it was made there from these very states.
  Variable project(const Linear& layer, const Variable& states) const;
  /// fovea::all_keys() for this call. Methods with projections of their own for keys must use it, so that a decoder
  /// projects each key once.
  template <class Make>
  Variable all_keys(const void* owner, Make&& make) const {
    return fovea::all_keys(memory, causal, owner, make);
  }
  /// The keys that this call passes, the last ones of `key`: [B, H, J', D].
  Variable newest_key() const;
  /// A position among the keys that a query may see, [B, H, I], as a position among all keys.
  Variable in_row(const Variable& position) const;
  /// The largest distance |j − i| between a query and a key, at least 0.
  std::int64_t farthest() const { return std::max({query_offset + query.size(2), key.size(2), std::int64_t{1}}) - 1; }
  /// allowed_pairs() of `visible`, on the device of the queries.
  Tensor allow() const;
  /// allow() and `allowed`: what PairlessMixer and terms of whole rows must heed. Undefined: every query sees every
  /// key.
  Tensor seen() const;
};

/// x [B, h, J, n], one row for each key, with zeros in the rows of padding.
Variable without_padding(const AttentionContext& in, const Variable& x);

/// Whether key j is in the range of query i, for the J keys from first_key on: bool [B or 1, H or 1, I or 1, J];
/// undefined: every query sees every key.
Tensor allowed_pairs(const KeyRange& range, std::int64_t J, std::int64_t first_key = 0);

/// The context restricted to these heads. Its `whole` is the original.
AttentionContext context_of_heads(const AttentionContext& in, HeadRange heads);

/// The heads [..., first ≤ h < first + count, rows, columns] of x [..., H, rows, columns].
Variable slice_heads(const Variable& x, HeadRange heads);
/// `outside` [..., H, rows, columns], with the heads of `heads` replaced by `middle`.
Variable replace_heads(const Variable& outside, const Variable& middle, HeadRange heads);

/// x [B, T, h · D] → [B, h, T, D], a view.
Variable split_heads(const Variable& x, std::int64_t head_dim);
/// [B, h, T, D] → [B, T, h · D]; a view where the memory order is [B, T, h, D].
Variable merge_heads(const Variable& x);

}  // namespace fovea
