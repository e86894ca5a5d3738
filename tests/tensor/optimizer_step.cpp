#include "tensor/optimizer_step.h"

#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

const std::vector<Shape> parameter_shapes{{17, 130}, {1}, {130}, {3, 1, 17}, {0, 4}, {by_device(40000, 4000)}, {}};

Tensor scalar(double x) { return here(Tensor::full({}, x, DType::f64)); }

/// The elements of one parameter and of its state, in f64.
struct NaiveSlot {
  std::vector<double> parameter, gradient, mean, square;
};

void naive_adam(NaiveSlot& slot, const AdamOptions& o, double rate, int step, double scale) {
  for (std::size_t i = 0; i < slot.parameter.size(); ++i) {
    double &p = slot.parameter[i], &m = slot.mean[i], &v = slot.square[i], g = slot.gradient[i] * scale;
    if (o.decoupled)
      p *= 1 - rate * o.weight_decay;
    else
      g += o.weight_decay * p;
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    double m_hat = m / (1 - std::pow(o.beta1, step)), v_hat = v / (1 - std::pow(o.beta2, step));
    p -= rate * m_hat / (std::sqrt(v_hat) + o.epsilon);
  }
}

void naive_sgd(NaiveSlot& slot, const SgdOptions& o, double rate, double scale) {
  for (std::size_t i = 0; i < slot.parameter.size(); ++i) {
    double g = slot.gradient[i] * scale + o.weight_decay * slot.parameter[i];
    slot.mean[i] = o.momentum * slot.mean[i] + g;
    slot.parameter[i] -= rate * slot.mean[i];
  }
}

std::vector<AdamSlot> adam_slots(DType dtype) {
  std::vector<AdamSlot> slots;
  for (const Shape& shape : parameter_shapes) {
    Tensor p = random_tensor(shape, dtype);
    slots.push_back({p, random_tensor(shape, dtype, -1, 1, 1), Tensor::empty_like(p), Tensor::empty_like(p)});
    slots.back().mean.fill(0), slots.back().square.fill(0);
  }
  return slots;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(optimizer_step)

BOOST_AUTO_TEST_CASE(adam_and_adamw_follow_the_papers) {
  for (DType dtype : {DType::f32, DType::f64})
    for (bool decoupled : {false, true}) {
      AdamOptions options{.beta1 = 0.8, .beta2 = 0.9, .weight_decay = 0.1, .decoupled = decoupled};
      std::vector<AdamSlot> slots = adam_slots(dtype);
      std::vector<NaiveSlot> expected;
      for (AdamSlot& slot : slots) {
        std::vector<double> zeros(static_cast<std::size_t>(slot.parameter.elements()), 0);
        expected.push_back({slot.parameter.to_vector<double>(), slot.gradient.to_vector<double>(), zeros, zeros});
      }
      for (int step = 1; step <= 3; ++step) {
        adam_step(slots, options, 0.01, step, scalar(0.5));
        for (std::size_t k = 0; k < slots.size(); ++k) {
          naive_adam(expected[k], options, 0.01, step, 0.5);
          check_close(slots[k].parameter, expected[k].parameter, tolerance_of(dtype), slots[k].parameter.describe());
          check_close(slots[k].mean, expected[k].mean, tolerance_of(dtype), "mean");
          check_close(slots[k].square, expected[k].square, tolerance_of(dtype), "square");
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(descent_with_and_without_momentum_follows_its_formula) {
  for (DType dtype : {DType::f32, DType::f64})
    for (double momentum : {0.0, 0.9}) {
      SgdOptions options{.momentum = momentum, .weight_decay = 0.01};
      std::vector<SgdSlot> slots;
      std::vector<NaiveSlot> expected;
      for (AdamSlot& slot : adam_slots(dtype)) {
        slots.push_back({slot.parameter, slot.gradient, momentum == 0 ? Tensor() : slot.mean});
        expected.push_back(
            {slot.parameter.to_vector<double>(), slot.gradient.to_vector<double>(), slot.mean.to_vector<double>(), {}});
      }
      for (int step = 1; step <= 3; ++step) {
        sgd_step(slots, options, 0.1, scalar(2));
        for (std::size_t k = 0; k < slots.size(); ++k) {
          naive_sgd(expected[k], options, 0.1, 2);
          check_close(slots[k].parameter, expected[k].parameter, tolerance_of(dtype), slots[k].parameter.describe());
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(layouts_of_parameter_and_gradient_may_differ) {
  Tensor values = random_tensor({17, 5}, DType::f32),
         column_major = Tensor::empty({17, 5}, std::vector<int>{1, 0}, DType::f32, test_device());
  column_major.copy_from(values);
  for (const Tensor& gradient : layouts(random_tensor({17, 5}, DType::f32, -1, 1, 1))) {
    std::vector<double> expected = values.to_vector<double>(), g = gradient.to_vector<double>();
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] -= 0.5 * g[i];
    SgdSlot slot{Tensor::empty_like(column_major), gradient, {}};
    slot.parameter.copy_from(values);
    sgd_step(std::span(&slot, 1), {}, 0.5);
    check_close(slot.parameter, expected, 1e-6, gradient.strides().str());
  }
}

BOOST_AUTO_TEST_CASE(many_parameters_step_as_each_does_alone) {
  auto slots = [] {
    std::vector<AdamSlot> all;
    const Tensor storage = random_tensor({1000}, DType::f32);
    for (int k = 0; k < 200; ++k) {
      // Every third parameter is not aligned, every fifth gradient is not contiguous, every seventh pair is f64.
      const DType dtype = k % 7 == 0 ? DType::f64 : DType::f32;
      Tensor p = k % 3 == 0 && dtype == DType::f32
                     ? storage.slice(0, 5 * k, 5 * k + 4)
                     : random_tensor({k % 4 + 1, 5}, dtype, -1, 1, static_cast<unsigned>(k));
      Tensor g = random_tensor(p.shape(), dtype, -1, 1, 7);
      if (k % 5 == 0 && p.rank() == 2) g = random_tensor({5, p.size(0)}, dtype, -1, 1, 7).transpose(0, 1);
      all.push_back({p, g, Tensor::empty_like(p), Tensor::empty_like(p)});
      all.back().mean.fill(0), all.back().square.fill(0);
    }
    return all;
  };
  std::vector<AdamSlot> together = slots(), alone = slots();
  const AdamOptions options{.weight_decay = 0.1};
  adam_step(together, options, 0.1, 1, scalar(0.5));
  for (AdamSlot& slot : alone) adam_step(std::span(&slot, 1), options, 0.1, 1, scalar(0.5));
  for (std::size_t k = 0; k < alone.size(); ++k) {
    BOOST_TEST(same_bits(together[k].parameter, alone[k].parameter), "parameter " << k);
    BOOST_TEST(same_bits(together[k].square, alone[k].square), "square " << k);
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_may_share_the_memory_of_its_parameter) {
  Tensor p = here(Tensor::of({1, 2, 3, 4}, {2, 2}));
  SgdSlot slot{p, p.transpose(0, 1), {}};
  sgd_step(std::span(&slot, 1), {}, 1);
  BOOST_TEST(p.to_vector<double>() == (std::vector<double>{0, -1, 1, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_step_counts_as_a_change_of_what_it_changes) {
  std::vector<AdamSlot> slots = adam_slots(DType::f32);
  auto parameter = slots[0].parameter.version(), mean = slots[0].mean.version(), gradient = slots[0].gradient.version();
  adam_step(slots, {}, 1e-3, 1);
  BOOST_TEST(slots[0].parameter.version() > parameter);
  BOOST_TEST(slots[0].mean.version() > mean);
  BOOST_TEST(slots[0].gradient.version() == gradient);
}

BOOST_AUTO_TEST_CASE(the_norm_is_that_of_all_elements_in_f64) {
  std::vector<Tensor> tensors;
  double expected = 0;
  for (const Shape& shape : parameter_shapes)
    for (DType dtype : {DType::f32, DType::f64})
      for (const Tensor& x : layouts(random_tensor(shape, dtype))) {
        tensors.push_back(x);
        for (double value : x.to_vector<double>()) expected += value * value;
      }
  tensors.push_back(here(Tensor::of({3}, {1})).expand({100, 3}));
  BOOST_TEST(std::abs(global_norm(tensors).item() - std::sqrt(expected + 2700)) < 1e-11 * std::sqrt(expected));
  BOOST_TEST(global_norm({}).item() == 0);
  Tensor large = here(Tensor::full({100}, 1e30));
  BOOST_TEST(std::abs(global_norm(std::span(&large, 1)).item() / 1e31 - 1) < 1e-6);
}

BOOST_AUTO_TEST_CASE(norms_of_every_size_take_no_wait) {
  for (DType dtype : {DType::f32, DType::f64})
    for (std::int64_t n : {0, 1, 257, 16384, 3 * 16384 + 5}) {
      std::vector<Tensor> tensors{here(Tensor::full({n}, 2, dtype)),
                                  here(Tensor::full({7, 3}, 1, dtype)).transpose(0, 1)};
      const std::uint64_t before = kernels(test_device()).synchronizations();
      const Tensor norm = global_norm(tensors);
      BOOST_TEST(kernels(test_device()).synchronizations() == before);
      BOOST_TEST(norm.item() == std::sqrt(static_cast<double>(4 * n + 21)));  // the sum is exact
    }
  Tensor none = here(Tensor::empty({0}));
  BOOST_TEST(global_norm(std::span(&none, 1)).item() == 0);
  Tensor bad = here(Tensor::of({1, NAN}, {2}));
  BOOST_TEST(std::isnan(global_norm(std::span(&bad, 1)).item()));
}

BOOST_AUTO_TEST_CASE(the_norm_of_numbers_of_any_size_is_right) {
  auto norm = [](double x, DType dtype) {
    const std::vector<Tensor> tensors{here(Tensor::of({3 * x, 0}, {2}, dtype)), here(Tensor::of({-4 * x}, {1}, dtype))};
    return global_norm(tensors).item() / x;
  };
  for (double x : {1e-38, 1e-20, 1.0, 1e20, 5e37}) BOOST_TEST(std::abs(norm(x, DType::f32) - 5) < 1e-6);
  for (double x : {1e-300, 1e-200, 1.0, 1e200, 2e307}) BOOST_TEST(std::abs(norm(x, DType::f64) - 5) < 1e-12);
}

BOOST_AUTO_TEST_CASE(the_clip_scale_bounds_the_norm_of_the_mean) {
  auto scale = [](double norm, double max_norm, double count) {
    return clip_scale(scalar(norm), max_norm, count).item();
  };
  BOOST_TEST(scale(6, 3, 1) == 0.5);
  BOOST_TEST(scale(3, 3, 1) == 1);
  BOOST_TEST(scale(6, 3, 2) == 0.5);
  BOOST_TEST(scale(70, 3, 7) == 0.3 / 7);
  BOOST_TEST(scale(70, 0, 7) == 1.0 / 7);
  for (double wrong : {NAN, INFINITY}) BOOST_TEST(scale(wrong, 3, 7) == 1.0 / 7);
  check_fails_with([&] { scale(6, NAN, 1); }, "clip: the largest norm is nan; it must be a positive number");
  check_fails_with([&] { scale(6, -1, 1); }, "clip: the largest norm is -1; it must be a positive number");
  check_fails_with([&] { scale(0, 1, 0); }, "clip: the gradients are sums over 0 items");
}

BOOST_AUTO_TEST_CASE(a_clipped_step_takes_no_wait) {
  std::vector<AdamSlot> slots = adam_slots(DType::f32);
  std::vector<Tensor> gradients;
  for (const AdamSlot& slot : slots) gradients.push_back(slot.gradient);
  const std::uint64_t before = kernels(test_device()).synchronizations();
  adam_step(slots, {}, 1e-3, 1, clip_scale(global_norm(gradients), 1, 17));
  BOOST_TEST(kernels(test_device()).synchronizations() == before);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_named) {
  std::vector<AdamSlot> slots = adam_slots(DType::f32);
  check_fails_with([&] { adam_step(slots, {}, 1e-3, 0); }, "adam_step: steps count from 1, this one is 0");
  slots[2].mean = here(Tensor::zeros({7}));
  check_fails_with([&] { adam_step(slots, {}, 1e-3, 1); }, "adam_step: parameter 2 is f32 [130], its mean f32 [7]");
  slots = adam_slots(DType::f32);
  check_fails_with(
      [&] { adam_step(slots, {}, 1e-3, 1, here(Tensor::zeros({}))); },
      fmt::format("adam_step: the gradient scale is f32 [] on {}; it must be f64 []", name(test_device())));
  check_fails_with([&] { clip_scale(here(Tensor::zeros({3})), 1); },
                   "clip_scale: the norm is f32 [3]; it must be f64 []");
  SgdSlot slot{here(Tensor::zeros({3})), here(Tensor::zeros({4})), {}};
  check_fails_with([&] { sgd_step(std::span(&slot, 1), {}, 0.1); },
                   "sgd_step: parameter 0 is f32 [3], its gradient f32 [4]");
  slot.gradient = here(Tensor::zeros({3}));
  check_fails_with([&] { sgd_step(std::span(&slot, 1), {.momentum = 0.9}, 0.1); },
                   "sgd_step: parameter 0 is f32 [3], its velocity undefined");
}

BOOST_AUTO_TEST_CASE(a_parameter_that_is_listed_twice_is_refused_and_unchanged) {
  Tensor both = here(Tensor::zeros({3, 4})), none = here(Tensor::zeros({0, 4}));
  auto slot = [](const Tensor& parameter) { return SgdSlot{parameter, here(Tensor::full(parameter.shape(), 1)), {}}; };
  std::vector<SgdSlot> slots{slot(here(Tensor::zeros({7}))), slot(both.slice(0, 1, 3)), slot(none), slot(none),
                             slot(both.slice(0, 0, 2))};
  const std::uint64_t version = both.version();
  check_fails_with([&] { sgd_step(slots, {}, 0.1); },
                   "sgd_step: parameters 1 and 4, f32 [2, 4] and f32 [2, 4], share memory; list each parameter once");
  BOOST_TEST(both.version() == version);
  BOOST_TEST(both.to_vector<double>() == std::vector<double>(12, 0), boost::test_tools::per_element());
  slots.back() = slot(both.slice(0, 0, 1));
  sgd_step(slots, {}, 0.1);
  BOOST_TEST(both.to_vector<double>() == std::vector<double>(12, -0.1f), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(threads_do_not_matter_and_repetition_allocates_nothing) {
  auto compute = [] {
    std::vector<AdamSlot> slots = adam_slots(DType::f32);
    std::vector<Tensor> results, gradients;
    for (int step = 1; step < 3; ++step) adam_step(slots, {}, 1e-3, step);
    for (AdamSlot& slot : slots) results.push_back(slot.parameter), gradients.push_back(slot.gradient);
    results.push_back(global_norm(gradients));
    return results;
  };
  check_threads_do_not_matter(compute);
  check_steady(compute);
}

BOOST_AUTO_TEST_SUITE_END()
