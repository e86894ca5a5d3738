#include "autograd/operations/gather.h"

#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::vector<double> naive_rows(const Tensor& table, const Tensor& index) {
  std::vector<double> values = table.to_vector<double>(), out;
  for (std::int64_t row : index.to_vector<std::int64_t>())
    for (std::int64_t d = 0; d < table.size(1); ++d) out.push_back(values[at(row * table.size(1) + d)]);
  return out;
}

std::vector<double> naive_scatter(const Tensor& table, const Tensor& index, const Tensor& rows) {
  std::vector<double> out = table.to_vector<double>(), values = rows.to_vector<double>();
  std::int64_t next = 0;
  for (std::int64_t row : index.to_vector<std::int64_t>())
    for (std::int64_t d = 0; d < table.size(1); ++d) out[at(row * table.size(1) + d)] += values[at(next++)];
  return out;
}

Shape joined(Shape leading, std::int64_t last) {
  leading[-1] = last;
  return leading;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gather)

BOOST_AUTO_TEST_CASE(rows_are_picked_from_any_table_by_any_index) {
  for (DType dtype : {DType::f32, DType::f64, DType::i32})
    for (const Tensor& table : layouts(random_tensor({17, 5}, dtype, -100, 100)))
      for (DType index_type : {DType::i32, DType::i64})
        for (const Tensor& index : layouts(random_integers({3, 13}, 17, index_type))) {
          Tensor out = gather_rows(table, index);
          BOOST_TEST(out.shape().str() == "[3, 13, 5]");
          check_close(out, naive_rows(table, index), 0, table.describe());
        }
}

BOOST_AUTO_TEST_CASE(rows_of_every_type_are_picked) {
  Tensor index = random_integers({13}, 7);
  for (DType dtype : {DType::bf16, DType::i64, DType::u8, DType::boolean}) {
    Tensor table = random_integers({7, 3}, dtype == DType::boolean ? 2 : 100, dtype);
    check_close(gather_rows(table, index), naive_rows(table, index), 0, table.describe());
  }
  BOOST_TEST(gather_rows(here(Tensor::zeros({7, 0})), index).shape().str() == "[13, 0]");
}

BOOST_AUTO_TEST_CASE(picked_rows_go_into_any_view) {
  Tensor table = random_tensor({7, 5}), index = random_integers({3, 4}, 7);
  for (const Tensor& out : layouts(Tensor::zeros({3, 4, 5}, DType::f64, test_device()))) {
    gather_rows_into(table, index, out);
    check_close(out, naive_rows(table, index), 0, out.strides().str());
  }
}

BOOST_AUTO_TEST_CASE(scattered_rows_add_up) {
  for (std::int64_t width : {1, 3, 17, 130})
    for (DType dtype : {DType::f32, DType::f64}) {
      Tensor index = random_integers({3, 13}, 7);
      for (const Tensor& rows : layouts(random_tensor({3, 13, width}, dtype)))
        for (Tensor table : layouts(random_tensor({7, width}, dtype))) {
          std::vector<double> expected = naive_scatter(table, index, rows);
          scatter_add_rows(table, index, rows);
          check_close(table, expected, tolerance_of(dtype), rows.describe());
        }
    }
}

BOOST_AUTO_TEST_CASE(one_row_may_be_added_to_many_times) {
  for (std::int64_t table_rows : {1, 3, 50})
    for (std::int64_t count : {31, 32, 33, 130, 513}) {
      Tensor index = random_integers({count}, std::min<std::int64_t>(table_rows, 7)), rows = random_tensor({count, 17});
      Tensor table = random_tensor({table_rows, 17});
      std::vector<double> expected = naive_scatter(table, index, rows);
      scatter_add_rows(table, index, rows);
      check_close(table, expected, 1e-12, fmt::format("{} rows into {}", count, table_rows));
    }
}

BOOST_AUTO_TEST_CASE(rows_of_every_width_and_place_are_picked) {
  Tensor index = random_integers({19}, 7);
  for (DType dtype : {DType::f32, DType::u8, DType::bf16})
    for (std::int64_t width : {1, 2, 4, 8, 16, 17, 24})
      for (std::int64_t first : {0, 1, 4}) {
        Tensor table = random_integers({7, width + first}, 100, dtype).slice(1, first, width + first);
        check_close(gather_rows(table, index), naive_rows(table, index), 0, table.describe());
      }
}

BOOST_AUTO_TEST_CASE(a_broadcast_row_is_added_everywhere) {
  Tensor table = here(Tensor::zeros({4, 3}, DType::f64)), row = random_tensor({3}).expand({5, 3});
  Tensor index = random_integers({5}, 4);
  std::vector<double> expected = naive_scatter(table, index, row);
  scatter_add_rows(table, index, row);
  check_close(table, expected, 1e-12, "broadcast");
}

BOOST_AUTO_TEST_CASE(rows_may_be_the_tables_own) {
  Tensor index = here(Tensor::of({1, 2}, {2}, DType::i64)), table = random_tensor({4, 3}),
         all = here(Tensor::of({3, 0, 0, 1}, {4}, DType::i64));
  std::vector<double> expected = naive_scatter(table, index, table.slice(0, 0, 2));
  scatter_add_rows(table, index, table.slice(0, 0, 2));
  check_close(table, expected, 0, "a part");
  expected = naive_scatter(table, all, table);
  scatter_add_rows(table, all, table);
  check_close(table, expected, 0, "all");
}

BOOST_AUTO_TEST_CASE(scattering_counts_as_a_change) {
  Tensor table = here(Tensor::zeros({4, 3}));
  auto before = table.version();
  scatter_add_rows(table, random_integers({2}, 4), here(Tensor::zeros({2, 3})));
  BOOST_TEST(table.version() > before);
}

BOOST_AUTO_TEST_CASE(elements_are_picked_along_rows_by_a_broadcast_index) {
  for (DType dtype : {DType::f32, DType::f64})
    for (const Tensor& x : layouts(random_tensor({2, 3, 5, 9}, dtype)))
      for (const Tensor& index : {random_integers({5, 7}, 9), random_integers({7}, 9), random_integers({3, 1, 7}, 9),
                                  random_integers({2, 3, 5, 7}, 9, DType::i32)}) {
        Shape shape{2, 3, 5, 7};
        std::vector<double> source = x.to_vector<double>(), expected;
        std::vector<std::int64_t> picked = index.expand(shape).to_vector<std::int64_t>();
        for (std::int64_t i = 0; i < shape.elements(); ++i) expected.push_back(source[at(i / 7 * 9 + picked[at(i)])]);
        check_close(gather_last(x, index), expected, 0, index.describe());
      }
}

BOOST_AUTO_TEST_CASE(elements_of_every_type_are_picked_by_any_index) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8, DType::boolean}) {
    Tensor x = random_integers({3, 17}, dtype == DType::boolean ? 2 : 100, dtype);
    std::vector<double> source = x.to_vector<double>();
    for (auto [n, index_dtype] : {std::pair<std::int64_t, DType>(1, DType::i64),
                                  {3, DType::i32},
                                  {32, DType::i32},
                                  {33, DType::i32},
                                  {32, DType::i64},
                                  {33, DType::i64}}) {
      Tensor picked = random_integers({3, n}, 17, index_dtype);
      std::vector<std::int64_t> places = picked.to_vector<std::int64_t>();
      std::vector<double> expected;
      for (std::int64_t i = 0; i < 3 * n; ++i) expected.push_back(source[at(i / n * 17 + places[at(i)])]);
      for (const Tensor& index : layouts(picked)) check_close(gather_last(x, index), expected, 0, x.describe());
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_of_odd_sizes_are_scattered_to_odd_sizes) {
  for (DType dtype : {DType::f32, DType::f64})
    for (std::int64_t n : {1, 31, 32, 33, 130})
      for (std::int64_t size : {1, 3, 512, 1300}) {
        Tensor x = random_tensor({9, n}, dtype), places = random_integers({9, n}, size, DType::i32);
        std::vector<double> expected(at(9 * size), 0), source = x.to_vector<double>();
        std::vector<std::int64_t> to = places.to_vector<std::int64_t>();
        for (std::int64_t i = 0; i < 9 * n; ++i) expected[at(i / n * size + to[at(i)])] += source[at(i)];
        for (const Tensor& index : layouts(places))
          check_close(scatter_add_last(x, index, size), expected, tolerance_of(dtype), index.strides().str());
      }
}

BOOST_AUTO_TEST_CASE(scatter_last_is_the_adjoint_of_gather_last) {
  for (DType dtype : {DType::f32, DType::f64})
    for (const Tensor& x : layouts(random_tensor({2, 3, 5, 17}, dtype)))
      for (const Tensor& index : {random_integers({5, 17}, 9), random_integers({2, 1, 1, 17}, 9, DType::i32)}) {
        Shape shape = joined(x.shape(), 9);
        std::vector<double> expected(at(shape.elements()), 0), source = x.to_vector<double>();
        std::vector<std::int64_t> picked = index.expand(x.shape()).to_vector<std::int64_t>();
        for (std::int64_t i = 0; i < x.elements(); ++i) expected[at(i / 17 * 9 + picked[at(i)])] += source[at(i)];
        check_close(scatter_add_last(x, index, 9), expected, tolerance_of(dtype), index.describe());
      }
}

BOOST_AUTO_TEST_CASE(long_runs_of_one_index_do_not_drift) {
  const std::int64_t n = by_device(1 << 18, 1 << 12);
  Tensor x = random_tensor({1, n}, DType::f32, 0, 1), index = here(Tensor::zeros({n}, DType::i32));
  double exact = 0;
  for (double value : x.to_vector<double>()) exact += value;
  check_close(scatter_add_last(x, index, 1), {exact}, 1.2e-7, "one bucket");
}

BOOST_AUTO_TEST_CASE(empty_indices_pick_nothing) {
  Tensor none = here(Tensor::empty({0}, DType::i64)), table = random_tensor({4, 3});
  std::vector<double> before = table.to_vector<double>();
  BOOST_TEST(gather_rows(table, none).shape().str() == "[0, 3]");
  scatter_add_rows(table, none, here(Tensor::empty({0, 3}, DType::f64)));
  check_close(table, before, 0, "nothing added");
}

BOOST_AUTO_TEST_CASE(empty_indices_along_rows_pick_nothing) {
  Tensor none = here(Tensor::empty({0}, DType::i64));
  BOOST_TEST(gather_last(random_tensor({4, 3}), none).shape().str() == "[4, 0]");
  check_close(scatter_add_last(here(Tensor::empty({2, 0})), none, 3), {0, 0, 0, 0, 0, 0}, 0, "nothing");
}

BOOST_AUTO_TEST_CASE(an_index_out_of_range_is_named) {
  Tensor table = random_tensor({4, 3}), index = here(Tensor::of({0, 1, 2, 3, 4, -1}, {2, 3}, DType::i64));
  // A device other than the CPU reports it when the host waits, here for the values.
  check_fails_with([&] { gather_rows(table, index).to(Device::cpu); },
                   "gather_rows: the index at [1, 1] of [2, 3] is 4; it must be in 0 to 3");
  check_fails_with(
      [&] {
        scatter_add_rows(table, index, here(Tensor::zeros({2, 3, 3}, DType::f64)));
        table.to(Device::cpu);
      },
      "scatter_add_rows: the index at [1, 1]");
  check_fails_with(
      [&] {
        gather_last(table, here(Tensor::of({0, -2}, {2}, DType::i32))).to(Device::cpu);
      },
      "gather_last: the index at [1] of [2] is -2; it must be in 0 to 2");
  check_fails_with(
      [&] {
        scatter_add_last(table, here(Tensor::of({0, 5, 4}, {3}, DType::i32)), 5).to(Device::cpu);
      },
      "scatter_add_last: the index at [1] of [3] is 5; it must be in 0 to 4");
  check_fails_with(
      [&] {
        gather_rows_into(table, index, here(Tensor::empty({3, 2, 3}, DType::f64)));
      },
      fmt::format("gather_rows: the result, f64 [3, 2, 3] on {0}, must be f64 [..., D], beside the table "
                  "any [N, D], here f64 [4, 3] on {0}",
                  name(test_device())));
  check_fails_with([&] { gather_rows(table, here(Tensor::zeros({2}))); },
                   "gather_rows: an index is i32 or i64, not f32");
  check_fails_with(
      [&] {
        scatter_add_rows(table, index, here(Tensor::zeros({2, 3})));
      },
      fmt::format(
          "scatter_add_rows: the rows, f32 [2, 3] on {0}, must be f64 [..., D], beside the table f32 or f64 [N, D], "
          "here f64 [4, 3] on {0}",
          name(test_device())));
}

BOOST_AUTO_TEST_CASE(indices_are_checked_without_waiting, *not_on_the_cpu()) {
  Tensor table = here(Tensor::of({1, 2, 3, 4, 5, 6}, {2, 3})), rows = table.clone();
  Tensor index = here(Tensor::of({1, 3, -1, 0}, {2, 2}, DType::i64)),
         places = here(Tensor::of({-1, 1}, {2}, DType::i32));
  const std::uint64_t before = kernels(test_device()).synchronizations();
  Tensor elements = gather_last(table, index), picked = gather_rows(table, places),
         sums = scatter_add_last(elements, places, 2);
  scatter_add_rows(table, places, rows);
  BOOST_TEST(kernels(test_device()).synchronizations() == before);
  check_fails_with([&] { elements.to(Device::cpu); },
                   "gather_last: the index at [0, 1] of [2, 2] is 3; it must be in 0 to 2");
  // The first error of all is reported once. What was gathered from outside is 0, and nothing was scattered there.
  check_close(elements, {2, 0, 0, 4}, 0, "elements");
  check_close(picked, {0, 0, 0, 4, 5, 6}, 0, "rows");
  check_close(sums, {0, 0, 0, 4}, 0, "sums of elements");
  check_close(table, {1, 2, 3, 8, 10, 12}, 0, "sums of rows");
}

BOOST_AUTO_TEST_CASE(threads_do_not_matter_for_rows_and_repetition_allocates_nothing) {
  const std::int64_t count = by_device(4096, 600);
  Tensor rows = random_tensor({count, 130}, DType::f32), index = random_integers({count}, 50);
  auto compute = [&] {
    Tensor table = here(Tensor::zeros({50, 130}));
    scatter_add_rows(table, index, rows);
    return std::vector<Tensor>{table, gather_rows(table, index)};
  };
  check_threads_do_not_matter(compute);
  check_steady(compute);
}

BOOST_AUTO_TEST_CASE(threads_do_not_matter_along_rows_and_repetition_allocates_nothing) {
  Tensor x = random_tensor({by_device(8, 1), 4, 33, 17}, DType::f32), relative = random_integers({33, 130}, 17);
  auto compute = [&] {
    Tensor picked = gather_last(x, relative);
    return std::vector<Tensor>{picked, scatter_add_last(picked, relative, 17)};
  };
  check_threads_do_not_matter(compute);
  check_steady(compute);
}

BOOST_AUTO_TEST_CASE(many_equal_indices_lose_no_digits) {
  const std::int64_t count = by_device(3'000'000, 20'000), width = 3;
  const double x = here(Tensor::full({1}, 0.1)).item(), expected = x * static_cast<double>(count / 2);
  const Tensor index = changed(here(Tensor::zeros({count}, DType::i32)), [](std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 4 : static_cast<double>(i % 4);
  });
  Tensor table = here(Tensor::zeros({5, width}));
  scatter_add_rows(table, index, here(Tensor::full({1}, 0.1)).expand({count, width}));
  for (double total : table.select(0, 4).to_vector<double>()) BOOST_TEST(std::abs(total / expected - 1) < 1e-6);
  for (int row : {1, 3}) BOOST_TEST(std::abs(table.select(0, row).to_vector<double>()[0] / expected - 0.5) < 1e-6);
  BOOST_TEST(table.select(0, 2).to_vector<double>()[0] == 0);
  const Tensor along = scatter_add_last(here(Tensor::full({1}, 0.1)).expand({2, count}), index, 5);
  for (double total : along.select(1, 4).to_vector<double>()) BOOST_TEST(std::abs(total / expected - 1) < 1e-6);
}

// Each address for writing counts one change, in an atomic number: one for each row took longer than the rows.
BOOST_AUTO_TEST_CASE(picking_many_rows_is_one_change) {
  Tensor out = here(Tensor::zeros({300, 7}));
  const std::uint64_t before = out.version();
  gather_rows_into(random_tensor({11, 7}, DType::f32), random_integers({300}, 11), out);
  BOOST_TEST(out.version() == before + 1);
}

BOOST_AUTO_TEST_CASE(nothing_can_be_picked_from_an_empty_table) {
  const Tensor index = here(Tensor::zeros({1}, DType::i32)), rows = here(Tensor::zeros({0, 3}));
  auto refused = [](auto act) {
    auto act_and_wait = [&] {
      act();
      here(Tensor::zeros({1})).item();
    };
    check_fails_with(act_and_wait, "the index at [0] of [1] is 0; there is nothing to choose from");
  };
  refused([&] { gather_rows(rows, index); });
  refused([&] { gather_last(here(Tensor::zeros({0})), index); });
  refused([&] { scatter_add_last(here(Tensor::zeros({1})), index, 0); });
  refused([&] {
    Tensor table = rows;
    scatter_add_rows(table, index, here(Tensor::zeros({1, 3})));
  });
  BOOST_TEST(gather_rows(rows, here(Tensor::zeros({0}, DType::i32))).shape().str() == "[0, 3]");
}

BOOST_AUTO_TEST_SUITE_END()
