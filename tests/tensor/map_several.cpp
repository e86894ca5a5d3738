#include "nn/optimizer_formulas.h"
#include "tensor/map.h"
#include "tests/refusal.h"
#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

const formula::SgdUpdate plain_step{1, 0};  // p − scale · g
const formula::AdamUpdate adam_step{
    .rate = 0.1, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-9, .decay = 0.1, .keep = 0.99, .deviation_scale = 7};

Tensor number(double x, DType dtype = DType::f32) { return here(Tensor::full({}, x, dtype)); }

/// The operands of one step of Adam.
struct Slot {
  Tensor parameter, gradient, mean = parameter.clone(),
                              square = Tensor::full(mean.shape(), 0.3, mean.dtype(), mean.device());
};

void step(std::span<Slot> slots) {
  const Tensor scale = number(0.5), precise = number(0.5, DType::f64);
  std::vector<SeveralOperands<formula::AdamUpdate>> groups;
  for (auto& [p, g, m, v] : slots)
    groups.push_back({{&p, &m, &v}, {&g, &p, &m, &v, p.dtype() == DType::f64 ? &precise : &scale}});
  map_several(adam_step, std::move(groups));
}

std::vector<Slot> slots_of_many_layouts() {
  std::vector<Slot> all;
  const Tensor storage = random_tensor({1000}, DType::f32);
  for (int k = 0; k < 200; ++k) {
    // Every third parameter is not aligned, every fifth gradient is not contiguous, every seventh pair is f64.
    const DType dtype = k % 7 == 0 ? DType::f64 : DType::f32;
    const Tensor p = k % 3 == 0 && dtype == DType::f32
                         ? storage.slice(0, 5 * k, 5 * k + 4)
                         : random_tensor({k % 4 + 1, 5}, dtype, -1, 1, static_cast<unsigned>(k));
    const bool is_transposed = k % 5 == 0 && p.rank() == 2;
    Tensor g = random_tensor(is_transposed ? Shape{5, p.size(0)} : p.shape(), dtype, -1, 1, 7);
    all.push_back({p, is_transposed ? g.transpose(0, 1) : g});
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(several_results)

BOOST_AUTO_TEST_CASE(layouts_of_results_and_inputs_may_differ) {
  const Tensor values = random_tensor({17, 5}, DType::f32), one = number(1);
  Tensor column_major = Tensor::empty({17, 5}, std::vector<int>{1, 0}, DType::f32, test_device());
  for (const Tensor& gradient : layouts(random_tensor({17, 5}, DType::f32, -1, 1, 1))) {
    std::vector<double> expected = values.to_vector<double>(), g = gradient.to_vector<double>();
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] -= g[i];
    map_several(plain_step, {&column_major}, {&gradient, &values, &one});
    check_close(column_major, expected, 1e-6, gradient.strides().str());
  }
}

BOOST_AUTO_TEST_CASE(many_groups_are_computed_as_each_is_alone) {
  std::vector<Slot> together = slots_of_many_layouts(), alone = slots_of_many_layouts();
  step(together);
  for (Slot& slot : alone) step(std::span(&slot, 1));
  for (std::size_t k = 0; k < alone.size(); ++k) {
    BOOST_TEST(same_bits(together[k].parameter, alone[k].parameter), "parameter " << k);
    BOOST_TEST(same_bits(together[k].square, alone[k].square), "square " << k);
  }
}

BOOST_AUTO_TEST_CASE(an_input_may_share_the_memory_of_a_result) {
  Tensor p = here(Tensor::of({1, 2, 3, 4}, {2, 2}, DType::f32));
  const Tensor transposed = p.transpose(0, 1), one = number(1);
  map_several(plain_step, {&p}, {&transposed, &p, &one});
  BOOST_TEST(p.to_vector<double>() == (std::vector<double>{0, -1, 1, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(results_count_as_changed) {
  std::vector<Slot> slots = slots_of_many_layouts();
  const auto parameter = slots[1].parameter.version(), mean = slots[1].mean.version(),
             gradient = slots[1].gradient.version();
  step(slots);
  BOOST_TEST(slots[1].parameter.version() > parameter);
  BOOST_TEST(slots[1].mean.version() > mean);
  BOOST_TEST(slots[1].gradient.version() == gradient);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_named) {
  const std::string on = fmt::format(" on {}", name(test_device()));
  const auto refusal = [](Slot slot) { return message_of([&] { step(std::span(&slot, 1)); }); };
  const Tensor p = random_tensor({130}, DType::f32), g = random_tensor({130}, DType::f32);
  BOOST_TEST(refusal({p, g, random_tensor({7}, DType::f32)}) ==
             "adam_step: an operand, f32 [7], does not broadcast to the result, f32 [130]");
  BOOST_TEST(refusal({p, g, number(1).expand({1})}) ==
             "adam_step: the results are f32 [130] and f32 [1]; they must agree in shape");
  BOOST_TEST(refusal({p, random_tensor({1}, DType::f32)}) ==
             "adam_step: operand 1 is f32 [1], the result f32 [130]; they must agree in shape");
  BOOST_TEST(refusal({p, g.to(DType::f64)}) ==
             "adam_step: the operands differ: f32 [130]" + on + " and f64 [130]" + on + "; cast or move one of them");
  BOOST_TEST(refusal({p, {}}) == "adam_step: operand 1 is undefined");
  Tensor out = p.clone();
  for (const Tensor& scale : {g, number(1).to(DType::f64), Tensor()})
    BOOST_TEST(message_of([&] {
                 map_several(plain_step, {&out}, {&g, &p, &scale});
               }) == fmt::format("sgd_step: operand 3 is {}; it must be one number, f32{}", scale, on));
  const Tensor one_in_a_row = number(1).reshape({1});
  Tensor scalar = number(3);
  map_several(plain_step, {&scalar}, {&scalar, &scalar, &one_in_a_row});
  BOOST_TEST(scalar.item() == 0);
}

BOOST_AUTO_TEST_CASE(threads_do_not_matter_and_repetition_allocates_nothing) {
  auto compute = [] {
    std::vector<Slot> slots = slots_of_many_layouts();
    slots.push_back({random_tensor({by_device(40000, 4000)}, DType::f32),
                     random_tensor({by_device(40000, 4000)}, DType::f32, -1, 1, 1)});
    for (int k = 1; k < 3; ++k) step(slots);
    std::vector<Tensor> results;
    for (Slot& slot : slots) results.push_back(slot.parameter);
    return results;
  };
  check_threads_do_not_matter(compute);
  check_steady(compute);
}

BOOST_AUTO_TEST_SUITE_END()
