#include "tensor/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "tensor/cpu/parallel.h"
#include "tensor/formula/math.h"

namespace fovea {

namespace {

/// 32-bit words in the lower halves of 64-bit lanes: what the machine multiplies wide. The upper halves are of no
/// account.
struct WideWords {
  static constexpr int lanes = vector_bytes / 8;
  using Native = NativeVector<std::uint64_t>::Type;
  Native native;

  WideWords() = default;
  FOVEA_INLINE explicit WideWords(Native native) : native(native) {}
  FOVEA_INLINE explicit WideWords(std::uint32_t word) : native(word + Native{}) {}
  friend FOVEA_INLINE WideWords operator^(WideWords a, WideWords b) { return WideWords(a.native ^ b.native); }
};

FOVEA_INLINE WideProduct<WideWords> wide_product(WideWords a, std::uint32_t b) {
#if defined(__AVX512F__)
  auto product = (WideWords::Native)_mm512_maskz_mul_epu32(0xff, (__m512i)a.native, _mm512_set1_epi64(b));
#elif defined(__AVX2__)
  auto product = (WideWords::Native)_mm256_mul_epu32((__m256i)a.native, _mm256_set1_epi64x(b));
#else
  auto product = (a.native & 0xffffffffU) * b;
#endif
  return {WideWords(product >> 32), WideWords(product)};
}

/// Sixteen blocks in a row, as word[w][lane].
struct alignas(64) SixteenBlocks {
  std::uint32_t word[4][16];
};

FOVEA_INLINE SixteenBlocks sixteen_blocks(std::uint64_t seed, std::uint64_t index) {
  constexpr int lanes = WideWords::lanes;
  SixteenBlocks out;
  for (int first = 0; first < 16; first += 2 * lanes) {
    // Even and odd blocks apart: the words of both, side by side in 64 bits, are in order.
    WideWords::Native even, odd;
    for (int lane = 0; lane < lanes; ++lane)
      even[lane] = index + static_cast<std::uint64_t>(first + 2 * lane), odd[lane] = even[lane] + 1;
    WideWords zero(0U);
    auto a = philox(PhiloxBlock<WideWords>{{WideWords(even), WideWords(even >> 32), zero, zero}}, seed);
    auto b = philox(PhiloxBlock<WideWords>{{WideWords(odd), WideWords(odd >> 32), zero, zero}}, seed);
    for (int w = 0; w < 4; ++w) {
      WideWords::Native both = (a.word[w].native & 0xffffffffU) | (b.word[w].native << 32);
      std::memcpy(&out.word[w][first], &both, sizeof both);
    }
  }
  return out;
}

constexpr std::int64_t pair_group = 32;  // elements that take 64 bits each of sixteen blocks

/// Numbers of [1, 2) with 52 random bits: lane i of `first` and of `second` come from block index + i.
struct UniformPairs {
  double first[16], second[16];
};
UniformPairs uniform_pairs(RandomPosition at, std::int64_t group) {
  SixteenBlocks blocks = sixteen_blocks(at.seed, at.offset + static_cast<std::uint64_t>(16 * group));
  auto number = [](std::uint32_t low, std::uint32_t high) {
    std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 12;
    return approximation::from_bits<double>(bits | 0x3ff0000000000000U);
  };
  UniformPairs out;
  for (int lane = 0; lane < 16; ++lane) {
    out.first[lane] = number(blocks.word[0][lane], blocks.word[1][lane]);
    out.second[lane] = number(blocks.word[2][lane], blocks.word[3][lane]);
  }
  return out;
}

/// Fills `out` with what transform makes, in place, of uniform pairs.
template <class Transform>
void fill_from_pairs(const char* what, Tensor& out, Generator& generator, Transform&& transform) {
  require(is_float(out.dtype()), "{}: a tensor of {} holds no real numbers; use f32, f64 or bf16", what,
          name(out.dtype()));
  RandomPosition at = generator.reserve(out.elements());
  bool direct = out.device() == Device::cpu && out.is_contiguous();
  Tensor filled = direct ? out : Tensor::empty(out.shape(), out.dtype());
  visit(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T* to = filled.data<T>();
    std::int64_t n = filled.elements();
    parallel_for((n + pair_group - 1) / pair_group, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t group = begin; group < end; ++group) {
        UniformPairs pairs = uniform_pairs(at, group);
        transform(pairs);
        std::int64_t first = group * pair_group, rest = n - first;
        for (std::int64_t i = 0; i < std::min<std::int64_t>(rest, 16); ++i)
          to[first + i] = static_cast<T>(pairs.first[i]);
        for (std::int64_t i = 0; i < std::min<std::int64_t>(rest - 16, 16); ++i)
          to[first + 16 + i] = static_cast<T>(pairs.second[i]);
      }
    });
  });
  if (direct)
    out.changed();
  else
    out.copy_from(filled);
}

/// out = residual + x · scale where kept, one group at a time.
template <class T>
void dropout_on_cpu(const DropoutMask& mask, const T* x, const T* residual, T* out, std::int64_t n) {
  const T scale = static_cast<T>(mask.scale());
  const std::uint32_t threshold = mask.threshold();
  const auto [seed, offset] = mask.position();
  auto sixteen = [&](const std::uint32_t* words, int shift, std::int64_t first, int count) {
    for (int lane = 0; lane < count; ++lane) {
      T scaled = x[first + lane] * scale;
      T kept = ((words[lane] >> shift) & 0xffffU) >= threshold ? scaled : T(0);
      out[first + lane] = residual ? residual[first + lane] + kept : kept;
    }
  };
  constexpr std::int64_t group_size = DropoutMask::group;
  parallel_for((n + group_size - 1) / group_size, element_grain / group_size,
               [&, seed = seed, offset = offset](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t group = begin; group < end; ++group) {
                   auto blocks = sixteen_blocks(seed, offset + static_cast<std::uint64_t>(16 * group));
                   for (int k = 0; k < 8; ++k) {
                     std::int64_t first = group * group_size + 16 * k;
                     if (n - first >= 16)
                       sixteen(blocks.word[k / 2], k % 2 * 16, first, 16);
                     else if (n > first)
                       sixteen(blocks.word[k / 2], k % 2 * 16, first, static_cast<int>(n - first));
                   }
                 }
               });
}

Tensor run_dropout(const char* what, const DropoutMask& mask, const Tensor& x, const Tensor* residual) {
  if (residual)
    require(residual->shape() == x.shape() && residual->dtype() == x.dtype() && residual->device() == x.device(),
            "{}: the residual is {} on {}, x is {} on {}; they must be alike", what, residual->describe(),
            name(residual->device()), x, name(x.device()));
  Tensor from = x.contiguous(), add = residual ? residual->contiguous() : Tensor();
  Tensor out = Tensor::empty(x.shape(), x.dtype(), x.device());
  visit_real(what, x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    if (x.device() == Device::cpu)
      return dropout_on_cpu(mask, from.data<T>(), residual ? add.data<T>() : nullptr, out.data<T>(), out.elements());
    require(cuda_dropout != nullptr, "{}: this build has no CUDA kernel for it", what);
    cuda_dropout(mask, from, residual ? &add : nullptr, out);
  });
  return out;
}

}  // namespace

RandomPosition Generator::reserve(std::int64_t elements) {
  RandomPosition at = next_;
  next_.offset += static_cast<std::uint64_t>((elements + pair_group - 1) / pair_group) * 16;
  return at;
}

Generator& default_generator() {
  static Generator generator(0);
  return generator;
}

void seed(std::uint64_t seed) { default_generator() = Generator(seed); }

void fill_uniform(Tensor& out, Generator& generator, double low, double high) {
  require(low <= high, "fill_uniform: from {} to {}: the interval is empty", low, high);
  fill_from_pairs("fill_uniform", out, generator, [=](UniformPairs& pairs) {
    for (double* u : {pairs.first, pairs.second})
      for (int lane = 0; lane < 16; ++lane) u[lane] = fma(u[lane] - 1, high - low, low);
  });
}

void fill_normal(Tensor& out, Generator& generator, double mean, double deviation) {
  require(deviation >= 0, "fill_normal: the standard deviation is {}, it must not be negative", deviation);
  using V = Vec<double>;
  fill_from_pairs("fill_normal", out, generator, [=](UniformPairs& pairs) {
    for (int lane = 0; lane < 16; lane += V::lanes) {
      V u = V(2) - V::load(pairs.first + lane);  // (0, 1]: the logarithm is finite
      V radius = V(deviation) * sqrt(V(-2) * log(u));
      V angle = V(6.283185307179586) * (V::load(pairs.second + lane) - V(1));
      fma(radius, cos(angle), V(mean)).store(pairs.first + lane);
      fma(radius, sin(angle), V(mean)).store(pairs.second + lane);
    }
  });
}

std::vector<std::int64_t> permutation(std::int64_t n, Generator& generator) {
  require(n >= 0, "permutation: of {} numbers", n);
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  RandomPosition at = generator.reserve(n);
  UniformPairs pairs;
  for (std::int64_t drawn = 0; drawn + 1 < n; ++drawn) {  // Fisher and Yates, from the end
    std::int64_t place = drawn % pair_group;
    if (place == 0) pairs = uniform_pairs(at, drawn / pair_group);
    double u = (place < 16 ? pairs.first[place] : pairs.second[place - 16]) - 1;
    std::int64_t last = n - 1 - drawn, chosen = static_cast<std::int64_t>(u * static_cast<double>(last + 1));
    std::swap(order[static_cast<std::size_t>(last)], order[static_cast<std::size_t>(chosen)]);
  }
  return order;
}

DropoutMask::DropoutMask(double probability, RandomPosition at) : position_(at) {
  require(0 <= probability && probability < 1, "a dropout probability lies in [0, 1), not at {}", probability);
  threshold_ = std::min(static_cast<std::uint32_t>(std::lround(probability * 65536)), 65535U);
  scale_ = 65536.0 / (65536 - threshold_);
}

template <class T>
void dropout_factors(const DropoutMask& mask, std::int64_t first, std::int64_t count, T* out) {
  const T scale = static_cast<T>(mask.scale());
  const std::uint32_t threshold = mask.threshold();
  const std::int64_t end = first + count;
  constexpr std::int64_t group_size = DropoutMask::group;
  for (std::int64_t group = first / group_size; group * group_size < end; ++group) {
    auto blocks = sixteen_blocks(mask.position().seed, mask.position().offset + static_cast<std::uint64_t>(16 * group));
    for (int k = 0; k < 8; ++k) {
      std::int64_t begin = group * group_size + 16 * k;
      if (begin + 16 <= first || end <= begin) continue;
      T factors[16];
      for (int lane = 0; lane < 16; ++lane)
        factors[lane] = ((blocks.word[k / 2][lane] >> (k % 2 * 16)) & 0xffffU) >= threshold ? scale : T(0);
      std::int64_t from = std::max(first, begin), to = std::min(end, begin + 16);
      std::copy(factors + (from - begin), factors + (to - begin), out + (from - first));
    }
  }
}
template void dropout_factors(const DropoutMask&, std::int64_t, std::int64_t, float*);
template void dropout_factors(const DropoutMask&, std::int64_t, std::int64_t, double*);

Tensor dropout(const Tensor& x, double probability, std::uint64_t seed, std::uint64_t offset) {
  return run_dropout("dropout", DropoutMask(probability, {seed, offset}), x, nullptr);
}

Tensor dropout_add(const Tensor& x, const Tensor& residual, double probability, std::uint64_t seed,
                   std::uint64_t offset) {
  return run_dropout("dropout_add", DropoutMask(probability, {seed, offset}), x, &residual);
}

}  // namespace fovea
