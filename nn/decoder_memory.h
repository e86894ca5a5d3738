/// State that a model keeps between the steps of decoding.
///
/// Decoding reads one token of each of R hypotheses per step. Between steps a model keeps three kinds of tensors, whose
/// first dimension counts hypotheses:
///
///   source rows   a function of the source, such as its projected keys and values; computed in the first step
///   prefix rows   one row per token read so far, such as the keys and values of self-attention; grow in every step
///   step state    the state after the last step, such as that of an LSTM; replaced in every step
///
/// Each part of a model stores its tensors under a key, `owner`: an address that no other part uses. Beam search
/// reorders the hypotheses of all owners at once.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "autograd/variable.h"

namespace fovea {

class DecoderMemory {
 public:
  DecoderMemory() = default;
  DecoderMemory(DecoderMemory&&) = default;
  DecoderMemory& operator=(DecoderMemory&&) = default;

  /// The owner's source rows, [R, ...]. The first call stores make(), whose rows are sources; later calls ignore
  /// `make`. The first call must come before hypotheses are reordered, or under a GroupBySource that groups; otherwise
  /// throws Error. Hypotheses of one source share one stored row, which is repeated for each of them in the result.
  Variable source_rows(const void* owner, const std::function<Variable()>& make);

  /// The source rows stored by the function above, [R, ...]; undefined before.
  Variable source_rows(const void* owner);

  /// While this object lives, source_rows() has one row per source instead of one per hypothesis. An attention over the
  /// source can then treat the hypotheses of a source as queries of one sentence, and read the keys once for all of
  /// them. Has no effect unless `wanted` is true and all sources have equally many hypotheses, in consecutive rows.
  class GroupBySource {
   public:
    GroupBySource(DecoderMemory& memory, bool wanted);
    ~GroupBySource() { memory_.group_size_ = 0; }
    GroupBySource(const GroupBySource&) = delete;
    GroupBySource& operator=(const GroupBySource&) = delete;

   private:
    DecoderMemory& memory_;
  };
  /// Hypotheses of each source while a GroupBySource takes effect; 0 otherwise.
  std::int64_t hypotheses_per_source() const { return group_size_; }

  /// Appends `rows` [R, I, ...] to the owner's prefix rows and returns all of them, [R, J, ...]. While no gradients are
  /// recorded they are appended in place.
  Variable append(const void* owner, const Variable& rows);

  /// The owner's step state, [R, ...]; assign to it after every step. Undefined before the first assignment. `number`
  /// distinguishes several states of one owner.
  Variable& step_state(const void* owner, int number = 0) { return step_states_[{owner, number}]; }

  /// Hypothesis r continues hypothesis parents[r] from here on. There may be more or fewer hypotheses than before; the
  /// tensors of hypotheses without a successor are dropped. No gradient passes. Throws Error for a parent outside
  /// 0 … R − 1.
  void reorder(const std::vector<std::int64_t>& parents);

 private:
  /// Rows [R, capacity, ...] of which the first `length` along dimension 1 are in use.
  struct PrefixRows {
    Variable rows;
    std::int64_t length = 0;
    void append(const Variable& added);
    void reorder(const Tensor& parents);
  };

  struct SourceRows {
    Variable per_source;
    Variable per_hypothesis;  ///< gathered from per_source when needed; undefined before
  };

  std::int64_t hypotheses() const;
  const Variable& rows_of(SourceRows& stored) const;
  /// Whether hypothesis r belongs to source r, for every r.
  bool has_one_hypothesis_per_source() const;
  void set_sources(std::vector<std::int64_t> sources);

  std::map<const void*, SourceRows> source_rows_;
  std::map<std::pair<const void*, int>, Variable> step_states_;
  std::map<const void*, PrefixRows> prefix_rows_;
  std::vector<std::int64_t> sources_;  ///< for each hypothesis, its row in per_source; empty before the first reorder()
  std::int64_t group_size_ = 0;        ///< hypotheses_per_source()
};

/// Keys, values or projections of them for all keys that the queries of one call may see, [B, J, ...]. make() returns
/// those of the keys that this call passes. Without a memory they are all there are. In causal attention they are
/// appended to those of earlier calls. In attention over a source they are the same in each call, and computed once.
template <class Make>
Variable all_keys(DecoderMemory* memory, bool causal, const void* owner, Make&& make) {
  if (!memory) return make();
  return causal ? memory->append(owner, make()) : memory->source_rows(owner, make);
}

}  // namespace fovea
