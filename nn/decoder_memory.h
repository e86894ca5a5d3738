/// State that a model keeps between the steps of decoding.
///
/// In each step of decoding, a model reads one token of each of R hypotheses. Between steps it keeps three kinds of
/// tensors, all with one row per hypothesis:
///
///   source rows   computed from the source in the first step, such as the projected keys and values of the source
///   prefix rows   one entry per token read so far, such as the keys and values of self-attention; grow in every step
///   step state    the state after the last step, such as the state of an LSTM; replaced in every step
///
/// Each part of a model stores its tensors under a key, MemoryKey. When beam search selects hypotheses, reorder()
/// selects the same rows in all of these tensors.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "autograd/variable.h"

namespace fovea {

/// Names a tensor of one kind in a DecoderMemory.
struct MemoryKey {
  MemoryKey(const void* owner, int number = 0) : owner(owner), number(number) {}  // NOLINT: most owners keep one tensor
  auto operator<=>(const MemoryKey&) const = default;

  const void* owner;  ///< the address of the part that the tensor belongs to
  int number;         ///< distinguishes several tensors of one owner
};

class DecoderMemory {
 public:
  DecoderMemory() = default;
  DecoderMemory(DecoderMemory&&) = default;
  DecoderMemory& operator=(DecoderMemory&&) = default;

  /// Returns the source rows of `key`, [R, ...], in which the row of a source is repeated for each of its hypotheses.
  /// The first call computes them by make(), whose result has one row per source, and stores them; later calls do not
  /// call make(). Throws Error if the first call comes after reorder() has moved or repeated hypotheses, because it is
  /// then unknown which source a row belongs to, unless a GroupBySource takes effect.
  Variable source_rows(MemoryKey key, const std::function<Variable()>& make);

  /// Returns the source rows that are stored under `key`, [R, ...], or an undefined Variable if there are none.
  Variable source_rows(MemoryKey key);

  /// While this object lives, source_rows() returns one row per source instead of one row per hypothesis. An attention
  /// over the source can then treat the hypotheses of a source as queries of one sentence, and read the keys once for
  /// all of these queries. Has no effect unless `wanted` is true and all sources have equally many hypotheses, in
  /// consecutive rows.
  class GroupBySource {
   public:
    GroupBySource(DecoderMemory& memory, bool wanted);
    ~GroupBySource() { memory_.group_size_ = 0; }
    GroupBySource(const GroupBySource&) = delete;
    GroupBySource& operator=(const GroupBySource&) = delete;

   private:
    DecoderMemory& memory_;
  };
  /// The number of hypotheses of each source while a GroupBySource takes effect; 0 otherwise.
  std::int64_t hypotheses_per_source() const { return group_size_; }

  /// Appends `rows` [R, I, ...], of I more tokens of each hypothesis, to the prefix rows of `key`. Returns the rows of
  /// all J tokens so far, [R, J, ...]: in place, or, while gradients are recorded, in a new tensor.
  Variable append(MemoryKey key, const Variable& rows);

  /// The step state of `key`, [R, ...], to which the owner assigns its new state after every step. Undefined before the
  /// first assignment.
  Variable& step_state(MemoryKey key) { return step_states_[key]; }

  /// Makes hypothesis r a copy of the present hypothesis parents[r], for every r, in the tensors of all owners. There
  /// may be more or fewer hypotheses than before; the rows of hypotheses that do not occur in `parents` are
  /// dropped. Gradients do not flow through the copies. Throws Error for a parent outside 0 … R − 1.
  void reorder(const std::vector<std::int64_t>& parents);

 private:
  /// The prefix rows of one key, [R, capacity, ...]. Only the first `length` entries along dimension 1 are in use.
  struct PrefixRows {
    Variable rows;
    std::int64_t length = 0;
    bool is_own = false;  ///< whether the memory made `rows`, and may write to them
    void append(const Variable& added);
    /// `index` is a tensor of the parents, on any device.
    void reorder(const std::vector<std::int64_t>& parents, const Tensor& index);
  };

  struct SourceRows {
    Variable per_source;
    Variable per_hypothesis;  ///< `per_source` with one row per hypothesis; undefined until it is first needed
  };

  std::int64_t hypotheses() const;
  const Variable& rows_of(SourceRows& stored) const;
  /// Whether hypothesis r belongs to source r, for every r.
  bool has_one_hypothesis_per_source() const;
  void set_sources(std::vector<std::int64_t> sources);

  std::map<MemoryKey, SourceRows> source_rows_;
  std::map<MemoryKey, Variable> step_states_;
  std::map<MemoryKey, PrefixRows> prefix_rows_;
  std::vector<std::int64_t> sources_;  ///< the row of each hypothesis in `per_source`; empty before the first reorder()
  std::int64_t group_size_ = 0;        ///< value of hypotheses_per_source()
};

/// Returns one row for each key that the queries of one attention call may see, [B, J, ...]: the key, its value, or a
/// projection of the key or value. make() computes the rows of the keys that this call passes. Without a memory, the
/// result is make(). In causal attention, the rows of make() are appended to the rows of earlier calls. In attention
/// over a source, all calls have the same rows, so only the first call computes them.
template <class Make>
Variable all_keys(DecoderMemory* memory, bool causal, MemoryKey key, Make&& make) {
  if (!memory) return make();
  return causal ? memory->append(key, make()) : memory->source_rows(key, make);
}

}  // namespace fovea
