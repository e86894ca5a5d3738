// Random numbers and dropout on the CPU.
#include "tensor/random.h"

#include <algorithm>

#include "tensor/cpu/parallel.h"
#include "tensor/cpu/random_words.h"
#include "tensor/kernels.h"

namespace fovea {
namespace cpu {
namespace {

/// Fills `out` with random numbers. `transform` turns pairs of uniform numbers from [1, 2) into numbers of the wanted
/// distribution, in place.
template <class Transform>
void fill_from_pairs(RandomPosition at, Tensor& out, Transform&& transform) {
  visit(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T* to = out.mutable_data<T>();
    std::int64_t n = out.elements();
    parallel_for((n + uniform_group - 1) / uniform_group, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t group = begin; group < end; ++group) {
        UniformPairs pairs = uniform_pairs(at, group);
        transform(pairs);
        std::int64_t first = group * uniform_group, rest = n - first;
        for (std::int64_t i = 0; i < std::min<std::int64_t>(rest, 16); ++i)
          to[first + i] = static_cast<T>(pairs.first[i]);
        for (std::int64_t i = 0; i < std::min<std::int64_t>(rest - 16, 16); ++i)
          to[first + 16 + i] = static_cast<T>(pairs.second[i]);
      }
    });
  });
}

void fill_uniform(RandomPosition at, double low, double high, Tensor& out) {
  fill_from_pairs(at, out, [=](UniformPairs& pairs) {
    for (double* u : {pairs.first, pairs.second})
      for (int lane = 0; lane < 16; ++lane) u[lane] = fma(u[lane] - 1, high - low, low);
  });
}

void fill_normal(RandomPosition at, double mean, double deviation, Tensor& out) {
  using V = Vec<double>;
  fill_from_pairs(at, out, [=](UniformPairs& pairs) {
    for (int lane = 0; lane < 16; lane += V::lanes) {
      V u = V(2) - V::load(pairs.first + lane);  // (0, 1]: the logarithm is finite
      V radius = V(deviation) * sqrt(V(-2) * log(u));
      V angle = V(6.283185307179586) * (V::load(pairs.second + lane) - V(1));
      fma(radius, cos(angle), V(mean)).store(pairs.first + lane);
      fma(radius, sin(angle), V(mean)).store(pairs.second + lane);
    }
  });
}

/// Computes out = residual + x · scale where the mask keeps the element, and out = residual where it drops it. A null
/// `residual` counts as 0.
template <class T>
void drop(const DropoutMask& mask, const T* x, const T* residual, T* out, std::int64_t n) {
  const T scale = static_cast<T>(mask.scale());
  const std::uint32_t threshold = mask.threshold();
  auto sixteen = [&](const std::uint32_t* words, int shift, std::int64_t first, int count) {
    for (int lane = 0; lane < count; ++lane) {
      T scaled = x[first + lane] * scale;
      T kept = ((words[lane] >> shift) & 0xffffU) >= threshold ? scaled : T(0);
      out[first + lane] = residual ? residual[first + lane] + kept : kept;
    }
  };
  parallel_for(mask.groups(n), element_grain / DropoutMask::group, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group) {
      const auto [first, count] = mask.stretch(group, n);
      auto blocks = sixteen_blocks(mask.position(), static_cast<std::uint64_t>(16 * mask.number_in_whole(group)));
      for (int k = 0; 16 * k < count; ++k) {
        const std::int64_t rest = count - 16 * k;
        if (rest >= 16)
          sixteen(blocks.word[k / 2], k % 2 * 16, first + 16 * k, 16);
        else
          sixteen(blocks.word[k / 2], k % 2 * 16, first + 16 * k, static_cast<int>(rest));
      }
    }
  });
}

void dropout(const DropoutMask& mask, const Tensor& x, const Tensor* residual, Tensor& out) {
  visit_real("dropout", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    drop(mask, x.data<T>(), residual ? residual->data<T>() : nullptr, out.mutable_data<T>(), out.elements());
  });
}

const Provide provide(Device::cpu, [](Kernels& table) {
  table.fill_uniform = fill_uniform;
  table.fill_normal = fill_normal;
  table.dropout = dropout;
});

}  // namespace
}  // namespace cpu

template <class T>
void dropout_factors(const DropoutMask& mask, std::int64_t row, std::int64_t first, std::int64_t end, T* out) {
  const T scale = static_cast<T>(mask.scale());
  const std::uint32_t threshold = mask.threshold();
  if (threshold == 0) return std::fill(out + first, out + end, scale);
  const std::int64_t first_of_row = mask.number_in_whole(row * mask.groups_in_row());
  constexpr std::int64_t group_size = DropoutMask::group, lanes = DropoutMask::lanes;
  // The bounds are variables, because GCC makes scalar code of a loop over 16 lanes.
  auto write = [&](const std::uint32_t* words, int shift, std::int64_t lane, std::int64_t last, T* to) {
    for (; lane < last; ++lane) to[lane] = ((words[lane] >> shift) & 0xffffU) >= threshold ? scale : T(0);
  };
  for (std::int64_t group = first / group_size; group * group_size < end; ++group) {
    const auto blocks = cpu::sixteen_blocks(mask.position(), static_cast<std::uint64_t>(16 * (first_of_row + group)));
    for (int k = 0; k < 8; ++k) {
      const std::int64_t begin = group * group_size + lanes * k;
      write(blocks.word[k / 2], k % 2 * 16, std::max<std::int64_t>(first - begin, 0), std::min(end - begin, lanes),
            out + begin);
    }
  }
}
template void dropout_factors(const DropoutMask&, std::int64_t, std::int64_t, std::int64_t, float*);
template void dropout_factors(const DropoutMask&, std::int64_t, std::int64_t, std::int64_t, double*);

}  // namespace fovea
