// Filling, casting, copies between views that share memory, and tensors that were never given a value.
#include "tensor/tensor.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

#include "autograd/operations/gather.h"
#include "nn/optimizer_formulas.h"
#include "tensor/comparison.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/formula/functions.h"
#include "tensor/map.h"
#include "tensor/random.h"
#include "tensor/reduce.h"
#include "tensor/support/machine_memory.h"
#include "tests/refusal.h"
#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

/// Views of one storage as [rows, columns], to copy from one to the other.
struct Views {
  const char* name;
  std::function<std::pair<Tensor, Tensor>(Tensor)> of;  ///< of [5, 5]: target, source
};

const std::vector<Views> all_views = {
    {"transposed", [](const Tensor& a) { return std::pair(a, a.transpose(0, 1)); }},
    {"one down", [](const Tensor& a) { return std::pair(a.slice(0, 1, 5), a.slice(0, 0, 4)); }},
    {"one up", [](const Tensor& a) { return std::pair(a.slice(0, 0, 4), a.slice(0, 1, 5)); }},
    {"one right", [](const Tensor& a) { return std::pair(a.slice(1, 1, 5), a.slice(1, 0, 4)); }},
    {"one left", [](const Tensor& a) { return std::pair(a.slice(1, 0, 4), a.slice(1, 1, 5)); }},
    {"a row for all", [](const Tensor& a) { return std::pair(a, a.select(0, 2)); }},
    {"a column for all", [](const Tensor& a) { return std::pair(a, a.slice(1, 3, 4)); }},
    {"backwards",
     [](const Tensor& a) {
       return std::pair(a, a.as_strided({5, 5}, {-5, -1}, 24));
     }},
    {"disjoint", [](const Tensor& a) { return std::pair(a.slice(0, 0, 2), a.slice(0, 3, 5)); }},
    {"itself", [](const Tensor& a) { return std::pair(a, a); }},
};

constexpr DType all_types[] = {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8, DType::boolean};

std::vector<double> part(const std::vector<double>& values, std::ptrdiff_t begin, std::ptrdiff_t end) {
  return {values.begin() + begin, values.begin() + end};
}

Tensor numbered(std::int64_t n, DType dtype) { return Tensor::arange(n * n, dtype, test_device()).reshape({n, n}); }

}  // namespace

BOOST_AUTO_TEST_SUITE(tensors)

BOOST_AUTO_TEST_CASE(every_type_is_cast_to_every_other_from_any_layout_into_any) {
  for (DType from : all_types)
    for (DType to : all_types) {
      if (from == DType::boolean && to == DType::boolean) continue;
      const bool has_signs = from != DType::u8 && to != DType::u8;
      const Tensor numbers = random_tensor({3, 17}, from, has_signs ? -120 : 0, 120);
      std::vector<double> expected = numbers.to_vector<double>();
      for (double& x : expected) x = to == DType::boolean ? x != 0 : is_float(to) ? x : std::trunc(x);
      // Whole numbers up to 120 are exact in bf16; others are rounded to 8 bits.
      const double tolerance = to == DType::bf16 ? 1.0 / 256 : to == DType::f32 ? 1e-7 : 0;
      for (const Tensor& x : layouts(numbers)) {
        check_close(x.to(to), expected, tolerance, fmt::format("{} to {}", x, name(to)));
        check_close(x.contiguous(), x.to_vector<double>(), 0, "contiguous");
      }
      for (Tensor& target : layouts(Tensor::zeros({3, 17}, to, test_device()))) {
        target.copy_from(numbers);
        check_close(target, expected, tolerance, fmt::format("{} into {}", numbers, target));
        target.copy_from(numbers.slice(0, 1, 2));
        for (std::int64_t row : {0, 2}) check_close(target.select(0, row), part(expected, 17, 34), tolerance, "a row");
      }
    }
}

BOOST_AUTO_TEST_CASE(numbers_beyond_an_integer_type_become_its_nearest_number_and_nan_becomes_0) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> numbers{NAN, infinity, -infinity, 1e30, -1e30, 2.75, -2.75, 0.5, -0.5, 255.5, 256, -1, 0};
  auto check = [&](DType to, double least, double most) {
    std::vector<double> expected;
    for (double x : numbers) expected.push_back(std::isnan(x) ? 0 : std::trunc(std::clamp(x, least, most)));
    for (DType from : {DType::f32, DType::f64, DType::bf16}) {
      const Tensor x = Tensor::from(numbers, {13}).to(from).to(test_device());
      std::vector<double> rounded = expected;
      if (from == DType::bf16 && to != DType::u8) rounded[9] = 256;  // 255.5 in 8 bits
      for (const Tensor& layout : layouts(x)) BOOST_TEST(layout.to(to).to_vector<double>() == rounded, name(to));
    }
  };
  check(DType::u8, 0, 255);
  check(DType::i32, -2147483648.0, 2147483647.0);
  check(DType::i64, -0x1p63, 0x1p63);  // 2^63 - 1 is 2^63 in f64
  const Tensor truth = Tensor::from(numbers, {13}).to(test_device()).to(DType::boolean);
  for (std::int64_t k = 0; k < 13; ++k) BOOST_TEST(truth.slice(0, k, k + 1).item() == (k < 12));
  Tensor filled = Tensor::full({3}, NAN, DType::i32, test_device());
  BOOST_TEST(filled.to_vector<double>() == std::vector<double>(3, 0.0), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(transposed_matrices_are_cast) {
  for (DType from : all_types)
    for (DType to : all_types) {
      const Tensor x = random_integers({2, 35, 9}, 100, from).transpose(1, 2);
      std::vector<double> expected = x.to_vector<double>();
      for (double& value : expected) value = to == DType::boolean ? value != 0 : value;
      check_close(x.to(to), expected, 0, fmt::format("{} to {}", x, name(to)));
    }
}

BOOST_AUTO_TEST_CASE(whole_numbers_that_f64_cannot_tell_apart_stay_exact) {
  const std::int64_t first = (std::int64_t{1} << 60) + 1;
  Tensor x = Tensor::arange(6, DType::i64, test_device(), first), turned = x.reshape({2, 3}).transpose(0, 1).clone();
  BOOST_TEST(x.to_vector<std::int64_t>() == (std::vector{first, first + 1, first + 2, first + 3, first + 4, first + 5}),
             boost::test_tools::per_element());
  BOOST_TEST(
      turned.to_vector<std::int64_t>() == (std::vector{first, first + 3, first + 1, first + 4, first + 2, first + 5}),
      boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(copies_to_the_tested_device_and_back_keep_every_layout) {
  for (DType dtype : all_types)
    for (const Tensor& x : layouts(random_integers({3, 5, 4}, 2, dtype))) {
      std::vector<double> expected = x.to_vector<double>();
      Tensor there = Tensor::empty({3, 5, 4}, dtype);
      there.copy_from(x);
      check_close(there, expected, 0, "from the device");
      Tensor back = Tensor::full({4, 5, 3}, 1, dtype, test_device()).transpose(0, 2);
      back.copy_from(there);
      check_close(back, expected, 0, "to the device");
      back.copy_from(there.slice(1, 2, 3));
      check_close(back.slice(1, 4, 5), there.slice(1, 2, 3).to_vector<double>(), 0, "broadcast to the device");
    }
}

BOOST_AUTO_TEST_CASE(filling_a_view_leaves_the_rest) {
  for (DType dtype : all_types) {
    Tensor x = Tensor::zeros({3, 5}, dtype, test_device());
    x.slice(1, 1, 4).transpose(0, 1).fill(1);
    x.select(0, 1).fill(0);
    check_close(x, {0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0}, 0, x.describe());
    x.slice(0, 2, 2).fill(1);
    check_close(x.select(0, 1), {0, 0, 0, 0, 0}, 0, "nothing is filled");
  }
  BOOST_TEST(Tensor::full({}, -0.75, DType::bf16, test_device()).item() == -0.75);
}

BOOST_AUTO_TEST_CASE(numbers_are_counted_up_from_any_start) {
  for (DType dtype : all_types) {
    if (dtype == DType::boolean) continue;
    for (std::int64_t n : {0, 1, 130}) {
      std::vector<double> expected;
      for (std::int64_t k = 0; k < n; ++k) expected.push_back(static_cast<double>(k + 7));
      check_close(Tensor::arange(n, dtype, test_device(), 7), expected, 0, fmt::format("{} of {}", n, name(dtype)));
    }
  }
}

BOOST_AUTO_TEST_CASE(copying_between_views_of_one_storage_is_copying_what_was_there) {
  for (DType dtype : {DType::f32, DType::i64})
    for (const Views& views : all_views) {
      auto [target, source] = views.of(numbered(5, dtype));
      std::vector<double> expected = source.expand(target.shape()).to_vector<double>();
      target.copy_from(source);
      BOOST_TEST_CONTEXT(views.name)
      BOOST_TEST(target.to_vector<double>() == expected, boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(every_permutation_is_copied_element_by_element) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::u8})
    for (const Shape& shape : {Shape{2, 3, 33, 9}, Shape{1, 2, 8, 64}, Shape{70, 1, 3, 17}}) {
      const Tensor x = random_integers(shape, 100, dtype);
      const std::vector<double> values = x.to_vector<double>();
      std::vector<int> order{0, 1, 2, 3};
      do {
        const Tensor view = x.permute(order), copy = view.contiguous();
        std::vector<double> expected;
        std::array<std::int64_t, 4> at{};
        for (std::int64_t e = 0; e < x.elements(); ++e) {
          std::int64_t rest = e, place = 0;
          for (int d = 3; d >= 0; --d) at[static_cast<std::size_t>(d)] = rest % view.size(d), rest /= view.size(d);
          for (int d = 0; d < 4; ++d) place += at[static_cast<std::size_t>(d)] * view.strides()[d];
          expected.push_back(values[static_cast<std::size_t>(place)]);
        }
        check_close(copy, expected, 0, view.describe() + " strides " + view.strides().str());
      } while (std::next_permutation(order.begin(), order.end()));
    }
}

BOOST_AUTO_TEST_CASE(operands_of_every_layout_give_the_bits_of_contiguous_ones) {
  for (DType dtype : {DType::f32, DType::f64})
    for (std::int64_t n : {1, 3, 17, 64, 130}) {
      const Shape shape{3, 5, n};
      for (const Shape& other : {shape, Shape{n}, Shape{5, 1}, Shape{3, 1, n}, Shape{}, Shape{1, 5, 1}})
        for (const Tensor& x : layouts(random_tensor(shape, dtype)))
          for (const Tensor& y : layouts(random_tensor(other, dtype, -1, 1, 1))) {
            const Tensor spread = y.expand(shape).contiguous(), packed = x.contiguous();
            const std::string what = x.strides().str() + " and " + y.strides().str() + " of " + y.describe();
            BOOST_TEST(same_bits(map(Multiply{}, x, y), map(Multiply{}, packed, spread)), what);
            BOOST_TEST(same_bits(less(x, y), less(packed, spread)), what);
          }
    }
}

BOOST_AUTO_TEST_CASE(a_large_transposition_in_place) {
  Tensor a = numbered(300, DType::f32);
  a.copy_from(a.transpose(0, 1));
  std::vector<double> expected;
  for (int i = 0; i < 300; ++i)
    for (int j = 0; j < 300; ++j) expected.push_back(j * 300 + i);
  check_close(a, expected, 0, "transposed");
}

BOOST_AUTO_TEST_CASE(a_formula_writes_over_what_it_reads) {
  for (const Views& views : all_views) {
    auto [target, source] = views.of(numbered(5, DType::f64));
    std::vector<double> expected = map(Add{}, target, source).to_vector<double>();
    map_into(target, Add{}, target, source);
    BOOST_TEST_CONTEXT(views.name) BOOST_TEST(target.to_vector<double>() == expected, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_formula_writes_only_where_its_operands_fit) {
  Tensor out = numbered(3, DType::f64), two = Tensor::arange(2, DType::f64, test_device()),
         rows = here(Tensor::zeros({2, 3, 3}, DType::f64));
  for (const Tensor* x : {&two, &rows})
    BOOST_TEST(message_of([&] { map_into(out, Add{}, out, *x); }) ==
               fmt::format("add: an operand, {}, does not broadcast to the result, f64 [3, 3]", *x));
}

BOOST_AUTO_TEST_CASE(nothing_is_written_into_an_expanded_view) {
  Generator generator(1);
  const Tensor column = random_tensor({3, 1}, DType::f32), x = random_tensor({3, 4}, DType::f32);
  const Tensor index = random_integers({3}, 3);
  Tensor wide = column.expand({3, 4});
  const Tensor one = here(Tensor::full({}, 1));
  const std::vector<std::pair<const char*, std::function<void()>>> uses = {
      {"copy_from", [&] { wide.copy_from(x); }},
      {"copy_from", [&] { wide.copy_from(x.to(DType::f64)); }},
      {"copy_from", [&] { wide.copy_from(x.to(Device::cpu)); }},
      {"copy_from", [&] { fill_normal(wide, generator); }},
      {"exp", [&] { map_into(wide, Exp{}, x); }},
      {"add", [&] { map_into(wide, Add{}, wide, x); }},
      {"sgd_step",
       [&] {
         map_several(formula::SgdUpdate{0.1, 0}, {&wide}, {&x, &x, &one});
       }},
      {"gather_rows", [&] { gather_rows_into(x, index, wide); }},
      {"scatter_add_rows", [&] { scatter_add_rows(wide, index, x); }},
  };
  const std::vector<double> before = column.to_vector<double>();
  for (const auto& [what, use] : uses)
    BOOST_TEST(message_of(use) == fmt::format("{}: the result is an expanded view, [3, 4] with stride 0 in dimension "
                                              "1; each element needs memory of its own",
                                              what));
  BOOST_TEST(column.to_vector<double>() == before);
  column.expand({3, 1}).copy_from(x.slice(1, 0, 1));  // nothing is expanded
  column.expand({3, 0}).copy_from(x.slice(1, 0, 0));  // nothing is written
  BOOST_TEST(column.to_vector<double>() == x.select(1, 0).to_vector<double>());
}

BOOST_AUTO_TEST_CASE(an_undefined_tensor_says_so) {
  Tensor none, x = here(Tensor::zeros({}));
  const std::vector<std::function<void()>> uses = {
      [&] { none.fill(1); },
      [&] { none.copy_from(x); },
      [&] { x.copy_from(none); },
      [&] { none.clone(); },
      [&] { none.data<float>(); },
      [&] { none.to_vector<double>(); },
      [&] { none.mutable_data<float>(); },
      [&] { none.item(); },
  };
  for (const auto& use : uses) {
    std::string message = message_of(use);
    BOOST_TEST(message.find("undefined") != std::string::npos, message);
  }
}

// The system promises memory that nobody has, and kills who writes into it. A GPU refuses by itself.
BOOST_AUTO_TEST_CASE(more_memory_than_the_machine_has_is_refused, *cpu_only()) {
  const MachineMemory memory = machine_memory();
  BOOST_REQUIRE(memory.total > 0u);
  BOOST_TEST(memory.available <= memory.total);
  constexpr std::size_t gibibyte = std::size_t{1} << 30;  // more than others give back until it is asked for
  for (std::size_t bytes : {memory.available + gibibyte, memory.total + gibibyte}) {
    std::string message = message_of([&] { Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8); });
    BOOST_TEST(message.starts_with("cpu: out of memory: asked for "), message);
  }
  BOOST_TEST(message_of([] { Tensor::zeros({1 << 20}); }) == "no error");
}

BOOST_AUTO_TEST_CASE(an_allocation_that_is_refused_leaves_no_trace_in_the_statistics) {
  reset_peak();
  const AllocatorStatistics before = allocator_statistics();
  BOOST_TEST(message_of([] { Tensor::empty({std::int64_t{1} << 42}, DType::u8); }) != "no error");
  const AllocatorStatistics after = allocator_statistics();
  BOOST_TEST(after.peak_bytes == before.peak_bytes);
  BOOST_TEST(after.bytes_in_use == before.bytes_in_use);
  BOOST_TEST(after.allocations == before.allocations);
}

namespace {

constexpr std::int64_t mebibyte = 1 << 20;

/// The bytes that tensors and the cache of the CPU have together.
std::size_t bytes_held() {
  const AllocatorStatistics now = allocator_statistics();
  return now.bytes_in_use + now.bytes_cached;
}

}  // namespace

BOOST_AUTO_TEST_CASE(tensors_of_growing_sizes_one_after_the_other_take_the_memory_of_the_largest, *cpu_only()) {
  release_cache();
  reset_peak();
  const std::size_t held = bytes_held(), used = allocator_statistics().bytes_in_use;
  for (std::int64_t size = 1; size <= 64; ++size) Tensor::zeros({size * mebibyte - 100}, DType::u8);
  BOOST_TEST(allocator_statistics().peak_bytes - used <= 64u * mebibyte);
  BOOST_TEST(bytes_held() - held <= 66u * mebibyte);
}

BOOST_AUTO_TEST_CASE(freed_neighbours_become_one_block, *cpu_only()) {
  release_cache();
  std::vector<Tensor> parts;
  for (std::int64_t size : {3, 5, 2, 7, 4}) parts.push_back(Tensor::zeros({size * mebibyte}, DType::u8));
  const std::uint64_t taken = allocator_statistics().system_allocations;
  for (std::size_t k : {1u, 3u, 2u}) parts[k] = Tensor();
  Tensor all = Tensor::zeros({14 * mebibyte}, DType::u8);
  BOOST_TEST(allocator_statistics().system_allocations == taken);
  all.fill(7);
  for (std::size_t k : {0u, 4u}) BOOST_TEST(sum(parts[k]).item() == 0);
}

BOOST_AUTO_TEST_CASE(tensors_of_any_sizes_share_no_memory, *cpu_only()) {
  release_cache();
  std::vector<Tensor> alive(24);
  const std::size_t held = bytes_held();
  std::mt19937 random(5);
  auto is_constant = [](const Tensor& x) {
    const float* numbers = x.data<float>();
    return std::all_of(numbers, numbers + x.elements(), [&](float number) { return number == numbers[0]; });
  };
  for (int k = 0; k < 400; ++k) {
    Tensor& one = alive[random() % alive.size()];
    if (one.defined()) BOOST_REQUIRE(is_constant(one));
    one = Tensor();
    one = Tensor::full({1 + static_cast<std::int64_t>(random() % (3 * mebibyte / 4))}, k);
  }
  for (const Tensor& one : alive) BOOST_TEST(is_constant(one));
  alive.clear();
  release_cache();
  BOOST_TEST(bytes_held() <= held);
}

BOOST_AUTO_TEST_CASE(a_size_that_others_of_zero_do_not_determine_is_refused) {
  const Tensor none = Tensor::empty({0, 4});
  BOOST_TEST(message_of([&] {
               none.reshape({0, -1});
             }) ==
             "reshape: [0, 4] to [0, -1]: the other sizes multiply to 0, so -1 cannot be determined; write the size");
  BOOST_TEST((none.reshape({-1, 2}).shape() == Shape{0, 2}));
  BOOST_TEST((none.reshape({0, 7}).shape() == Shape{0, 7}));
}

BOOST_AUTO_TEST_CASE(a_size_that_a_shape_does_not_have_is_refused) {
  const Shape none, two{3, 4};
  Shape changed{3, 4};
  BOOST_TEST(message_of([&] { none[-1]; }) == "Shape: dimension -1 is out of range for [], which has no dimensions");
  BOOST_TEST(message_of([&] { changed[2] = 1; }) == "Shape: dimension 2 is out of range for [3, 4]; use -2 to 1");
  for (int dim : {-9, -3, 8}) BOOST_TEST(message_of([&] { two[dim]; }) != "no error");
  BOOST_TEST((two[-2] == 3 && two[1] == 4));
}

BOOST_AUTO_TEST_CASE(an_order_in_memory_names_each_dimension_once) {
  const std::vector<int> twice{0, 0}, outside{0, 2}, from_the_end{-1, 0};
  BOOST_TEST(message_of([&] {
               Tensor::empty({2, 3}, twice, DType::f32, test_device());
             }) == "Tensor::empty: the order in memory must name each dimension of [2, 3] once");
  BOOST_TEST(message_of([&] {
               Tensor::empty({2, 3}, outside, DType::f32, test_device());
             }) == "Tensor::empty: dimension 2 is out of range for [2, 3]; use -2 to 1");
  BOOST_TEST(Tensor::empty({2, 3}, from_the_end, DType::f32, test_device()).strides() == Shape({1, 2}));
}

BOOST_AUTO_TEST_CASE(more_dimensions_than_a_tensor_can_have_are_refused_with_a_remedy) {
  const Tensor most = Tensor::zeros({1, 2, 1, 1, 1, 1, 1, 3});
  BOOST_TEST(
      message_of([&] { most.unsqueeze(0); }) ==
      "Shape: [1, 2, 1, 1, 1, 1, 1, 3] has 8 dimensions, the most a tensor can have; merge some with reshape before "
      "adding one of 1");
  BOOST_TEST(message_of([&] {
               most.reshape({1, 1, 2, 1, 1, 1, 1, 1, 3});
             }) ==
             "Shape: [1, 1, 2, 1, 1, 1, 1, 1, 3] has 9 dimensions, a tensor at most 8; merge some of them, as reshape "
             "does");
}

BOOST_AUTO_TEST_CASE(shapes_whose_sizes_multiply_to_too_much_are_refused) {
  const std::int64_t huge = std::int64_t{1} << 62;
  const Tensor none = Tensor::zeros({0}), one = Tensor::zeros({1});
  const std::string too_many = "multiply to more than 2^60";
  for (auto& [name, act] : std::vector<std::pair<const char*, std::function<void()>>>{
           {"reshape",
            [&] {
              none.reshape({huge, 16});
            }},
           {"reshape",
            [&] {
              none.reshape({huge, 16, 0});
            }},
           {"reshape",
            [&] {
              none.reshape({huge, 4, -1});
            }},
           {"expand",
            [&] {
              one.expand({huge, 8});
            }},
           {"expand", [&] { one.expand({huge}); }},
           {"expand",
            [&] {
              one.unsqueeze(0).expand({1 << 30, std::int64_t{1} << 34});
            }},
           {"Tensor",
            [&] {
              Tensor::zeros({huge, 4});
            }},
           {"Tensor",
            [&] {
              Tensor::zeros({huge, 4, 0});
            }},
           {"Tensor", [&] { Tensor::zeros({0, huge, 16}); }},
           {"Tensor", [&] { Tensor::from(std::vector<float>(), {huge, 16}); }},
           {"Tensor", [&] { Tensor::arange(huge); }}}) {
    const std::string message = message_of(act);
    BOOST_TEST((message.starts_with(std::string(name) + ": ") && message.find(too_many) != std::string::npos), message);
  }
  BOOST_TEST(message_of([&] { one.expand({-3}); }) == "expand: a size cannot be negative: [-3]");
  BOOST_TEST(message_of([&] {
               Tensor::zeros({1 << 30, 1 << 20});
             }) == "Tensor: f32 [1073741824, 1048576] is too large for any machine");
  BOOST_TEST(message_of([&] {
               Tensor::arange(2, DType::i64, Device::cpu, std::numeric_limits<std::int64_t>::max());
             }) == "arange: 2 numbers from 9223372036854775807 on exceed i64");
  BOOST_TEST(one.expand({std::int64_t{1} << 40}).elements() == std::int64_t{1} << 40);
}

BOOST_AUTO_TEST_CASE(a_borrowed_tensor_is_the_memory_of_its_owner, *cpu_only()) {
  auto owner = std::make_shared<std::vector<double>>(std::vector<double>{3, -1, 4, 1.5, 9, -2});
  const std::weak_ptr<const void> memory = owner;
  const std::vector<double>& numbers = *owner;
  {
    const std::size_t before = allocator_statistics().bytes_in_use;
    Tensor x = Tensor::borrowed(reinterpret_cast<std::byte*>(owner->data()), {3, 2}, {1, 3}, DType::f64, owner);
    BOOST_TEST(allocator_statistics().bytes_in_use == before);
    BOOST_TEST(x.to_vector<double>() == (std::vector<double>{3, 1.5, -1, 9, 4, -2}), boost::test_tools::per_element());
    x.slice(0, 1, 2).fill(7);
    BOOST_TEST(numbers == (std::vector<double>{3, 7, 4, 1.5, 7, -2}), boost::test_tools::per_element());
    owner.reset();
    x = x.select(1, 1);  // a view keeps the memory, too
    BOOST_TEST(x.to_vector<double>() == (std::vector<double>{1.5, 7, -2}), boost::test_tools::per_element());
    BOOST_TEST(!memory.expired());
  }
  BOOST_TEST(memory.expired());
}

BOOST_AUTO_TEST_SUITE_END()
