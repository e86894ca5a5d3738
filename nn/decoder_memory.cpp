#include "nn/decoder_memory.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "autograd/node.h"
#include "autograd/operations.h"
#include "tensor/gather.h"

namespace fovea {

namespace {

/// [R, ...] → [parents, ...]
Tensor picked_rows(const Tensor& x, const Tensor& parents) {
  Shape shape = x.shape();
  std::int64_t width = shape[0] == 0 ? 0 : shape.elements() / shape[0];
  shape[0] = parents.size(0);
  return gather_rows(x.reshape({x.size(0), width}), parents).reshape(shape);
}

/// [R, ...] of R rows with room for `capacity` along dimension 1.
Tensor room_for(const Tensor& like, std::int64_t rows, std::int64_t capacity) {
  Shape shape = like.shape();
  shape[0] = rows;
  shape[1] = capacity;
  return Tensor::empty(shape, like.dtype(), like.device());
}

}  // namespace

bool DecoderMemory::is_one_each() const {
  for (std::size_t r = 0; r < sources_.size(); ++r)
    if (sources_[r] != static_cast<std::int64_t>(r)) return false;
  return true;
}

const Variable& DecoderMemory::rows_of(OfSource& kept) const {
  if (together_ > 0 || !kept.of_sources.defined() || is_one_each()) return kept.of_sources;
  if (!kept.of_hypotheses.defined()) {
    const Tensor index = Tensor::from(sources_, {std::ssize(sources_)});
    kept.of_hypotheses = picked_rows(kept.of_sources.value(), index.to(kept.of_sources.device()));
  }
  return kept.of_hypotheses;
}

Variable DecoderMemory::once(const void* owner, const std::function<Variable()>& make) {
  OfSource& kept = once_[owner];
  if (!kept.of_sources.defined()) {
    require(together_ > 0 || is_one_each(), "decoder: what is made once is made before hypotheses are re-ordered");
    kept.of_sources = make();
  }
  return rows_of(kept);
}

Variable DecoderMemory::kept(const void* owner) {
  auto found = once_.find(owner);
  return found == once_.end() ? Variable() : rows_of(found->second);
}

DecoderMemory::BySource::BySource(DecoderMemory& memory, bool wanted) : memory_(memory) {
  const auto hypotheses = static_cast<std::int64_t>(memory.sources_.size());
  if (!wanted || hypotheses == 0) return;
  const std::int64_t n = hypotheses / (memory.sources_.back() + 1);
  for (std::int64_t r = 0; r < hypotheses; ++r)
    if (memory.sources_[static_cast<std::size_t>(r)] != r / n) return;
  memory.together_ = n;
}

Variable DecoderMemory::grown(const void* owner, const Variable& added) {
  Growing& kept = grown_[owner];
  kept.append(added);
  return kept.rows.size(1) == kept.length ? kept.rows : slice(kept.rows, 1, 0, kept.length);
}

void DecoderMemory::Growing::append(const Variable& added) {
  const std::int64_t end = length + added.size(1);
  if (should_record({&rows, &added})) {
    rows = length == 0 ? added : concat({slice(rows, 1, 0, length), added}, 1);
  } else {
    if (!rows.defined() || rows.size(1) < end) {
      constexpr std::int64_t first_room = 16;
      Tensor larger = room_for(added.value(), added.size(0), std::max(first_room, 2 * end));
      if (length > 0) larger.slice(1, 0, length).copy_from(rows.value().slice(1, 0, length));
      rows = larger;
    }
    rows.value().slice(1, length, end).copy_from(added.value());
  }
  length = end;
}

namespace {

/// Whether every row that is a parent stays where it is, so that the others can be overwritten by theirs.
bool leaves_parents(const std::vector<std::int64_t>& parents, std::int64_t rows) {
  return std::ssize(parents) == rows && std::all_of(parents.begin(), parents.end(), [&](std::int64_t parent) {
           return parents[static_cast<std::size_t>(parent)] == parent;
         });
}

/// x [R, capacity, ...], of which the first `length` are copied from parents[r] to r.
void overwrite_by_parents(Tensor& x, const std::vector<std::int64_t>& parents, std::int64_t length) {
  x.changed();
  const std::size_t row = x.bytes() / parents.size();
  const std::size_t used = row / static_cast<std::size_t>(x.size(1)) * static_cast<std::size_t>(length);
  for (std::size_t r = 0; r < parents.size(); ++r) {
    const auto parent = static_cast<std::size_t>(parents[r]);
    if (parent != r) std::memcpy(x.address() + r * row, x.address() + parent * row, used);
  }
}

}  // namespace

void DecoderMemory::Growing::reorder(const Tensor& parents) {
  const Tensor& from = rows.value();
  const std::vector<std::int64_t> wanted = parents.to_vector<std::int64_t>();
  if (!grad_enabled() && from.is_contiguous() && from.device() == Device::cpu && leaves_parents(wanted, from.size(0)))
    return overwrite_by_parents(rows.value(), wanted, length);
  Tensor to = room_for(from, parents.size(0), std::max(from.size(1), length + 1));
  auto used = [this](const Tensor& x) { return x.slice(1, 0, length).reshape({x.size(0), -1}); };
  if (length > 0 && from.elements() > 0) gather_rows_into(used(from), parents, used(to));
  rows = to;
}

std::int64_t DecoderMemory::hypotheses() const {
  for (const auto& [owner, x] : once_)
    if (x.of_sources.defined()) return x.of_sources.size(0);
  for (const auto& [owner, x] : carried_)
    if (x.defined()) return x.size(0);
  return grown_.empty() ? 0 : grown_.begin()->second.rows.size(0);
}

void DecoderMemory::reorder(const std::vector<std::int64_t>& parents) {
  if (once_.empty() && carried_.empty() && grown_.empty()) return;
  const Tensor index = Tensor::from(parents, {static_cast<std::int64_t>(parents.size())});
  if (sources_.empty()) {
    sources_.resize(static_cast<std::size_t>(hypotheses()));
    std::iota(sources_.begin(), sources_.end(), 0);
  }
  std::vector<std::int64_t> sources;
  for (std::int64_t parent : parents) {
    require(0 <= parent && parent < std::ssize(sources_), "decoder: hypothesis {} is asked for, there are {}", parent,
            sources_.size());
    sources.push_back(sources_[static_cast<std::size_t>(parent)]);
  }
  auto moved = [&](Variable& x) {
    if (x.defined()) x = picked_rows(x.value(), index.to(x.device()));
  };
  for (auto& [owner, kept] : carried_) moved(kept);
  for (auto& [owner, kept] : grown_) kept.reorder(index.to(kept.rows.device()));
  if (sources != sources_) move_sources(std::move(sources));  // those that change places within a source see the same
}

/// Sources that no hypothesis has any more are dropped.
void DecoderMemory::move_sources(std::vector<std::int64_t> sources) {
  std::vector<std::int64_t> left = sources;
  std::sort(left.begin(), left.end());
  left.erase(std::unique(left.begin(), left.end()), left.end());
  for (std::int64_t& source : sources) source = std::lower_bound(left.begin(), left.end(), source) - left.begin();
  const Tensor index = Tensor::from(left, {std::ssize(left)});
  for (auto& [owner, kept] : once_) {
    kept.of_hypotheses = {};
    if (kept.of_sources.defined() && kept.of_sources.size(0) != std::ssize(left))
      kept.of_sources = picked_rows(kept.of_sources.value(), index.to(kept.of_sources.device()));
  }
  sources_ = std::move(sources);
}

}  // namespace fovea
