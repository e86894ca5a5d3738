#include "tensor/random.h"

#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>

#include <boost/test/unit_test.hpp>
#include <omp.h>

#include "tests/files.h"
#include "tests/refusal.h"
#include "tests/several_threads.h"
#include "tests/tensor/kernel_cases.h"

namespace fovea {

/// What the action makes with this many threads.
template <class Action>
static auto with_threads(int threads, Action&& action) {
  int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  auto result = action();
  omp_set_num_threads(before);
  return result;
}

static Tensor uniform(const Shape& shape, std::uint64_t seed, double low = 0, double high = 1,
                      DType dtype = DType::f64) {
  Generator generator(seed);
  Tensor out = Tensor::empty(shape, dtype, test_device());
  fill_uniform(out, generator, low, high);
  return out;
}

static std::vector<double> values_of(const Tensor& x) { return x.to_vector<double>(); }

/// mean of f over x
template <class F>
static double mean_of(const std::vector<double>& x, F&& f) {
  double sum = 0;
  for (double value : x) sum += f(value);
  return sum / static_cast<double>(x.size());
}

BOOST_AUTO_TEST_SUITE(random_numbers)

BOOST_AUTO_TEST_CASE(philox_gives_its_known_answers) {
  // The vectors that the authors publish with the generator.
  struct Answer {
    PhiloxBlock<std::uint32_t> counter;
    std::uint64_t key;
    PhiloxBlock<std::uint32_t> random;
  };
  const Answer answers[] = {
      {{{0, 0, 0, 0}}, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
      {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
       0xffffffffffffffff,
       {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       0x299f31d0a4093822,
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
  };
  for (const Answer& answer : answers) {
    auto got = philox(answer.counter, answer.key);
    for (int w = 0; w < 4; ++w) BOOST_TEST(got.word[w] == answer.random.word[w]);
  }
}

BOOST_AUTO_TEST_CASE(uniform_numbers_are_uniform) {
  auto x = values_of(uniform({by_device(200, 50), 1001}, 5, -3, 5));
  double n = static_cast<double>(x.size()), low = 10, high = -10;
  for (double value : x) low = std::min(low, value), high = std::max(high, value);
  BOOST_TEST(low >= -3);
  BOOST_TEST(high < 5);
  BOOST_TEST(low < -2.999);
  BOOST_TEST(high > 4.999);
  double mean = mean_of(x, [](double v) { return v; });
  BOOST_TEST(std::fabs(mean - 1) < 5 * 8 / std::sqrt(12 * n));
  double variance = mean_of(x, [&](double v) { return (v - mean) * (v - mean); });
  BOOST_TEST(std::fabs(variance / (64.0 / 12) - 1) < 5 * std::sqrt(0.8 / n));

  std::vector<double> bins(64);
  for (double value : x) ++bins[static_cast<std::size_t>((value + 3) * 8)];
  double chi_squared = 0;
  for (double count : bins) chi_squared += (count - n / 64) * (count - n / 64) / (n / 64);
  BOOST_TEST(chi_squared < 63 + 5 * std::sqrt(2 * 63.0));
}

BOOST_AUTO_TEST_CASE(normal_numbers_are_normal) {
  Generator generator(6);
  Tensor out = Tensor::empty({by_device(300, 50), 701}, DType::f64, test_device());
  fill_normal(out, generator, 2, 3);
  auto x = values_of(out);
  double n = static_cast<double>(x.size());
  for (double& value : x) value = (value - 2) / 3;
  auto moment = [&](int power) { return mean_of(x, [power](double v) { return std::pow(v, power); }); };
  BOOST_TEST(std::fabs(moment(1)) < 5 / std::sqrt(n));
  BOOST_TEST(std::fabs(moment(2) - 1) < 5 * std::sqrt(2 / n));
  BOOST_TEST(std::fabs(moment(3)) < 5 * std::sqrt(15 / n));
  BOOST_TEST(std::fabs(moment(4) - 3) < 5 * std::sqrt(96 / n));
  double beyond = mean_of(x, [](double v) { return std::fabs(v) > 1.959963985 ? 1.0 : 0.0; });
  BOOST_TEST(std::fabs(beyond - 0.05) < 5 * std::sqrt(0.05 * 0.95 / n));
  double neighbours = 0;
  for (std::size_t i = 1; i < x.size(); ++i) neighbours += x[i] * x[i - 1];
  BOOST_TEST(std::fabs(neighbours / n) < 5 / std::sqrt(n));
}

BOOST_AUTO_TEST_CASE(numbers_do_not_depend_on_threads_type_or_strides) {
  auto fill = [](DType dtype, bool transposed) {
    Generator generator(9);
    Tensor out = Tensor::empty(transposed ? Shape{701, 130} : Shape{130, 701}, dtype, test_device());
    if (transposed) out = out.transpose(0, 1);
    fill_normal(out, generator, 0.5, 2);
    return values_of(out);
  };
  auto wanted = with_threads(1, [&] { return fill(DType::f64, false); });
  BOOST_TEST((with_threads(2, [&] { return fill(DType::f64, false); }) == wanted));
  BOOST_TEST((with_threads(3, [&] { return fill(DType::f64, true); }) == wanted));
  auto rounded = fill(DType::f32, false), coarse = fill(DType::bf16, false);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    BOOST_REQUIRE_EQUAL(rounded[i], static_cast<double>(static_cast<float>(wanted[i])));
    BOOST_REQUIRE_LE(std::fabs(coarse[i] - wanted[i]), std::fabs(wanted[i]) / 256);
  }
}

BOOST_AUTO_TEST_CASE(a_generator_goes_on_from_its_state_and_never_repeats) {
  Generator generator(17);
  std::set<double> seen;
  std::size_t drawn = 0;
  for (std::int64_t n : {1, 31, 32, 33, 1, 500, 128}) {
    Tensor out = Tensor::empty({n}, DType::f64, test_device());
    fill_uniform(out, generator);
    for (double value : values_of(out)) seen.insert(value), ++drawn;
  }
  BOOST_TEST(seen.size() == drawn);

  Generator copy(0);
  copy.set_state(generator.state());
  Tensor next = Tensor::empty({100}, DType::f64, test_device()), same = Tensor::empty_like(next);
  fill_uniform(next, generator), fill_uniform(same, copy);
  BOOST_TEST(same_bits(next, same));
  BOOST_TEST(copy.state().offset == generator.state().offset);
  BOOST_TEST((values_of(uniform({40}, 1)) != values_of(uniform({40}, 2))));
}

BOOST_AUTO_TEST_CASE(every_call_of_every_micro_batch_of_every_update_has_a_stream_of_its_own) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> streams;
  std::size_t calls = 0;
  for (std::uint64_t seed : {0, 1, 77})
    for (std::int64_t update : {std::int64_t{0}, std::int64_t{1}, std::int64_t{4095}, (std::int64_t{1} << 32) - 1})
      for (std::int64_t micro_batch : {0, 1, 4095}) {
        RandomScope random({.seed = seed, .update = update, .micro_batch = micro_batch});
        for (int call = 0; call < 5; ++call, ++calls) {
          RandomPosition at = RandomScope::next_call("test");
          BOOST_TEST(at.seed == seed);
          BOOST_TEST(at.offset == 0u);
          BOOST_TEST(at.stream != 0u);  // a generator's
          streams.emplace(at.seed, at.stream);
        }
      }
  BOOST_TEST(streams.size() == calls);

  RandomScope one({1, 2, 3}), two({1, 2, 4});
  DropoutMask mask(0.5, RandomScope::next_call("test")), next(0.5, RandomScope::next_call("test"));
  Tensor ones = Tensor::full({500}, 1, DType::f64);
  BOOST_TEST((values_of(dropout(ones, mask)) != values_of(dropout(ones, next))));
}

BOOST_AUTO_TEST_CASE(an_inner_scope_interrupts_the_outer_one) {
  auto call = [] { return RandomScope::next_call("test").stream; };
  RandomScope outer({3, 1, 0});
  std::uint64_t first = call(), inside = 0, second = 0;
  {
    RandomScope inner({3, 1, 0});
    inside = call();
    second = call();
  }
  BOOST_TEST(inside == first);
  BOOST_TEST(call() == second);
}

BOOST_AUTO_TEST_CASE(threads_draw_what_one_thread_draws) {
  constexpr int threads = 4, calls = 20;
  auto draw = [&](int micro_batch) {
    std::vector<double> drawn;
    RandomScope random({.seed = 9, .update = 3, .micro_batch = micro_batch});
    for (int call = 0; call < calls; ++call)
      for (double value :
           values_of(dropout(Tensor::full({100}, 1, DType::f64), DropoutMask(0.4, RandomScope::next_call("test")))))
        drawn.push_back(value);
    return drawn;
  };
  std::vector<std::vector<double>> apart(threads), together(threads);
  for (int k = threads - 1; k >= 0; --k) apart[static_cast<std::size_t>(k)] = draw(k);
  for (const std::string& error :
       test::run_on_threads(threads, [&](int k) { together[static_cast<std::size_t>(k)] = draw(k); }))
    BOOST_TEST(error == "");
  BOOST_TEST((apart == together));
  BOOST_TEST((apart[0] != apart[1]));
}

BOOST_AUTO_TEST_CASE(a_call_outside_of_all_scopes_is_refused) {
  BOOST_TEST(message_of([] { RandomScope::next_call("dropout"); }) ==
             "dropout: no random numbers were chosen on this thread; write RandomScope random({.seed = 1, .update = "
             "k}); before the forward pass, or model.train(false) to evaluate");
  BOOST_TEST(message_of([] { RandomScope({.update = -1}); }) ==
             "RandomScope: the update is -1; it must be in [0, 4294967296)");
  BOOST_TEST(message_of([] { RandomScope({.micro_batch = 4096}); }) ==
             "RandomScope: the micro-batch is 4096; it must be in [0, 4096)");
  RandomScope random({1});
  for (int call = 1; call < 1 << 20; ++call) RandomScope::next_call("dropout");
  BOOST_TEST(message_of([] { RandomScope::next_call("dropout"); }) ==
             "dropout: more than 1048575 calls in one RandomScope; use one for each batch");
}

BOOST_AUTO_TEST_CASE(dropout_keeps_the_stated_share_and_scales_it) {
  Tensor x = random_tensor({by_device(257, 57), 1003}, DType::f64, 1, 2);
  auto in = values_of(x);
  for (double p : {0.0, 0.1, 0.5, 0.9}) {
    auto out = values_of(dropout(x, DropoutMask(p, {77, 1234567})));
    double scale = 65536 / (65536 - std::round(p * 65536)), kept = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (out[i] == 0) continue;
      BOOST_REQUIRE_EQUAL(out[i], in[i] * scale);
      ++kept;
    }
    double n = static_cast<double>(in.size());
    BOOST_TEST(std::fabs(kept / n - (1 - p)) <= 5 * std::sqrt(p * (1 - p) / n) + 1e-5, "p " << p << ": " << kept / n);
  }
}

BOOST_AUTO_TEST_CASE(the_mask_is_that_of_its_definition) {
  // The lanes of the loop against the scalar definition, which is CUDA's too; 2^32 is crossed inside a block.
  const RandomPosition at{0xfedcba9876543210, 0xfffffff0};
  DropoutMask mask(0.3, at);
  Tensor ones = here(Tensor::full({1000}, 1, DType::f64));
  auto out = values_of(dropout(ones, mask));
  for (std::int64_t e = 0; e < 1000; ++e) {
    bool keeps = mask.keeps(mask.words(e / 128, static_cast<int>(e % 16)), static_cast<int>(e / 16 % 8));
    BOOST_REQUIRE_EQUAL(out[static_cast<std::size_t>(e)], keeps ? mask.scale() : 0.0);
  }
}

BOOST_AUTO_TEST_CASE(every_device_draws_the_same_numbers) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (std::int64_t n : {1, 15, 16, 17, 31, 32, 33, 1000}) {
      auto draw = [&](Device device, bool normal) {
        Generator generator(0);
        generator.set_state({.seed = 5, .offset = 0xffffffe0});  // the counter's lower word overflows
        Tensor out = Tensor::empty({n}, dtype, device);
        normal ? fill_normal(out, generator, -1, 3) : fill_uniform(out, generator, -1, 3);
        return out;
      };
      BOOST_TEST(same_bits(draw(test_device(), false), draw(Device::cpu, false)));
      // Devices differ in the last bits of log, sin and cos.
      check_close(draw(test_device(), true), values_of(draw(Device::cpu, true)),
                  dtype == DType::f64   ? 1e-15
                  : dtype == DType::f32 ? 1.2e-7
                                        : 0.01,
                  "normal numbers");
    }
  Generator generator(3);
  Tensor none = Tensor::empty({0, 3}, DType::f32, test_device());
  fill_uniform(none, generator);
  fill_normal(none, generator);
}

BOOST_AUTO_TEST_CASE(every_device_draws_the_same_mask) {
  const RandomPosition at{.seed = 5, .offset = 0xfffffff0, .stream = 0xabcdef0123456789};
  Tensor x = random_tensor({37, 300}, DType::f64, 1, 2).to(Device::cpu), residual = x.clone();
  for (std::int64_t J : {std::int64_t{17}, std::int64_t{128}, std::int64_t{300}, DropoutMask::one_row}) {
    DropoutMask mask(0.3, at, J);
    BOOST_TEST((values_of(dropout(here(x), mask).to(Device::cpu)) == values_of(dropout(x, mask))));
    BOOST_TEST((values_of(dropout_add(here(x), here(residual), mask).to(Device::cpu)) ==
                values_of(dropout_add(x, residual, mask))));
  }
}

BOOST_AUTO_TEST_CASE(every_row_of_a_mask_begins_a_group) {
  const RandomPosition at{.seed = 5, .offset = 0xfffffff0, .stream = 0xabcdef0123456789};
  for (std::int64_t J : {1, 3, 17, 127, 128, 129, 300}) {
    const std::int64_t rows = 37, groups = (J + 127) / 128;
    DropoutMask mask(0.3, at, J);
    auto out = values_of(dropout(Tensor::full({rows, J}, 1, DType::f64), mask));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < J; ++j) {
        bool keeps =
            mask.keeps(mask.words(i * groups + j / 128, static_cast<int>(j % 16)), static_cast<int>(j / 16 % 8));
        BOOST_REQUIRE_EQUAL(out[static_cast<std::size_t>(i * J + j)], keeps ? mask.scale() : 0.0);
      }
    for (std::int64_t first : {std::int64_t{0}, J / 3, J - 1})
      for (std::int64_t end : {first, first + (J - first) / 2, J}) {
        std::vector<double> part(static_cast<std::size_t>(J), -1);
        dropout_factors(mask, 11, first, end, part.data());
        for (std::int64_t j = 0; j < J; ++j)
          BOOST_REQUIRE_EQUAL(part[static_cast<std::size_t>(j)],
                              first <= j && j < end ? out[static_cast<std::size_t>(11 * J + j)] : -1);
      }
  }
}

BOOST_AUTO_TEST_CASE(more_columns_change_no_decision_up_to_128) {
  auto columns = [](std::int64_t J) {
    return values_of(
        dropout(Tensor::full({9, J}, 1, DType::f64), DropoutMask(0.3, {4}, J)).slice(1, 0, 20).contiguous());
  };
  BOOST_TEST((columns(20) == columns(128)));
  BOOST_TEST((columns(20) != columns(129)));
}

BOOST_AUTO_TEST_CASE(the_mask_depends_on_seed_offset_and_element_alone) {
  auto mask = [](const Tensor& x, double p, std::uint64_t seed, std::uint64_t offset) {
    auto out = values_of(dropout(x, DropoutMask(p, {seed, offset})));
    for (double& value : out) value = value != 0;
    return out;
  };
  for (std::int64_t n : {1, 3, 17, 130, by_device(100001, 10001)}) {
    Tensor x = random_tensor({n}, DType::f64, 1, 2);
    auto wanted = with_threads(1, [&] { return mask(x, 0.4, 5, 96); });
    BOOST_TEST((with_threads(2, [&] { return mask(x, 0.4, 5, 96); }) == wanted));
    BOOST_TEST((mask(random_tensor({n}, DType::f32, 1, 2, 1), 0.4, 5, 96) == wanted));
    if (n >= 130) {
      BOOST_TEST((mask(x, 0.4, 6, 96) != wanted));
      BOOST_TEST((mask(x, 0.4, 5, 96 + 16) != wanted));
      auto longer = mask(random_tensor({n + 77}, DType::f64, 1, 2), 0.4, 5, 96);
      longer.resize(wanted.size());
      BOOST_TEST((longer == wanted));
    }
  }
  Tensor matrix = random_tensor({37, 53}, DType::f64, 1, 2);
  Tensor turned = matrix.transpose(0, 1).contiguous().transpose(0, 1);  // same elements, other strides
  BOOST_TEST((values_of(dropout(turned, DropoutMask(0.4, {5}))) == values_of(dropout(matrix, DropoutMask(0.4, {5})))));
}

BOOST_AUTO_TEST_CASE(neighbouring_decisions_are_independent) {
  auto out =
      values_of(dropout(here(Tensor::full({by_device(1 << 18, 1 << 15)}, 1, DType::f64)), DropoutMask(0.5, {8})));
  for (std::size_t distance : {1, 2, 8, 16, 32, 64, 128, 4096}) {
    double agree = 0, n = static_cast<double>(out.size() - distance);
    for (std::size_t i = distance; i < out.size(); ++i) agree += out[i] == out[i - distance];
    BOOST_TEST(std::fabs(agree / n - 0.5) < 5 * 0.5 / std::sqrt(n), "at distance " << distance << ": " << agree / n);
  }
}

BOOST_AUTO_TEST_CASE(dropout_of_infinities_is_zero_where_dropped) {
  for (double value : values_of(dropout(here(Tensor::full({300}, -INFINITY, DType::f32)), DropoutMask(0.5, {8}))))
    BOOST_TEST((value == 0 || value == -INFINITY));
}

BOOST_AUTO_TEST_CASE(dropout_add_is_dropout_and_a_sum) {
  for (DType dtype : {DType::f32, DType::f64}) {
    Tensor x = random_tensor({13, 7, 29}, dtype), residual = random_tensor({13, 7, 29}, dtype, -1, 1, 1);
    auto sum = values_of(dropout_add(x, residual, DropoutMask(0.2, {3, 4}))),
         dropped = values_of(dropout(x, DropoutMask(0.2, {3, 4})));
    auto added = values_of(residual);
    for (std::size_t i = 0; i < sum.size(); ++i) BOOST_TEST(std::fabs(sum[i] - added[i] - dropped[i]) < 2e-7);
  }
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_named) {
  Tensor x = here(Tensor::zeros({2, 3})), y = here(Tensor::zeros({3, 2})),
         indices = here(Tensor::zeros({4}, DType::i64));
  Generator generator(1);
  BOOST_TEST(message_of([&] { DropoutMask(1, {}); }) == "a dropout probability lies in [0, 1), not at 1");
  BOOST_TEST(message_of([&] { DropoutMask(NAN, {}); }) == "a dropout probability lies in [0, 1), not at nan");
  BOOST_TEST(message_of([&] { dropout(indices, DropoutMask(0.5, {})); }) ==
             "dropout: computes in f32 or f64, not i64; cast the tensor first");
  BOOST_TEST(message_of([&] { dropout_add(x, y, DropoutMask(0.5, {})); }) ==
             fmt::format(
                 "dropout_add: the residual, f32 [3, 2] on {0}, must be f32 [...], beside x f32 or f64 [...], here f32 "
                 "[2, 3] on {0}",
                 name(test_device())));
  BOOST_TEST(message_of([&] { fill_uniform(x, generator, 2, 1); }) ==
             "fill_uniform: from 2 to 1: the interval is empty");
  BOOST_TEST(
      message_of([&] { fill_normal(x, generator, 0, -1); }) ==
      "fill_normal: the mean is 0 and the standard deviation -1; both must be finite, and the latter at least 0");
  BOOST_TEST(message_of([&] { fill_normal(x, generator, 0, INFINITY); }).find("the standard deviation inf") !=
             std::string::npos);
  for (double end : {double{INFINITY}, 1.7e308})
    BOOST_TEST(message_of([&] { fill_uniform(x, generator, -end, end); }) ==
               fmt::format("fill_uniform: from {} to {}: the interval must have a finite length", -end, end));
  BOOST_TEST(message_of([&] { fill_normal(indices, generator); }) ==
             "fill_normal: a tensor of i64 holds no real numbers; use f32, f64 or bf16");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace fovea
