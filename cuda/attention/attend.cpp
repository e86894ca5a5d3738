// The passes of fused attention: which kernels run, in which order, and the memory for their results.
#include <algorithm>
#include <numeric>
#include <optional>

#include "cuda/attention/arguments.h"
#include "cuda/attention/focus.h"
#include "cuda/attention/kernels.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea::cuda {

namespace {

/// Memory for a call's focus.
FocusOfTiles empty_focus(const TileCall& call) {
  FocusOfTiles made;
  if (!call.lowered.focus) return made;
  const Tensor& values = call.lowered.values.value();
  auto rows = [&](DType dtype) {
    return Tensor::empty({values.size(0), values.size(1), call.lowered.query_count}, dtype, values.device());
  };
  made.before = rows(values.dtype()), made.after = rows(values.dtype());
  if (call.records && !call.lowered.focus->detach) made.slope = rows(values.dtype());
  if (has_window(call.lowered)) made.near = {rows(DType::i32), rows(DType::i32)};
  return made;
}

/// The call with its focus, which the other kernels read like any number of a query.
TileCall with_focus(const TileCall& call, const FocusOfTiles& focus) {
  TileCall made = call;
  made.lowered.logit.captures.back().numbers = focus.before.unsqueeze(3);
  if (has_window(call.lowered)) made.lowered.visible = focus.near;  // also for keys that are always seen
  return made;
}

/// The call whose keys are the extra keys of a call.
TileCall call_of_extra_keys(const TileCall& call) {
  const LoweredExtraKeys& extra = call.lowered.extra;
  const std::int64_t B = call.lowered.values.size(0);
  auto of_sentences = [&](const Variable& x) {
    const Tensor& one = x.value();
    return Variable(one.unsqueeze(0).expand({B, one.size(0), one.size(1), one.size(2)}));
  };
  LoweredCall lowered;
  lowered.queries = Variable(extra.queries.value()), lowered.scale = extra.scale;
  lowered.keys = of_sentences(extra.keys), lowered.values = of_sentences(extra.values);
  lowered.query_count = call.lowered.query_count;
  lowered.densities = call.lowered.densities;
  return {lowered, {}, call.products, {}};
}

/// The call whose weights are a pointer's φ, and whose values are the pointer's keys: its output are the mean keys.
TileCall call_of_pointer(const TileCall& call, const LoweredSource& pointer, const Tensor& queries) {
  LoweredCall lowered;
  lowered.queries = Variable(queries), lowered.scale = pointer.scale;
  lowered.keys = lowered.values = Variable(pointer.keys.value());
  lowered.query_count = call.lowered.query_count, lowered.query_offset = call.lowered.query_offset;
  lowered.visible = call.lowered.visible;
  TileCall made{lowered, {}, call.products, {}};
  made.only_totals = !call.records;
  return made;
}

const char* missing(const TileCall& call) {
  const LoweredCall& lowered = call.lowered;
  const std::vector<LoweredCapture> captures = lowered.captures();
  const std::int64_t width = width_of(lowered);
  const auto extra = lowered.extra.keys.defined() ? lowered.extra.keys.size(2) : 0;
  if (std::max({width, extra, lowered.values.size(3)}) > widest()) return "a head of this width";
  for (const LoweredSource& source : lowered.sources)
    if (source.queries.size(3) != width_of(lowered)) return "a window whose pointers have another width than the head";
  if (lowered.segment > 16) return "a window with segments of more than 16 keys";
  // A tile has whole segments, and would read the bits of two groups.
  if (call.dropout.probability > 0 && 16 % lowered.segment != 0 && lowered.values.size(2) > DropoutMask::group)
    return "dropout of a window whose segments are not of 1, 2, 4, 8 or 16 keys";
  if (!lowered.sources.empty() || lowered.hidden_weight.defined() || lowered.values.dtype() == DType::f64)
    for (const Kernel& kernel : kernels_of(call))
      if (shared_bytes_of(kernel, call) > most_shared_bytes())
        return !lowered.sources.empty()          ? "a window of heads of this width"
               : lowered.hidden_weight.defined() ? "a hidden layer of this width"
                                                 : "f64 heads of this width";
  if (captures.size() > most_captures) return "a formula of so many tensors";
  if (std::count_if(captures.begin(), captures.end(), [](auto& x) { return x.indexing == Indexing::offset; }) >
      most_slots)
    return "a formula of so many tables";
  if (lowered.ranges.size() > most_ranges || lowered.always.size() > most_ranges) return "a sum of so many ranges";
  if (lowered.masks.size() > most_masks) return "a sum of so many masks";
  if (lowered.dilations.size() > most_dilations) return "a sum of so many dilations";
  if (call.traces_rows && lowered.densities) return "a trace of row quantities of densities";
  const auto& window = lowered.window.captures;
  if (call.traces_rows && std::any_of(window.begin(), window.end(), [](auto& x) { return x.is_of_source(); }))
    return "a trace of row quantities of a window";  // entropy needs relative accuracy where all weights are nearly 0
  if (call.traces_rows && (lowered.query_count == 0 || lowered.values.value().elements() == 0))
    return "a trace of row quantities of an empty call";
  return nullptr;
}

/// Runs a kernel of the forward pass. Its arguments are `made` and, if the call's products are in bf16, the factors of
/// these products rounded to bf16.
template <class T>
void run_forward(Pass pass, const TileCall& call, const TileResult& result, AttentionCall<T> made) {
  const RoundedTensors rounded(call, {});
  made.rounded = rounded.operands();
  run_kernel({pass}, call, bytes_of(call, result), made);
}

/// The softmax of a pointer with these queries. `visible` is the map of the tiles of all keys that queries may see.
template <class T>
TileResult forward_of_pointer(const TileCall& call, const LoweredSource& source, const Tensor& queries,
                              const Tensor& visible) {
  const TileCall pointer = call_of_pointer(call, source, queries);
  const Tensor& keys = source.keys.value();
  const std::int64_t B = keys.size(0), H = keys.size(1), I = call.lowered.query_count;
  auto rows = [&] { return Tensor::empty({B, H, I}, keys.dtype(), keys.device()); };
  TileResult result{.out = with_heads_inside(B, H, pointer.only_totals ? 0 : I, keys.size(3), keys),
                    .maximum = rows(),
                    .inverse = rows()};
  AttentionCall<T> made = arguments<T>(pointer, result);
  made.seen = visible_pairs(call.lowered, side_of(source));
  result.tiles = side_of(source) == Side::all ? visible : make_tile_map(pointer.lowered, made.seen);
  made.tiles = map_of(result.tiles);
  if (B * H * I > 0) run_forward(Pass::forward, pointer, result, made);
  return result;
}

/// The same for results of several widths whose rows lie side by side, [B, X, Σ H D_k] in memory: a product with all of
/// them is one product.
std::vector<Tensor> side_by_side(std::int64_t B, std::int64_t H, std::int64_t X, const std::vector<std::int64_t>& D,
                                 const Tensor& like) {
  const std::int64_t width = H * std::accumulate(D.begin(), D.end(), std::int64_t{0});
  const Tensor all = Tensor::empty({B, X, width}, like.dtype(), like.device());
  std::vector<Tensor> results;
  std::int64_t first = 0;
  for (std::int64_t of_head : D) {
    const std::int64_t end = first + H * of_head;
    results.push_back(all.slice(2, first, end).reshape({B, X, H, of_head}).transpose(1, 2));
    first = end;
  }
  return results;
}

bool share_storage(const Variable& a, const Variable& b) {
  const std::weak_ptr<const void> one = a.value().storage(), other = b.value().storage();
  return !one.owner_before(other) && !other.owner_before(one);
}

/// Memory for the gradients of queries, keys and values. Those that one product made (forward_together() in nn/) get
/// gradients side by side, so that its own gradients are one product.
void allocate(TileGradients& gradients, const LoweredCall& call, std::int64_t B, std::int64_t H, std::int64_t I,
              std::int64_t J) {
  const Tensor& like = call.values.value();
  const std::int64_t D = call.values.size(3);
  if (!call.queries.defined()) {
    gradients.values = with_heads_inside(B, H, J, D, like);
    return;
  }
  const std::int64_t n = call.queries.size(3), packed = 16 / static_cast<std::int64_t>(size_of(like.dtype()));
  const bool keys_join = share_storage(call.keys, call.values) && n % packed == 0 && D % packed == 0;
  if (keys_join && I == J && share_storage(call.queries, call.keys)) {
    const std::vector<Tensor> all = side_by_side(B, H, I, {n, n, D}, like);
    gradients.queries = all[0], gradients.keys = all[1], gradients.values = all[2];
    return;
  }
  gradients.queries = with_heads_inside(B, H, I, n, like);
  if (keys_join) {
    const std::vector<Tensor> both = side_by_side(B, H, J, {n, D}, like);
    gradients.keys = both[0], gradients.values = both[1];
  } else {
    gradients.keys = with_heads_inside(B, H, J, n, like);
    gradients.values = with_heads_inside(B, H, J, D, like);
  }
}

/// Computes the focus before and after each query, and the map of the tiles that queries see without its window. `call`
/// is the one that has the focus.
template <class T>
void make_focus(const TileCall& without_focus, const TileCall& call, TileResult& result) {
  const Tensor& values = call.lowered.values.value();
  result.tiles = make_tile_map(without_focus.lowered, seen_pairs(without_focus.lowered));
  AttentionCall<T> made = arguments<T>(call, result);
  made.seen = seen_pairs(without_focus.lowered);
  Tensor products =
      Tensor::empty({values.size(0), values.size(1), map_tile, values.size(2)}, values.dtype(), values.device());
  made.focus.products = products.mutable_data<T>();
  run_forward(Pass::focus, call, result, made);
}

template <class T>
TileResult forward(const TileCall& without_focus) {
  FocusOfTiles focus = empty_focus(without_focus);
  std::optional<TileCall> own;
  if (without_focus.lowered.focus) own = with_focus(without_focus, focus);
  const TileCall& call = own ? *own : without_focus;
  const LoweredCall& lowered = call.lowered;
  const Tensor& values = lowered.values.value();
  const std::int64_t B = values.size(0), H = values.size(1), I = lowered.query_count;
  auto rows = [&] { return Tensor::empty({B, H, I}, values.dtype(), values.device()); };
  TileResult result{
      .out = with_heads_inside(B, H, I, values.size(3), values), .maximum = rows(), .inverse = rows(), .focus = focus};
  const LoweredRelativeValues& relative = lowered.relative;
  if (relative.table.defined())
    result.offset_weights = Tensor::zeros({B, H, I, 2 * relative.clip + 1}, values.dtype(), values.device());
  if (lowered.renormalizes) result.weight = rows();
  if (call.traces_rows)
    result.rows = {rows(), Tensor::empty({B, H, I}, DType::i32, values.device()), rows(), rows(), {}};
  if (lowered.focus && result.out.elements() > 0) make_focus<T>(without_focus, call, result);
  if (!lowered.focus || has_window(lowered))
    result.tiles =
        make_tile_map(lowered, lowered.sources.empty() ? seen_pairs(lowered) : visible_pairs(lowered, Side::all));
  for (const LoweredSource& source : lowered.sources) {
    const Tensor& queries = source.queries.value();
    result.source_queries.push_back(source.factors.defined() ? map(Multiply{}, queries, source.factors) : queries);
    if (source.kind != LoweredSource::Kind::product)
      result.pointers.push_back(forward_of_pointer<T>(call, source, result.source_queries.back(), result.tiles));
  }
  if (result.out.elements() == 0) return result;
  if (lowered.extra.keys.defined()) {
    const TileCall extra = call_of_extra_keys(call);
    const TileResult earlier{.out = result.out, .maximum = result.maximum, .inverse = result.inverse};
    run_forward(Pass::forward, extra, earlier, arguments<T>(extra, earlier));
  }
  run_forward(Pass::forward, call, result, arguments<T>(call, result));
  if (relative.table.defined()) gemm(result.offset_weights, relative.table.value(), result.out, 1, 1);
  return result;
}

/// The most blocks that share a head's queries in the query-owned pass, where each has a table of its own.
constexpr std::int64_t most_parts = 16;

/// With pointers the backward pass takes so many queries at a time, a multiple of map_tile. What its two kernels carry
/// then needs as much memory as a row of 64 numbers for each key.
constexpr std::int64_t queries_at_once = 1024;

/// The gradients of a call's sources, and what the kernels carry of pointers.
template <class T>
class SourceGradients {
 public:
  SourceGradients(const TileCall& call, TileGradients& gradients, AttentionCall<T>& arguments)
      : call_(call), gradients_(gradients) {
    const LoweredCall& lowered = call.lowered;
    const std::int64_t B = arguments.sentences, H = arguments.heads, I = arguments.queries, J = arguments.keys;
    const Tensor& like = lowered.values.value();
    std::int64_t pointers = 0;
    for (std::size_t s = 0; s < lowered.sources.size(); ++s) {
      const std::int64_t n = lowered.sources[s].queries.size(3);
      gradients.source_queries.push_back(with_heads_inside(B, H, I, n, like));
      gradients.source_keys.push_back(with_heads_inside(B, H, J, n, like));
      Source<T>& source = arguments.sources[s];
      source.query_gradient = write<T>(gradients.source_queries[s]);
      source.key_gradient = write<T>(gradients.source_keys[s]);
      if (lowered.sources[s].kind == LoweredSource::Kind::product) continue;
      ++pointers;
      slopes_.push_back(Tensor::empty({B, H, I}, like.dtype(), like.device()));
      source.slope = slopes_.back().mutable_data<T>();
    }
    if (pointers == 0) return;
    std::int64_t step = map_tile;
    for (const Kernel& kernel : kernels_of(call, Pass::key_gradients)) {
      const BlockShape block = block_of(kernel, call);
      step = std::min<std::int64_t>(step, block.key_step(block.rows()));
    }
    arguments.carried_step = static_cast<std::int32_t>(step);
    const std::int64_t tiles = (J + step - 1) / step;
    carried_ = Tensor::empty({pointers, 2, B, H, tiles, std::min(I, queries_at_once)}, like.dtype(), like.device());
    arguments.carried = carried_.mutable_data<T>();
  }
  /// Multiplies the gradients of the sources' queries by the factors of these queries. Call it after the kernels.
  void finish() {
    for (std::size_t s = 0; s < call_.lowered.sources.size(); ++s)
      if (const Tensor& factors = call_.lowered.sources[s].factors; factors.defined())
        gradients_.source_queries[s] = map(Multiply{}, gradients_.source_queries[s], factors);
  }

 private:
  const TileCall& call_;
  TileGradients& gradients_;
  std::vector<Tensor> slopes_;
  Tensor carried_;  ///< see AttentionCall::carried
};

/// Memory for the gradient of a capture, as LoweredCapture::gradient_of_value() takes it, and how kernels write it.
template <class T>
std::pair<Tensor, Operand<T>> gradient_of(const LoweredCapture& capture, const AttentionCall<T>& call) {
  const std::int64_t B = call.sentences, H = call.heads, n = capture.numbers.size(3);
  auto made = [&](const Shape& shape, bool zeros) {
    const DType dtype = capture.numbers.dtype();
    const Device device = capture.numbers.device();
    return zeros ? Tensor::zeros(shape, dtype, device) : Tensor::empty(shape, dtype, device);
  };
  switch (capture.indexing) {
    case Indexing::head:
    case Indexing::query: {
      Tensor x = made({B, H, call.queries, 1}, false);
      return {x, write<T>(x)};
    }
    case Indexing::key: {
      Tensor x = made({B, H, 1, call.keys}, false);
      Operand<T> to = write<T>(x);
      to.row = 1;
      return {x, to};
    }
    case Indexing::pair: {
      Tensor x = made({B, H, call.queries, call.keys}, true);
      return {x, write<T>(x)};
    }
    case Indexing::offset: {
      Tensor x = made({call.parts, B, H, 1, n}, false);
      return {x, {x.mutable_data<T>(), H * n, n, B * H * n, 1, false}};
    }
    default: {
      Tensor x = made({B, H, call.queries, n}, true);
      return {x, write<T>(x)};
    }
  }
}

/// The gradient of the focus after each query, [B, H, I]: `given` is what it has as a result of the call, undefined: 0.
/// Writes the gradient of the focus before the first query. `made` are the arguments of the call's backward pass.
template <class T>
Tensor gradient_of_focus(const TileCall& call, const TileResult& result, const Tensor& given, AttentionCall<T> made,
                         TileGradients& gradients) {
  const Tensor &focus = result.focus.after, &slope = result.focus.slope;
  const Shape rows = focus.shape();
  if (!slope.defined()) {  // no gradient flows through the focus
    gradients.previous_focus = Tensor::zeros({rows[0], rows[1]}, focus.dtype(), focus.device());
    return given;
  }
  Tensor by_out = Tensor::empty(rows, slope.dtype(), slope.device()), gradient = Tensor::empty_like(slope);
  gradients.previous_focus = Tensor::zeros({rows[0], rows[1]}, slope.dtype(), slope.device());
  Tensor of_queries = by_out.unsqueeze(3);
  made.capture_gradients[call.lowered.logit.captures.size() - 1] = write<T>(of_queries);
  if (by_out.elements() == 0) return gradient;
  run_kernel(kernel_of_focus_gradients(), call, bytes_of(call, result), made);
  carry_focus<T>({slope.data<T>(), by_out.data<T>(), given.defined() ? given.data<T>() : nullptr,
                  gradient.mutable_data<T>(), gradients.previous_focus.mutable_data<T>()},
                 rows[0] * rows[1], rows[2]);
  return gradient;
}

/// Memory for the gradients of everything but sources and the focus, and how kernels write it.
template <class T>
TileGradients make_gradients(const TileCall& call, AttentionCall<T>& made) {
  const LoweredCall& lowered = call.lowered;
  const std::int64_t B = made.sentences, H = made.heads, I = made.queries, n = made.width;
  const Tensor& values = lowered.values.value();
  TileGradients gradients;
  allocate(gradients, lowered, B, H, I, made.keys);
  if (lowered.queries.defined())
    made.query_gradient = write<T>(gradients.queries), made.key_gradient = write<T>(gradients.keys);
  made.value_gradient = write<T>(gradients.values);
  if (lowered.sink.defined()) {
    gradients.sink = Tensor::empty({B, H, I}, values.dtype(), values.device());
    made.sink_gradient = gradients.sink.mutable_data<T>();
  }
  if (lowered.hidden_weight.defined()) {  // summed over blocks: [parts, B, H, n]
    gradients.hidden_weight = Tensor::empty({made.parts, B, H, n}, values.dtype(), values.device());
    made.hidden_weight_gradient = {gradients.hidden_weight.mutable_data<T>(), H * n, n, B * H * n, 1, false};
  }
  const std::vector<LoweredCapture> captures = lowered.captures();
  gradients.captures.resize(captures.size());
  for (std::size_t k = 0; k < captures.size(); ++k)
    if (call.wants[k] && !captures[k].is_made())
      std::tie(gradients.captures[k], made.capture_gradients[k]) = gradient_of(captures[k], made);
  return gradients;
}

/// Runs the two kernels of the backward pass, with pointers for so many queries at a time.
template <class T>
void run_backward(const TileCall& call, const TileResult& result, AttentionCall<T> made) {
  const bool has_queries = std::int64_t{made.sentences} * made.heads * made.queries > 0,
             has_keys = std::int64_t{made.sentences} * made.heads * made.keys > 0;
  const std::int64_t bytes = bytes_of(call, result), I = made.queries,
                     at_once = call.lowered.sources.empty() ? I : queries_at_once;
  for (std::int64_t first = 0; first == 0 || first < I; first += at_once) {
    made.query_begin = static_cast<std::int32_t>(first);
    made.query_end = static_cast<std::int32_t>(std::min(first + at_once, I));
    if (has_queries)
      for (const Kernel& kernel : kernels_of(call, Pass::query_gradients)) run_kernel(kernel, call, bytes, made);
    if (has_keys)
      for (const Kernel& kernel : kernels_of(call, Pass::key_gradients)) run_kernel(kernel, call, bytes, made);
  }
}

/// The number of blocks that share a head's queries in the query-owned pass.
std::int64_t parts_of(const TileCall& call) {
  const BlockShape block = block_of(kernels_of(call, Pass::query_gradients)[0], call);
  const std::int64_t I = call.lowered.query_count,
                     queries = call.lowered.sources.empty() ? I : std::min(I, queries_at_once),
                     tiles = (queries + block.rows() - 1) / block.rows();
  return block.slots > 0 ? std::min(tiles, most_parts) : tiles;
}

/// The gradients of a call without its extra keys.
template <class T>
TileGradients backward_of_tokens(const TileCall& without_focus, const TileResult& result, const Tensor& g,
                                 const Tensor& g_of_focus) {
  std::optional<TileCall> own;
  if (without_focus.lowered.focus) own = with_focus(without_focus, result.focus);
  const TileCall& call = own ? *own : without_focus;
  const LoweredCall& lowered = call.lowered;
  const Tensor& values = lowered.values.value();
  AttentionCall<T> made = arguments<T>(call, result);
  made.parts = static_cast<std::int32_t>(parts_of(call));
  TileGradients gradients = make_gradients(call, made);
  made.out_gradient = read<T>(g);
  const RoundedTensors rounded(call, g);
  made.rounded = rounded.operands();
  Tensor mean = Tensor::empty({made.sentences, made.heads, made.queries}, values.dtype(), values.device());
  made.mean = mean.mutable_data<T>();
  Tensor of_offsets;  // the gradient of the weights summed by distance
  if (lowered.relative.table.defined()) {
    of_offsets = matmul(g, lowered.relative.table.value().transpose(0, 1));
    made.offset_weight_gradients = of_offsets.data<T>();
    gradients.relative = matmul(result.offset_weights.transpose(2, 3), g);  // [B, H, 2 clip + 1, D]
  }
  Tensor of_focus;
  if (lowered.focus) of_focus = gradient_of_focus<T>(call, result, g_of_focus, made, gradients);
  if (of_focus.defined()) made.focus.gradient = of_focus.data<T>();
  SourceGradients<T> of_sources(call, gradients, made);
  run_backward(call, result, made);
  of_sources.finish();
  if (lowered.focus && !lowered.focus->has_focus(0) && made.queries > 0)
    if (const Tensor& gate = gradients.captures[lowered.logit.captures.size() - 2]; gate.defined())
      gate.slice(2, 0, 1).fill(0);
  return gradients;
}

template <class T>
TileGradients backward(const TileCall& call, const TileResult& result, const Tensor& out_gradient,
                       const Tensor& focus_gradient) {
  const Tensor g = out_gradient.strides()[3] == 1 ? out_gradient : out_gradient.contiguous();
  TileGradients all = backward_of_tokens<T>(call, result, g, focus_gradient);
  if (!call.lowered.extra.keys.defined()) return all;
  TileResult of_extra = result;  // the totals and the output are those of all keys
  of_extra.weight = {}, of_extra.tiles = {}, of_extra.offset_weights = {};
  const TileGradients extra = backward_of_tokens<T>(call_of_extra_keys(call), of_extra, g, {});
  all.extra_queries = extra.queries, all.extra_keys = extra.keys, all.extra_values = extra.values;
  return all;
}

/// The sum of the weights that each key receives, [B, H, J]: the gradient of its values where that of the output is 1.
template <class T>
Tensor key_mass(TileCall call, const TileResult& result) {
  call.dropout = {}, call.traces_rows = false;
  const Tensor ones = Tensor::full(result.out.shape(), 1, result.out.dtype(), result.out.device());
  return backward<T>(call, result, ones, {}).values.select(3, 0);
}

template <class Body>
auto with_numbers(const TileCall& call, const Body& body) {
  return visit_real("attention", call.lowered.values.dtype(), body);
}

const bool provided = [] {
  attention_kernels() = {missing,
                         [](const TileCall& call) {
                           return with_numbers(call, [&](auto type) {
                             using T = typename decltype(type)::type;
                             TileResult result = forward<T>(call);
                             if (call.traces_rows) result.rows.key_mass = key_mass<T>(call, result);
                             return result;
                           });
                         },
                         [](const TileCall& call, const TileResult& result, const Tensor& g, const Tensor& of_focus) {
                           return with_numbers(call, [&](auto type) {
                             return backward<typename decltype(type)::type>(call, result, g, of_focus);
                           });
                         },
                         compiles_kernels};
  return true;
}();

}  // namespace

}  // namespace fovea::cuda
