// The kernels of fused attention where kernels run on the CPU: one Spec for all calls, which calls the functions that
// the C++ compiler made of the formulas.
#include <cmath>

#include "cuda/attention/focus.cuh"
#include "cuda/attention/kernels.h"
#include "cuda/launch.h"

namespace fovea::cuda {

namespace {

/// Formulas applied one after the other, as functions of numbers.
template <class T>
class FormulaChain {
 public:
  explicit FormulaChain(const LoweredFormula& formula) : parts_(formula.parts) {}

  /// The result for x = {number, positions, captures...}. Writes the number before each formula to `before`.
  T value(const T* x, T* before = nullptr) const {
    T number = x[0], inputs[3 + most_captures];
    const T* captures = x + 3;
    for (const PointwiseFormula& part : parts_) {
      if (before) *before++ = number;
      fill(part, number, x, captures, inputs);
      number = part.kernels<T>().value(part.functor(), inputs);
      captures += part.captures();
    }
    return number;
  }

  /// The gradients of the number and of each capture.
  void gradients(T g, const T* x, T* to) const {
    T before[most_parts], inputs[3 + most_captures], made[1 + most_captures];
    value(x, before);
    int first = 0;
    for (const PointwiseFormula& part : parts_) first += part.captures();
    for (std::size_t k = parts_.size(); k-- > 0;) {
      const PointwiseFormula& part = parts_[k];
      first -= part.captures();
      fill(part, before[k], x, x + 3 + first, inputs);
      part.kernels<T>().gradients(part.functor(), g, inputs, made);
      g = made[0];
      std::copy_n(made + 1, part.captures(), to + 1 + first);
    }
    to[0] = g;
  }

  static constexpr int most_parts = 2 * most_captures;

 private:
  static void fill(const PointwiseFormula& part, T number, const T* x, const T* captures, T* inputs) {
    inputs[0] = number, inputs[1] = x[1], inputs[2] = x[2];
    std::copy_n(captures, part.captures(), inputs + 3);
  }
  std::vector<PointwiseFormula> parts_;
};

/// The Spec of all calls with heads of up to this width.
template <class T, class Factor_, int width_>
class HostSpec : public AnySeenPairs {
 public:
  using Number = T;
  using Factor = Factor_;
  static constexpr int width = width_, value_width = width_, warps = 2, columns = 32, most = most_captures,
                       most_slots = cuda::most_slots, most_sources = cuda::most_sources;
  static constexpr BlockShape shape() {
    return {warps,
            columns,
            width,
            value_width,
            sizeof(Factor),
            sizeof(Number),
            most_slots,
            most_sources,
            true,
            16,
            sizeof(Factor) == sizeof(Bf16) ? 2 : 1};
  }

  HostSpec(const TileCall& call, const SpecOfCall& known)
      : known_(known), logit_(call.lowered.logit), weight_(call.lowered.window) {}

  int captures() const { return static_cast<int>(known_.indices.size()); }
  int logits() const { return known_.logits; }
  Index index(int k) const { return known_.indices[static_cast<std::size_t>(k)]; }
  bool wants(int k) const { return known_.wants[static_cast<std::size_t>(k)]; }
  int slots() const { return known_.block.slots; }
  int slot(int k) const {
    int number = 0;
    for (int before = 0; before < k; ++before)
      if (index(before) == Index::offset && wants(before)) ++number;
    return number;
  }
  int sources() const { return known_.block.sources; }
  int pointers() const { return known_.pointers; }
  int segment() const { return known_.block.segment; }
  int key_step(int count) const { return known_.block.key_step(count); }
  Side side(int s) const { return known_.sides[static_cast<std::size_t>(s)]; }
  int number_of_source(int k) const { return known_.numbers_of_sources[static_cast<std::size_t>(k)]; }
  bool has_hidden() const { return known_.has_hidden; }
  bool has_output() const { return known_.has_output; }
  bool has_focus() const { return known_.has_focus; }
  bool has_rows() const { return known_.has_rows; }
  bool continues() const { return known_.continues; }
  bool has_product() const { return known_.has_product; }
  bool makes_score() const { return known_.kernel.score; }
  bool makes_values() const { return known_.kernel.values; }
  bool makes_source(int s) const { return known_.kernel.sources >> s & 1; }
  bool has_window() const { return known_.has_window; }
  bool has_sink() const { return known_.has_sink; }
  bool has_dropout() const { return known_.has_dropout; }
  bool renormalizes() const { return known_.renormalizes; }
  bool has_densities() const { return known_.has_densities; }
  bool has_relative_values() const { return known_.has_relative_values; }
  static constexpr bool is_approximate() { return false; }

  T logit(const T* x) const { return logit_.value(x); }
  void logit_gradients(T g, const T* x, T* to) const { logit_.gradients(g, x, to); }
  T weight(const T* x) const { return weight_.value(x); }
  void weight_gradients(T g, const T* x, T* to) const { weight_.gradients(g, x, to); }

 private:
  SpecOfCall known_;
  FormulaChain<T> logit_, weight_;
};

/// A kernel that calls `run`, one of the four passes.
template <class Spec, auto run>
__global__ void kernel_of_pass(AttentionCall<typename Spec::Number> call, std::shared_ptr<const Spec> spec) {
  run(call, *spec);
}

/// body(a null pointer to the HostSpec of a call) for its type of numbers and the least width that is enough.
template <class T, class Body>
auto with_spec(const TileCall& call, const Body& body) {
  const LoweredCall& lowered = call.lowered;
  const std::int64_t width = std::max(width_of(lowered), lowered.values.size(3));
  auto of_factor = [&]<class Factor>(Factor*) {
    if (width <= 16) return body(static_cast<HostSpec<T, Factor, 16>*>(nullptr));
    if (width <= 64) return body(static_cast<HostSpec<T, Factor, 64>*>(nullptr));
    return body(static_cast<HostSpec<T, Factor, 128>*>(nullptr));
  };
  if constexpr (std::is_same_v<T, float>)
    if (call.products == Precision::bf16) return of_factor(static_cast<Bf16*>(nullptr));
  return of_factor(static_cast<T*>(nullptr));
}

/// The shared memory of a kernel of this Spec, for a call whose own kernel would have these tiles: for all that the
/// Spec has room for, but without memory for sources where there are none.
template <class Spec>
int shared_bytes_of(Pass pass, const BlockShape& known) {
  BlockShape block = Spec::shape();
  if (known.hidden) return shared_bytes(pass, block);
  block.hidden = false;
  if (known.sources == 0) block.sources = 0;
  return shared_bytes(pass, block);
}

}  // namespace

std::int64_t widest() { return 128; }

int most_shared_bytes() { return most_shared_bytes(90); }

std::vector<TileKernelReport> (*const compiles_kernels)(const TileCall& call, int architecture) = nullptr;

BlockShape block_of(const Kernel& kernel, const TileCall& call) {
  const auto known = kernel_of(call, kernel);
  return with_spec<float>(call, [&]<class Spec>(Spec*) {
    BlockShape block = Spec::shape();
    block.slots = known->spec.block.slots, block.segment = known->spec.block.segment;
    return block;
  });
}

int shared_bytes_of(const Kernel& kernel, const TileCall& call) {
  const auto known = kernel_of(call, kernel);
  auto of_spec = [&]<class Spec>(Spec*) { return shared_bytes_of<Spec>(kernel.pass, known->spec.block); };
  return known->spec.number == DType::f64 ? with_spec<double>(call, of_spec) : with_spec<float>(call, of_spec);
}

template <class T>
void run_kernel(const Kernel& one, const TileCall& call, std::int64_t bytes, const AttentionCall<T>& arguments) {
  const auto known = kernel_of(call, one);
  const Pass pass = one.pass;
  if (launch_text(one, *known, bytes, arguments)) return;
  with_spec<T>(call, [&]<class Spec>(Spec*) {
    const auto kernel = pass == Pass::focus             ? kernel_of_pass<Spec, attention_focus<Spec>>
                        : pass == Pass::forward         ? kernel_of_pass<Spec, attention_forward<Spec>>
                        : pass == Pass::query_gradients ? kernel_of_pass<Spec, attention_query_gradients<Spec>>
                                                        : kernel_of_pass<Spec, attention_key_gradients<Spec>>;
    BlockShape block = Spec::shape();
    block.segment = known->spec.block.segment;
    launch(name_of(one), bytes, kernel,
           {blocks_of(pass, block, arguments), 32 * Spec::warps,
            static_cast<std::size_t>(shared_bytes_of<Spec>(pass, known->spec.block))},
           arguments, std::make_shared<const Spec>(call, known->spec));
  });
}
template void run_kernel(const Kernel&, const TileCall&, std::int64_t, const AttentionCall<float>&);
template void run_kernel(const Kernel&, const TileCall&, std::int64_t, const AttentionCall<double>&);

}  // namespace fovea::cuda
