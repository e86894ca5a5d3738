#include "nn/decoder_memory.h"

#include <algorithm>
#include <numeric>

#include "autograd/node.h"
#include "autograd/operations.h"
#include "tensor/gather.h"

namespace fovea {

namespace {

/// [R, ...] → [parents, ...]
Tensor rows_of(const Tensor& x, const Tensor& parents) {
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

Variable DecoderMemory::once(const void* owner, const std::function<Variable()>& make) {
  Variable& kept = once_[owner];
  if (!kept.defined()) kept = make();
  return kept;
}

Variable DecoderMemory::kept(const void* owner) const {
  auto found = once_.find(owner);
  return found == once_.end() ? Variable() : found->second;
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

void DecoderMemory::Growing::reorder(const Tensor& parents) {
  const Tensor& from = rows.value();
  Tensor to = room_for(from, parents.size(0), std::max(from.size(1), length + 1));
  auto used = [this](const Tensor& x) { return x.slice(1, 0, length).reshape({x.size(0), -1}); };
  if (length > 0 && from.elements() > 0) gather_rows_into(used(from), parents, used(to));
  rows = to;
}

std::int64_t DecoderMemory::hypotheses() const {
  for (const auto& [owner, x] : once_)
    if (x.defined()) return x.size(0);
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
    if (x.defined()) x = rows_of(x.value(), index.to(x.device()));
  };
  if (sources != sources_)  // hypotheses that only change places within their sources see the same
    for (auto& [owner, kept] : once_) moved(kept);
  for (auto& [owner, kept] : carried_) moved(kept);
  for (auto& [owner, kept] : grown_) kept.reorder(index.to(kept.rows.device()));
  sources_ = std::move(sources);
}

}  // namespace fovea
