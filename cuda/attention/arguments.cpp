#include "cuda/attention/arguments.h"

#include <algorithm>
#include <cmath>

#include "cuda/traffic.h"

namespace fovea::cuda {

namespace {

BoundedKeys bounded(const KeyRange& range, std::int64_t J) {
  auto bound = [](const Tensor& x, std::int64_t otherwise) {
    Bound made{nullptr, 0, 0, 0, static_cast<std::int32_t>(otherwise), 0};
    if (!x.defined()) return made;
    std::int64_t strides[3] = {};
    for (int d = 0; d < x.rank(); ++d) strides[3 - x.rank() + d] = x.shape()[d] > 1 ? x.strides()[d] : 0;
    return Bound{x.data<std::int32_t>(), strides[0], strides[1], strides[2], made.otherwise, 0};
  };
  return {bound(range.first, 0), bound(range.end, J)};
}

/// The arguments of kernels that have to do with the focus.
template <class T>
Focus<T> focus_of(const LoweredCall& call, const FocusOfTiles& to) {
  Focus<T> made{};
  if (!call.focus) return made;
  const FocusedSoftmax& focus = *call.focus;
  made.gate = read<T>(call.logit.captures[call.logit.captures.size() - 2].numbers);
  if (focus.previous.defined()) made.previous = read<T>(focus.previous.value().unsqueeze(2).unsqueeze(3));
  made.first = static_cast<T>(focus.first_focus), made.sigma = focus.sigma, made.threshold = focus.threshold;
  made.before = elements<T>(to.before), made.after = elements<T>(to.after);
  if (to.slope.defined()) made.slope = elements<T>(to.slope);
  if (to.near.first.defined())
    made.near_first = elements<std::int32_t>(to.near.first), made.near_end = elements<std::int32_t>(to.near.end);
  return made;
}

}  // namespace

Tensor with_heads_inside(std::int64_t B, std::int64_t H, std::int64_t X, std::int64_t D, const Tensor& like) {
  return Tensor::empty({B, X, H, D}, like.dtype(), like.device()).transpose(1, 2);
}

RoundedTensors::RoundedTensors(const TileCall& call, const Tensor& out_gradient) {
  const LoweredCall& lowered = call.lowered;
  if (call.products != Precision::bf16 || lowered.values.dtype() != DType::f32) return;
  const BlockShape block = block_of({Pass::forward}, call);
  if (lowered.queries.defined()) {
    operands_.query = round(lowered.queries.value(), block.width);
    operands_.key = round(lowered.keys.value(), block.width);
  }
  if (!call.only_totals) operands_.value = round(lowered.values.value(), block.value_width);
  if (out_gradient.defined()) operands_.out_gradient = round(out_gradient, block.value_width);
  round_rows(rows_);
}

/// Memory for x [B, h, X, n], rounded. A dimension in which x is broadcast is rounded once.
Operand<const std::uint16_t> RoundedTensors::round(Tensor x, int width) {
  while (x.rank() < 4) x = x.unsqueeze(0);
  for (int d : {0, 1})
    if (x.strides()[d] == 0 && x.size(d) > 1) x = x.slice(d, 0, 1);
  const Shape& shape = x.shape();
  Tensor to = Tensor::empty({shape[0], shape[2], shape[1], width}, DType::bf16, x.device()).transpose(1, 2);
  auto* first = reinterpret_cast<std::uint16_t*>(to.mutable_address());
  auto size = [&](int d) { return static_cast<std::int32_t>(shape[d]); };
  rows_.push_back({read<float>(x), first, size(0), size(1), size(2), size(3), width});
  tensors_.push_back(to);
  return operand<const std::uint16_t>(to, first);
}

SeenPairs seen_pairs(const LoweredCall& call) {
  const std::int64_t J = call.values.size(2);
  SeenPairs seen{};
  seen.visible = bounded(call.visible, J);
  for (const KeyRange& range : call.ranges) seen.ranges[seen.range_count++] = bounded(range, J);
  for (const KeyRange& range : call.always) seen.always[seen.always_count++] = bounded(range, J);
  for (const Tensor& mask : call.masks)
    seen.masks[seen.mask_count++] =
        operand<const std::uint8_t>(mask, reinterpret_cast<const std::uint8_t*>(mask.address()));
  for (std::int64_t step : call.dilations) seen.dilations[seen.dilation_count++] = static_cast<std::int32_t>(step);
  return seen;
}

SeenPairs visible_pairs(const LoweredCall& call, Side side) {
  const std::int64_t J = call.values.size(2);
  SeenPairs seen{};
  seen.visible = bounded(call.visible, J);
  const auto offset = static_cast<std::int32_t>(call.query_offset);
  const Bound first{nullptr, 0, 0, 0, 0, 0}, end{nullptr, 0, 0, 0, static_cast<std::int32_t>(J), 0};
  if (side != Side::all) seen.range_count = 1;
  if (side == Side::up_to_query) seen.ranges[0] = {first, {nullptr, 0, 0, 0, offset + 1, 1}};
  if (side == Side::from_query) seen.ranges[0] = {{nullptr, 0, 0, 0, offset, 1}, end};
  return seen;
}

TileMap map_of(const Tensor& tiles) {
  if (!tiles.defined()) return {};
  const Shape& map = tiles.shape();
  return {reinterpret_cast<TileKind*>(elements<std::uint8_t>(tiles)), map[0] > 1 ? map[1] * map[2] * map[3] : 0,
          map[1] > 1 ? map[2] * map[3] : 0, static_cast<std::int32_t>(map[3])};
}

bool has_window(const LoweredCall& call) { return call.focus && std::isfinite(call.focus->threshold); }

template <class T>
AttentionCall<T> arguments(const TileCall& call, const TileResult& result) {
  const LoweredCall& lowered = call.lowered;
  const Shape& v = lowered.values.shape();
  AttentionCall<T> made{};
  made.dropout = call.dropout.mask(v[2]);
  made.sentences = static_cast<std::int32_t>(v[0]), made.heads = static_cast<std::int32_t>(v[1]);
  made.queries = static_cast<std::int32_t>(lowered.query_count), made.keys = static_cast<std::int32_t>(v[2]);
  made.value_width = static_cast<std::int32_t>(v[3]);
  made.query_offset = static_cast<std::int32_t>(lowered.query_offset);
  made.scale = static_cast<T>(lowered.scale);
  made.query_end = made.queries;
  made.width = static_cast<std::int32_t>(width_of(lowered));
  if (lowered.queries.defined()) {
    if (lowered.hidden_weight.defined()) {
      const Tensor& v = lowered.hidden_weight.value();
      made.hidden_weight = read<T>(v.rank() == 2 ? v.unsqueeze(1) : v);
    }
    made.query = read<T>(lowered.queries.value()), made.key = read<T>(lowered.keys.value());
  }
  made.value = read<T>(lowered.values.value());
  made.out = operand<T>(result.out, elements<T>(result.out));
  const std::vector<LoweredCapture> captures = lowered.captures();
  for (std::size_t k = 0; k < captures.size(); ++k) {
    if (captures[k].is_of_source()) continue;
    made.captures[k] = read<T>(captures[k].numbers);
    made.clips[k] = static_cast<std::int32_t>(captures[k].clip);
  }
  if (lowered.sink.defined()) {
    const Tensor& sink = lowered.sink.value();
    made.sink = sink.template data<T>(), made.sink_step = sink.strides()[-1];
  }
  made.seen = seen_pairs(lowered);
  made.maximum = elements<T>(result.maximum), made.inverse = elements<T>(result.inverse);
  if (result.weight.defined()) made.weight = elements<T>(result.weight);
  made.tiles = map_of(result.tiles);
  made.focus = focus_of<T>(lowered, result.focus);
  made.offset_clip = static_cast<std::int32_t>(lowered.relative.clip);
  if (result.offset_weights.defined()) made.offset_weights = elements<T>(result.offset_weights);
  if (const RowQuantities& rows = result.rows; rows.key.defined()) {
    made.row_maximum = elements<T>(rows.maximum), made.row_logsumexp = elements<T>(rows.logsumexp);
    made.row_entropy = elements<T>(rows.entropy), made.row_key = elements<std::int32_t>(rows.key);
  }
  for (std::size_t s = 0; s < lowered.sources.size(); ++s) {
    const LoweredSource& from = lowered.sources[s];
    Source<T>& source = made.sources[s];
    source.query = read<T>(result.source_queries[s]), source.key = read<T>(from.keys.value());
    source.scale = static_cast<T>(from.scale);
    if (from.kind == LoweredSource::Kind::product) continue;
    const TileResult& pointer = result.pointers[s];
    source.maximum = pointer.maximum.data<T>(), source.inverse = pointer.inverse.data<T>();
    source.mean_key = read<T>(pointer.out);
  }
  return made;
}

template AttentionCall<float> arguments<float>(const TileCall&, const TileResult&);
template AttentionCall<double> arguments<double>(const TileCall&, const TileResult&);

std::int64_t bytes_of(const TileCall& call, const TileResult& result) {
  const LoweredCall& lowered = call.lowered;
  std::int64_t factors = traffic(lowered.values.value());
  if (lowered.queries.defined()) factors += traffic(lowered.queries.value(), lowered.keys.value());
  const bool are_rounded = call.products == Precision::bf16 && lowered.values.dtype() == DType::f32;
  std::int64_t bytes = traffic(result.out, result.maximum, result.inverse) + (are_rounded ? factors / 2 : factors);
  for (const LoweredCapture& capture : lowered.captures())
    if (!capture.is_of_source()) bytes += traffic(capture.numbers);
  for (const LoweredSource& source : lowered.sources) bytes += traffic(source.queries.value(), source.keys.value());
  return bytes;
}

Tensor make_tile_map(const LoweredCall& call, const SeenPairs& seen) {
  // Whether lengths and causality alone decide which pairs are seen. Layers for which this holds share one map.
  const bool is_visible_alone =
      seen.range_count == 0 && seen.always_count == 0 && seen.mask_count == 0 && seen.dilation_count == 0;
  bool all_seen = is_visible_alone;
  std::int64_t B = 1, H = 1;
  auto widen = [&](const Tensor& x, int head_dimension) {  // counted from the end
    if (!x.defined()) return;
    all_seen = false;
    if (x.rank() >= head_dimension) H = std::max(H, x.size(-head_dimension));
    if (x.rank() > head_dimension) B = std::max(B, x.size(-head_dimension - 1));
  };
  auto widen_to = [&](const KeyRange& range) { widen(range.first, 2), widen(range.end, 2); };
  widen_to(call.visible);
  if (!is_visible_alone) {
    for (const auto* ranges : {&call.ranges, &call.always})
      for (const KeyRange& range : *ranges) widen_to(range);
    for (const Tensor& mask : call.masks) widen(mask, 3);
  }
  if (all_seen) return {};
  const std::int64_t I = call.query_count, J = call.values.size(2);
  KnownPairs* known = is_visible_alone ? call.visible.known.get() : nullptr;
  const KnownPairs::Key key{
      call.visible.first, call.visible.end, KnownPairs::version(call.visible), J, call.query_offset, I};
  if (known && known->tiles.defined() && known->of_tiles.is_same(key)) return known->tiles;
  auto tiles = [](std::int64_t n) { return (n + map_tile - 1) / map_tile; };
  Tensor map = Tensor::empty({B, H, tiles(I), tiles(J)}, DType::u8, call.values.device());
  if (map.elements() > 0)
    map_tiles(seen, map_of(map), static_cast<int>(B), static_cast<int>(H), static_cast<int>(I), static_cast<int>(J),
              static_cast<int>(call.query_offset));
  if (known) known->of_tiles = key, known->tiles = map;
  return map;
}

}  // namespace fovea::cuda
