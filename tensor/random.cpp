#include "tensor/random.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tensor/kernels.h"
#include "tensor/operands.h"

namespace fovea {

namespace {

/// Reserves random numbers and calls fill(position, tensor), where the tensor is `out` or, if `out` is not contiguous,
/// a new tensor that is then copied to `out`.
template <class Fill>
void fill_random(const char* what, Tensor& out, Generator& generator, const Fill& fill) {
  require(is_float(out.dtype()), "{}: a tensor of {} holds no real numbers; use f32, f64 or bf16", what,
          name(out.dtype()));
  RandomPosition at = generator.reserve(out.elements());
  Tensor filled = out.is_contiguous() ? out : Tensor::empty(out.shape(), out.dtype(), out.device());
  fill(at, filled);
  if (!filled.is_same_view(out)) out.copy_from(filled);
}

Tensor dropout(const char* what, const DropoutMask& mask, const Tensor& x, const Tensor* residual) {
  check(what, {{"x", x, "..."}, {"the residual", residual ? *residual : x, "..."}});
  Tensor from = x.contiguous(), add = residual ? residual->contiguous() : Tensor();
  Tensor out = Tensor::empty(x.shape(), x.dtype(), x.device());
  if (out.elements() > 0) kernels(x.device()).dropout(mask, from, residual ? &add : nullptr, out);
  return out;
}

}  // namespace

RandomPosition Generator::reserve(std::int64_t elements) {
  RandomPosition at = next_;
  next_.offset += static_cast<std::uint64_t>((elements + uniform_group - 1) / uniform_group) * 16;
  return at;
}

namespace {

thread_local RandomScope* innermost = nullptr;

/// The stream of a call is update · 2^32 + micro_batch · 2^20 + call. Calls count from 1, so it is never 0, the stream
/// that every Generator uses.
constexpr int call_bits = 20, micro_batch_bits = 12;
constexpr std::uint64_t most_calls = (std::uint64_t{1} << call_bits) - 1;

}  // namespace

RandomScope::RandomScope(const RandomSource& source) : before_(innermost) {
  constexpr std::int64_t updates = std::int64_t{1} << 32, micro_batches = std::int64_t{1} << micro_batch_bits;
  require(0 <= source.update && source.update < updates, "RandomScope: the update is {}; it must be in [0, {})",
          source.update, updates);
  require(0 <= source.micro_batch && source.micro_batch < micro_batches,
          "RandomScope: the micro-batch is {}; it must be in [0, {})", source.micro_batch, micro_batches);
  const auto update = static_cast<std::uint64_t>(source.update),
             micro_batch = static_cast<std::uint64_t>(source.micro_batch);
  call_ = {.seed = source.seed, .stream = (update << micro_batch_bits | micro_batch) << call_bits};
  innermost = this;
}

RandomScope::RandomScope(const RandomPosition& call, RandomScope* before) : call_(call), before_(before) {
  innermost = this;
}

RandomScope RandomScope::at(const RandomPosition& position) { return {position, innermost}; }

RandomScope::~RandomScope() { innermost = before_; }

std::optional<RandomPosition> RandomScope::position() {
  return innermost ? std::optional(innermost->call_) : std::nullopt;
}

RandomPosition RandomScope::next_call(std::string_view what) {
  require(innermost != nullptr,
          "{}: no random numbers were chosen on this thread; write RandomScope random({{.seed = 1, .update = k}}); "
          "before the forward pass, or model.train(false) to evaluate",
          what);
  RandomPosition& call = innermost->call_;
  require((call.stream & most_calls) < most_calls, "{}: more than {} calls in one RandomScope; use one for each batch",
          what, most_calls);
  ++call.stream;
  return call;
}

void fill_uniform(Tensor& out, Generator& generator, double low, double high) {
  require(low <= high, "fill_uniform: from {} to {}: the interval is empty", low, high);
  require(std::isfinite(high - low) || out.elements() == 0,
          "fill_uniform: from {} to {}: the interval must have a finite length", low, high);
  fill_random("fill_uniform", out, generator,
              [&](RandomPosition at, Tensor& filled) { kernels(filled.device()).fill_uniform(at, low, high, filled); });
}

void fill_normal(Tensor& out, Generator& generator, double mean, double deviation) {
  require((deviation >= 0 && std::isfinite(deviation) && std::isfinite(mean)) || out.elements() == 0,
          "fill_normal: the mean is {} and the standard deviation {}; both must be finite, and the latter at least 0",
          mean, deviation);
  fill_random("fill_normal", out, generator, [&](RandomPosition at, Tensor& filled) {
    kernels(filled.device()).fill_normal(at, mean, deviation, filled);
  });
}

DropoutMask::DropoutMask(double probability, RandomPosition at, std::int64_t row_length)
    : position_(at), row_length_(row_length) {
  require(1 <= row_length && row_length <= one_row, "a dropout mask has rows of at least one element, not {}",
          row_length);
  require(0 <= probability && probability < 1, "a dropout probability lies in [0, 1), not at {}", probability);
  threshold_ = std::min(static_cast<std::uint32_t>(std::lround(probability * 65536)), 65535U);
  scale_ = 65536.0 / (65536 - threshold_);
}

Tensor dropout(const Tensor& x, const DropoutMask& mask) { return dropout("dropout", mask, x, nullptr); }

Tensor dropout_add(const Tensor& x, const Tensor& residual, const DropoutMask& mask) {
  return dropout("dropout_add", mask, x, &residual);
}

}  // namespace fovea
