#include "nn/decoder_memory.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "autograd/node.h"
#include "autograd/operations.h"
#include "autograd/operations/gather.h"

namespace fovea {

namespace {

/// Returns the rows of x [R, ...] whose indices are `parents` [P]: [P, ...]
Tensor picked_rows(const Tensor& x, const Tensor& parents) {
  Shape shape = x.shape();
  std::int64_t width = shape[0] == 0 ? 0 : shape.elements() / shape[0];
  shape[0] = parents.size(0);
  return gather_rows(x.reshape({x.size(0), width}), parents).reshape(shape);
}

/// Returns an uninitialised tensor [rows, capacity, ...]. Its other sizes, type and device are those of `like`
/// [R, J, ...].
Tensor room_for(const Tensor& like, std::int64_t rows, std::int64_t capacity) {
  Shape shape = like.shape();
  shape[0] = rows;
  shape[1] = capacity;
  return Tensor::empty(shape, like.dtype(), like.device());
}

}  // namespace

bool DecoderMemory::has_one_hypothesis_per_source() const {
  for (std::size_t r = 0; r < sources_.size(); ++r)
    if (sources_[r] != static_cast<std::int64_t>(r)) return false;
  return true;
}

const Variable& DecoderMemory::rows_of(SourceRows& stored) const {
  if (group_size_ > 0 || !stored.per_source.defined() || has_one_hypothesis_per_source()) return stored.per_source;
  if (!stored.per_hypothesis.defined()) {
    const Tensor index = Tensor::from(sources_, {std::ssize(sources_)});
    stored.per_hypothesis = picked_rows(stored.per_source.value(), index.to(stored.per_source.device()));
  }
  return stored.per_hypothesis;
}

Variable DecoderMemory::source_rows(MemoryKey key, const std::function<Variable()>& make) {
  SourceRows& stored = source_rows_[key];
  if (!stored.per_source.defined()) {
    require(group_size_ > 0 || has_one_hypothesis_per_source(),
            "decoder memory: rows of a source are stored for the first time after hypotheses were reordered; they must "
            "be stored in the first step");
    stored.per_source = make();
  }
  return rows_of(stored);
}

Variable DecoderMemory::source_rows(MemoryKey key) {
  auto found = source_rows_.find(key);
  return found == source_rows_.end() ? Variable() : rows_of(found->second);
}

DecoderMemory::GroupBySource::GroupBySource(DecoderMemory& memory, bool wanted) : memory_(memory) {
  const auto hypotheses = static_cast<std::int64_t>(memory.sources_.size());
  if (!wanted || hypotheses == 0) return;
  const std::int64_t n = hypotheses / (memory.sources_.back() + 1);
  for (std::int64_t r = 0; r < hypotheses; ++r)
    if (memory.sources_[static_cast<std::size_t>(r)] != r / n) return;
  memory.group_size_ = n;
}

Variable DecoderMemory::append(MemoryKey key, const Variable& rows) {
  PrefixRows& prefix = prefix_rows_[key];
  prefix.append(rows);
  return prefix.rows.size(1) == prefix.length ? prefix.rows : slice(prefix.rows, 1, 0, prefix.length);
}

void DecoderMemory::PrefixRows::append(const Variable& added) {
  const std::int64_t end = length + added.size(1);
  if (should_record({&rows, &added})) {
    rows = length == 0 ? added : concat({slice(rows, 1, 0, length), added}, 1);
    is_own = false;
  } else {
    if (!is_own || rows.size(1) < end) {
      constexpr std::int64_t first_room = 16;
      Tensor larger = room_for(added.value(), added.size(0), std::max(first_room, 2 * end));
      if (length > 0) larger.slice(1, 0, length).copy_from(rows.value().slice(1, 0, length));
      rows = larger, is_own = true;
    }
    rows.value().slice(1, length, end).copy_from(added.value());
  }
  length = end;
}

namespace {

/// Whether there are `rows` parents, and every row that is the parent of some row is also its own parent. If so, each
/// of the other rows can be overwritten with its parent in place, in any order.
bool parents_stay(const std::vector<std::int64_t>& parents, std::int64_t rows) {
  return rows > 0 && std::ssize(parents) == rows &&
         std::all_of(parents.begin(), parents.end(),
                     [&](std::int64_t parent) { return parents[static_cast<std::size_t>(parent)] == parent; });
}

/// Copies the first `length` entries of row parents[r] of x [R, capacity, ...] to row r, for all r. parents_stay() must
/// be true.
void overwrite_by_parents(Tensor& x, const std::vector<std::int64_t>& parents, std::int64_t length) {
  std::byte* first = x.mutable_address();
  const std::size_t row = x.bytes() / parents.size();
  const std::size_t used = row / static_cast<std::size_t>(x.size(1)) * static_cast<std::size_t>(length);
  for (std::size_t r = 0; r < parents.size(); ++r) {
    const auto parent = static_cast<std::size_t>(parents[r]);
    if (parent != r) std::memcpy(first + r * row, first + parent * row, used);
  }
}

}  // namespace

void DecoderMemory::PrefixRows::reorder(const std::vector<std::int64_t>& parents, const Tensor& index) {
  const Tensor& from = rows.value();
  if (is_own && !grad_enabled() && from.is_contiguous() && from.device() == Device::cpu &&
      parents_stay(parents, from.size(0)))
    return overwrite_by_parents(rows.value(), parents, length);
  Tensor to = room_for(from, std::ssize(parents), std::max(from.size(1), length + 1));
  auto used = [this](const Tensor& x) { return x.slice(1, 0, length).reshape({x.size(0), -1}); };
  if (length > 0 && from.elements() > 0 && !parents.empty())
    gather_rows_into(used(from), index.to(from.device()), used(to));
  rows = to, is_own = true;
}

std::int64_t DecoderMemory::hypotheses() const {
  for (const auto& [key, stored] : source_rows_)
    if (stored.per_source.defined()) return stored.per_source.size(0);
  for (const auto& [key, state] : step_states_)
    if (state.defined()) return state.size(0);
  return prefix_rows_.empty() ? 0 : prefix_rows_.begin()->second.rows.size(0);
}

void DecoderMemory::reorder(const std::vector<std::int64_t>& parents) {
  if (source_rows_.empty() && step_states_.empty() && prefix_rows_.empty()) return;
  const Tensor index = Tensor::from(parents, {static_cast<std::int64_t>(parents.size())});
  if (sources_.empty()) {
    sources_.resize(static_cast<std::size_t>(hypotheses()));
    std::iota(sources_.begin(), sources_.end(), 0);
  }
  std::vector<std::int64_t> sources;
  for (std::int64_t parent : parents) {
    require(0 <= parent && parent < std::ssize(sources_),
            "decoder memory: a parent is hypothesis {}; there are {}, counted from 0", parent, sources_.size());
    sources.push_back(sources_[static_cast<std::size_t>(parent)]);
  }
  for (auto& [key, state] : step_states_)
    if (state.defined()) state = picked_rows(state.value(), index.to(state.device()));
  for (auto& [key, prefix] : prefix_rows_) prefix.reorder(parents, index);
  if (sources != sources_) set_sources(std::move(sources));
}

/// Sets the source of each hypothesis, and drops the stored rows of sources that have no hypothesis any more.
void DecoderMemory::set_sources(std::vector<std::int64_t> sources) {
  std::vector<std::int64_t> remaining = sources;
  std::sort(remaining.begin(), remaining.end());
  remaining.erase(std::unique(remaining.begin(), remaining.end()), remaining.end());
  for (std::int64_t& source : sources)
    source = std::lower_bound(remaining.begin(), remaining.end(), source) - remaining.begin();
  const Tensor index = Tensor::from(remaining, {std::ssize(remaining)});
  for (auto& [key, stored] : source_rows_) {
    stored.per_hypothesis = {};
    if (stored.per_source.defined() && stored.per_source.size(0) != std::ssize(remaining))
      stored.per_source = picked_rows(stored.per_source.value(), index.to(stored.per_source.device()));
  }
  sources_ = std::move(sources);
}

}  // namespace fovea
