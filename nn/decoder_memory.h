/// What a model that decodes step by step keeps from one step to the next, for each hypothesis: projected keys and
/// values of a source, made once; those of its own prefix, which grow; and what is carried, as an LSTM's state or a
/// focus. Every part of a model keeps its own things here, under the address of what made them, and knows nothing of
/// the others; a beam search re-orders all of it at once.
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

  /// What `make` returns, [R, ...]: called at the first step alone. It is the same for all hypotheses of a source, and
  /// kept once for each source: a row for every hypothesis is made where it is asked for.
  Variable once(const void* owner, const std::function<Variable()>& make);

  /// What once() has made; undefined before.
  Variable kept(const void* owner);

  /// While it lives, once() and kept() have a row for each source and not for each hypothesis, where it is `wanted` and
  /// every source has as many hypotheses, side by side: an attention over the source then takes them as so many
  /// queries of one sentence, and reads its keys once for all of them.
  class BySource {
   public:
    BySource(DecoderMemory& memory, bool wanted);
    ~BySource() { memory_.together_ = 0; }
    BySource(const BySource&) = delete;
    BySource& operator=(const BySource&) = delete;

   private:
    DecoderMemory& memory_;
  };
  std::int64_t together() const { return together_; }  ///< hypotheses of each source, under BySource; otherwise 0

  /// added [R, I, ...] behind what earlier steps have added: [R, J, ...]. Written in place where no gradient is
  /// recorded.
  Variable grown(const void* owner, const Variable& added);

  /// [R, ...], replaced at each step by assigning to it; undefined before the first. `number`: of several of an owner.
  Variable& carried(const void* owner, int number = 0) { return carried_[{owner, number}]; }

  /// From here on hypothesis r goes on from where hypothesis parents[r] was. There may be more or fewer than before; of
  /// what no parent is, nothing is kept. No gradient passes.
  void reorder(const std::vector<std::int64_t>& parents);

 private:
  /// Rows [R, capacity, ...] of which the first `length` are there.
  struct Growing {
    Variable rows;
    std::int64_t length = 0;
    void append(const Variable& added);
    void reorder(const Tensor& parents);
  };

  /// The same for all hypotheses of a source.
  struct OfSource {
    Variable of_sources, of_hypotheses;  ///< the second made of the first when it is wanted
  };

  std::int64_t hypotheses() const;
  const Variable& rows_of(OfSource& kept) const;
  bool is_one_each() const;
  void move_sources(std::vector<std::int64_t> sources);

  std::map<const void*, OfSource> once_;
  std::map<std::pair<const void*, int>, Variable> carried_;
  std::map<const void*, Growing> grown_;
  std::vector<std::int64_t> sources_;  ///< of each hypothesis, its row of of_sources; empty before the first reorder()
  std::int64_t together_ = 0;
};

/// What `make` makes of the keys of one call, [B, J, ...], for all keys that there are: without a memory those are the
/// call's; under causality they come behind those of earlier calls; otherwise they are the same in every call, and
/// made once.
template <class Make>
Variable of_all_keys(DecoderMemory* memory, bool causal, const void* owner, Make&& make) {
  if (!memory) return make();
  return causal ? memory->grown(owner, make()) : memory->once(owner, make);
}

}  // namespace fovea
