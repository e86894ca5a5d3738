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

struct KnownPairs;

/// An interval of keys for each query, first ≤ j < end. Both bounds are i32 on the device of the queries and broadcast
/// to [B, H, I]. An undefined `first` stands for 0, an undefined `end` for the number of keys.
struct KeyRange {
  Tensor first, end;
  /// Where allowed_pairs() of this range is kept for the next caller; null: nowhere.
  std::shared_ptr<KnownPairs> known = {};
};

/// Tensors that engines compute from the bounds of a KeyRange. The layers of a model have the same range, and compute
/// them once; each is kept with the bounds that it was computed from.
struct KnownPairs {
  struct Key {
    Tensor first, end;          ///< the range's bounds
    std::uint64_t version = 0;  ///< the sum of their versions
    std::int64_t keys = 0, position = 0, queries = 0;
    bool is_same(const Key& other) const;
  };
  static std::uint64_t version(const KeyRange& range) { return range.first.version() + range.end.version(); }

  Tensor pairs;  ///< allowed_pairs(), whose Key has the first key as its position
  Tensor tiles;  ///< the map of tiles of a GPU's kernels, whose Key has the first query as its position
  Key of_pairs, of_tiles;
};

/// The positions of consecutive tokens.
struct TokenPositions {
  std::int64_t first;  ///< position of the first of these tokens in its row
  /// For each token, the position of the first token of its document, [B, 1, T], of a floating-point type. The position
  /// of a token in its document is its position in the row minus this number. Undefined: a row is one document.
  Tensor document_start = {};
};

/// Results of several linear layers that were applied to the same states in one matrix product.
struct ProjectedStates {
  Variable states;
  std::map<const Linear*, Variable> results;
};

/// The inputs of one call, for methods and engines.
struct AttentionContext {
  Variable query_states;  ///< input of the sub-layer, [B, I, d]
  /// States of the keys that the caller passed in this call, [B, J', d]. J' = J, except in causal attention with a
  /// decoder's memory: there `key` also has the keys of earlier calls, whose states are not kept.
  Variable key_states;
  /// Queries and keys after the projections W^Q and W^K and their biases, before they are split into heads: [B, I, d]
  /// and [B, J, G D], where G is the number of heads of keys. The factor 1 / sqrt(D) is not applied.
  Variable projected_query, projected_key;
  /// The heads: [B, H, I, D], [B, H, J, D] and [B, H, J, D_v]. In attention without projections there is one head,
  /// which has the widths of the inputs.
  Variable query, key, value;
  Variable mask;   ///< AttentionInput::mask, [B or 1, H or 1, I or 1, J], or undefined
  Tensor allowed;  ///< AttentionInput::allowed as bool, on the device of the queries, or undefined
  /// AttentionInput::left_pointer and right_pointer, or undefined. Of a floating-point type: positions [B or 1, H or 1,
  /// I or 1], or distributions over the keys [B or 1, H or 1, I or 1, J].
  Variable left_pointer, right_pointer;
  KeyRange visible;  ///< the keys that each query may see, by sentence lengths, causality and documents
  bool causal = false;
  std::int64_t query_offset = 0;  ///< position of the first query, in tokens
  Place place = Place::encoder;

  Variable length;  ///< len of the equations: the number of keys in `visible`, [B or 1, 1, 1 or I]
  /// For each query, the position of the first key of its document, [B, 1, I]. Undefined without
  /// AttentionInput::documents. Lengths, and positions computed from lengths, count from this key.
  Variable document_start;
  Variable query_positions;  ///< position of each query in its row, in tokens, counted from 0, [I]
  Variable key_positions;    ///< position of each key, [J]
  /// AttentionInput::grid: row and column of the tokens of queries and keys, [B or 1, 1, I, 2] and [B or 1, 1, J, 2],
  /// or undefined.
  Variable query_grid, key_grid;

  Variable step_input;      ///< AttentionInput::step_input, [B, I, d_e], or undefined
  Variable previous_focus;  ///< AttentionInput::previous_focus, [B, H or 1], or undefined
  DecoderMemory* memory = nullptr;
  /// Results of the attention's projections and of the layers in LocalnessMethod::add_layers(), by the states that the
  /// layers read. Null: nothing was computed in advance.
  std::shared_ptr<const std::vector<ProjectedStates>> projected;
  /// If this context is restricted to some heads, the context of all heads; otherwise null.
  std::shared_ptr<const AttentionContext> whole;

  double scale() const;                                                                       ///< 1 / sqrt(D)
  Shape pairs() const { return {query.size(0), query.size(1), query.size(2), key.size(2)}; }  ///< [B, H, I, J]
  /// layer(states). Taken from `projected` if that has the layer's result for the same variable `states`; computed
  /// otherwise.
  Variable project(const Linear& layer, const Variable& states) const;
  /// The keys of this and all earlier calls: make() computes those of this call, and a decoder's memory holds the
  /// others under `owner`. A method with a key projection of its own must use this, so that a decoder projects each key
  /// once. Without a memory this is make().
  template <class Make>
  Variable all_keys(const void* owner, Make&& make) const {
    return fovea::all_keys(memory, causal, owner, make);
  }
  /// The rows of `key` that belong to the keys of this call, the last ones: [B, H, J', D].
  Variable newest_key() const;
  /// Converts positions counted from the start of each query's document, [B, H, I], to positions in the row.
  Variable in_row(const Variable& position) const;
  /// An upper bound of the distance |j − i| between a query and a key, in tokens, at least 0.
  std::int64_t farthest() const { return std::max({query_offset + query.size(2), key.size(2), std::int64_t{1}}) - 1; }
  /// `visible` as a mask, allowed_pairs(visible, J), on the device of the queries.
  Tensor allow() const;
  /// The mask allow() ∧ `allowed`: bool, true where a query may see a key. PairlessMixers and terms of whole rows must
  /// ignore all other keys. Undefined: every query may see every key.
  Tensor seen() const;
};

/// x [B, h, J, n], one row for each key, with the rows of padding set to 0.
Variable without_padding(const AttentionContext& in, const Variable& x);

/// A range as a mask: whether key first_key + j lies in the range of query i, for j = 0, ..., J − 1. bool [B or 1, H or
/// 1, I or 1, J]; undefined if neither bound is defined, which means that every query sees every key.
Tensor allowed_pairs(const KeyRange& range, std::int64_t J, std::int64_t first_key = 0);

/// The context restricted to these heads, whose `whole` is a copy of the original. The original itself if these are all
/// heads.
AttentionContext context_of_heads(const AttentionContext& in, HeadRange heads);

/// The heads first ≤ h < first + count of x [..., H, rows, columns]; x itself if these are all heads.
Variable slice_heads(const Variable& x, HeadRange heads);
/// `outside` [..., H, rows, columns] with the heads in `heads` replaced by `middle` [..., count, rows, columns].
Variable replace_heads(const Variable& outside, const Variable& middle, HeadRange heads);

/// x [B, T, h · D] → [B, h, T, D], a view of x.
Variable split_heads(const Variable& x, std::int64_t head_dim);
/// [B, h, T, D] → [B, T, h · D]; a view where the memory order is [B, T, h, D].
Variable merge_heads(const Variable& x);

}  // namespace fovea
