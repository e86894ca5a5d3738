// Random numbers and dropout on the GPU, from the same random bits as on the CPU: uniform numbers and the masks of
// dropout are equal bit by bit. Normal numbers differ from the CPU's by the rounding of CUDA's log, sin and cos.
#include "cuda/launch.h"
#include "tensor/formula/math.h"
#include "tensor/kernels.h"

namespace fovea::cuda {

namespace {

/// A pair of numbers that are made from one Philox block: elements i and i + 16 of a group of 32.
struct Pair {
  double first, second;
};

struct Uniform {
  double low, high;

  /// Turns uniform numbers from [1, 2) into uniform numbers from [low, high).
  __device__ Pair operator()(Pair u) const {
    return {fma(u.first - 1, high - low, low), fma(u.second - 1, high - low, low)};
  }
};

struct Normal {
  double mean, deviation;

  /// Turns uniform numbers from [1, 2) into normally distributed numbers.
  __device__ Pair operator()(Pair u) const {
    const double radius = deviation * sqrt(-2 * log(2 - u.first));  // 2 − u is in (0, 1]: the logarithm is finite
    const double angle = 6.283185307179586 * (u.second - 1);
    return {fma(radius, cos(angle), mean), fma(radius, sin(angle), mean)};
  }
};

/// Each thread computes one Philox block, which gives two elements.
template <class T, class Distribution>
__global__ void fill_from_pairs(RandomPosition at, Distribution distribution, T* out, std::int64_t count) {
  constexpr std::int64_t lanes = uniform_group / 2;
  for_elements((count + uniform_group - 1) / uniform_group * lanes, [&](std::int64_t block) {
    const std::int64_t e = block / lanes * uniform_group + block % lanes;
    if (e >= count) return;
    const PhiloxBlock<std::uint32_t> words = philox(at, static_cast<std::uint64_t>(block));
    const Pair pair =
        distribution(Pair{uniform_number(words.word[0], words.word[1]), uniform_number(words.word[2], words.word[3])});
    out[e] = static_cast<T>(pair.first);
    if (e + lanes < count) out[e + lanes] = static_cast<T>(pair.second);
  });
}

template <class Distribution>
void fill_random(const char* name, RandomPosition at, Distribution distribution, Tensor& out) {
  if (out.elements() == 0) return;
  visit(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (!std::is_integral_v<T>)
      launch(name, traffic(out), fill_from_pairs<T, Distribution>, {blocks_for(out.elements())}, at, distribution,
             out.mutable_data<T>(), out.elements());
  });
}

void fill_uniform(RandomPosition at, double low, double high, Tensor& out) {
  fill_random("fill_uniform", at, Uniform{low, high}, out);
}

void fill_normal(RandomPosition at, double mean, double deviation, Tensor& out) {
  fill_random("fill_normal", at, Normal{mean, deviation}, out);
}

/// Applies the mask. Each thread computes one Philox block, which decides whether eight elements, 16 apart, are kept.
template <class T>
__global__ void drop(DropoutMask mask, std::int64_t groups, T scale, const T* x, const T* residual, T* out,
                     std::int64_t count) {
  for_elements(groups * DropoutMask::lanes, [&](std::int64_t block) {
    std::int64_t group = block / DropoutMask::lanes;
    int lane = static_cast<int>(block % DropoutMask::lanes);
    DropoutMask::Stretch stretch = mask.stretch(group, count);
    if (lane >= stretch.count) return;
    PhiloxBlock<std::uint32_t> words = mask.words(group, lane);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      std::int64_t in_group = DropoutMask::lanes * k + lane, e = stretch.first + in_group;
      if (in_group >= stretch.count) break;
      T kept = mask.keeps(words, k) ? x[e] * scale : T(0);
      out[e] = residual ? residual[e] + kept : kept;
    }
  });
}

void dropout(const DropoutMask& mask, const Tensor& x, const Tensor* residual, Tensor& out) {
  visit_real("dropout", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t groups = mask.groups(out.elements());
    launch("dropout", traffic(x, out) + (residual ? traffic(*residual) : 0), drop<T>,
           {blocks_for(groups * DropoutMask::lanes)}, mask, groups, static_cast<T>(mask.scale()), x.data<T>(),
           residual ? residual->data<T>() : nullptr, out.mutable_data<T>(), out.elements());
  });
}

const Provide provide(Device::cuda, [](Kernels& table) {
  table.fill_uniform = fill_uniform;
  table.fill_normal = fill_normal;
  table.dropout = dropout;
});

}  // namespace

}  // namespace fovea::cuda
