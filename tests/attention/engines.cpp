// The fused and the blockwise engine compared with the composed one, in what attention/properties/engines.cpp does not
// compare.
#include "attention/properties/engines.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include <boost/test/unit_test.hpp>
#include <omp.h>

#include "attention/engine/blockwise.h"
#include "attention/engine/cpu/strips.h"
#include "attention/engine/fused.h"
#include "attention/layers/unseen_rows.h"
#include "tensor/gemm.h"
#include "tests/attention/attentions.h"
#include "tests/refusal.h"

using namespace fovea;
using namespace fovea::test;

namespace {

void check_alike(const std::vector<Tensor>& one, const std::vector<Tensor>& other, double tolerance) {
  BOOST_TEST(message_of([&] { require_alike(one, other, tolerance, "they"); }) == "no error");
}

/// Runs body on every specification that has a fused form, in every place where it is defined.
void for_every_fused(const std::function<void(const std::string&, Attention&, Place)>& body) {
  for (const std::string& specification : all_specifications()) {
    if (!has_fused_form(specification)) continue;
    for (Place place : all_places()) BOOST_TEST_CONTEXT(specification << " in place " << static_cast<int>(place)) {
        std::unique_ptr<Attention> attention;
        {
          AttentionEngineScope composed(AttentionEngine::composed);
          attention = usable_attention(specification, place);
        }
        if (attention) body(specification, *attention, place);
      }
  }
}

/// Checks that the fused and the blockwise engine give the output of the composed engine and, for a random cotangent,
/// its gradients of queries, keys, values and `read_by_plan`, the other variables that the plan reads.
void check_engines_alike(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                         const std::vector<Variable>& read_by_plan, double tolerance) {
  std::vector<Variable> inputs{in.query, in.key, in.value};
  inputs.insert(inputs.end(), read_by_plan.begin(), read_by_plan.end());
  auto with_gradients = [&](const Variable& out) {
    Generator generator(39);
    std::vector<Tensor> all{out.value()};
    const Tensor cotangent = random_tensor(out.shape(), generator).to(out.dtype());
    for (const Variable& gradient : grad(out, inputs, cotangent)) all.push_back(gradient.value());
    return all;
  };
  const std::vector<Tensor> composed = with_gradients(attend_composed(in, *plan, {}, nullptr).out);
  check_alike(with_gradients(attend_fused(in, plan, {}, nullptr).out), composed, tolerance);
  AttentionEngineScope blocks(AttentionEngine::blockwise, 13);
  check_alike(with_gradients(attend_blockwise(in, plan, {}, nullptr).out), composed, tolerance);
}

/// w = a + p_h² for all keys, also for hidden ones.
class WeightAdded : public CustomTerm, public WithStrips {
 public:
  Variable composed(const Variable& a, const AttentionContext&, const Captured& captured) const override {
    return a + reshape(square(captured[0]), {1, a.size(1), 1, 1});
  }
  StripForm strips(const AttentionContext&, const Captured& captured, const StripShape& shape) const override {
    return StripForm::of<Strips>(captured[0], shape);
  }

 private:
  template <class T>
  struct Strips : StripTerm<T> {
    Strips(const Variable& p, const StripShape& shape) : p(p.value()) {
      this->inputs = {{p, {shape.parts, shape.sentences, shape.heads}}};
    }
    void forward(const StripRows<T>& rows, const T* a, T* w, Workspace&) const override {
      const T number = p.data<T>()[rows.head];
      for (std::int64_t r = 0; r < rows.count; ++r, a += rows.stride, w += rows.stride)
        for (std::int64_t j = rows.first[r]; j < rows.end[r]; ++j) w[j] = a[j] + number * number;
    }
    void backward(const StripRows<T>& rows, const T*, T* g, std::span<Tensor> gradients, Workspace&) const override {
      const T number = p.data<T>()[rows.head];
      const Tensor& of_p = gradients[0];
      for (std::int64_t r = 0; r < rows.count && of_p.defined(); ++r, g += rows.stride)
        of_p.mutable_data<T>()[(rows.part * of_p.size(1) + rows.sentence) * of_p.size(2) + rows.head] +=
            2 * number * std::accumulate(g + rows.first[r], g + rows.end[r], T(0));
    }
    Tensor p;
  };
};

/// z + log b: -inf for a b of 0.
struct LogAdded {
  static constexpr const char* name = "log_added";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T>, T by) const {
    return z + log(by);
  }
};

/// z + b²: infinite for an infinite b, and its derivative too.
struct SquareAdded {
  static constexpr const char* name = "square_added";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T>, T by) const {
    return z + by * by;
  }
};

/// z · b: a softmax does not cancel the capture, whichever index it depends on.
struct Scaled {
  static constexpr const char* name = "scaled";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T>, T by) const {
    return z * by;
  }
};

/// w_ij = p_h a_ij Σ_k a_ik of a whole row, written by hand as attention/README.md says, with a number p_h for each
/// head.
class RowScaled : public CustomTerm, public WithStrips {
 public:
  Variable composed(const Variable& a, const AttentionContext&, const Captured& captured) const override {
    return a * sum(a, {-1}, true) * reshape(captured[0], {1, a.size(1), 1, 1});
  }
  StripForm strips(const AttentionContext&, const Captured& captured, const StripShape& shape) const override {
    return StripForm::of<Strips>(captured[0], shape);
  }

 private:
  template <class T>
  struct Strips : StripTerm<T> {
    Strips(const Variable& p, const StripShape& shape) : p(p.value()) {
      this->inputs = {{p, {shape.parts, shape.sentences, shape.heads}}};
    }
    T total(const StripRows<T>& rows, std::int64_t r, const T* a) const {
      return std::accumulate(a + rows.first[r], a + rows.end[r], T(0));
    }
    void forward(const StripRows<T>& rows, const T* a, T* w, Workspace&) const override {
      for (std::int64_t r = 0; r < rows.count; ++r, a += rows.stride, w += rows.stride) {
        const T factor = p.data<T>()[rows.head] * total(rows, r, a);
        for (std::int64_t j = rows.first[r]; j < rows.end[r]; ++j) w[j] = factor * a[j];
      }
    }
    void backward(const StripRows<T>& rows, const T* a, T* g, std::span<Tensor> gradients, Workspace&) const override {
      const T number = p.data<T>()[rows.head];
      for (std::int64_t r = 0; r < rows.count; ++r, a += rows.stride, g += rows.stride) {
        const T sum = total(rows, r, a),
                product = std::inner_product(a + rows.first[r], a + rows.end[r], g + rows.first[r], T(0));
        if (const Tensor& of_p = gradients[0]; of_p.defined())
          of_p.mutable_data<T>()[(rows.part * of_p.size(1) + rows.sentence) * of_p.size(2) + rows.head] +=
              sum * product;
        for (std::int64_t j = rows.first[r]; j < rows.end[r]; ++j) g[j] = number * (g[j] * sum + product);
      }
    }
    Tensor p;
  };
};

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_engines)

BOOST_AUTO_TEST_CASE(a_parameter_of_a_term_written_by_hand_has_the_same_gradient_with_any_number_of_threads) {
  constexpr std::int64_t queries = 400, keys = 9;  // 6 parts, which the threads share
  Generator generator(41);
  auto random = [&](const Shape& shape) { return Variable(random_tensor(shape, generator), true); };
  AttentionContext in;
  in.query = random({1, 2, queries, 3}), in.key = random({1, 2, keys, 3}), in.value = random({1, 2, keys, 3});
  in.visible = {{}, Tensor::full({1, 1, 1}, static_cast<double>(keys - 1), DType::i32)};
  in.query_positions = Tensor::arange(queries, DType::f64);
  in.key_positions = Tensor::arange(keys, DType::f64);
  const Variable p = random({2});
  auto plan = std::make_shared<Plan>();
  plan->windows.push_back({std::make_shared<RowScaled>(), {PerHead{p}}});
  check_engines_alike(in, plan, {p}, 1e-12);
  auto gradient = [&](int threads) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    const Variable out = attend_fused(in, plan, {}, nullptr).out;
    const Tensor found = grad(out, {p}, out.value())[0].value();
    omp_set_num_threads(before);
    return found.to_vector<double>();
  };
  for (int threads : {2, 3, 8}) BOOST_TEST(gradient(threads) == gradient(1), boost::test_tools::per_element());
}

// Methods that must have a fused form. Other methods may have one or not.
BOOST_AUTO_TEST_CASE(methods_keep_their_fused_forms) {
  const std::vector<std::string> without{"window(mask=discrete)", "window(use=additive,pointers=given)"};
  for (const char* name :
       {"global",  "relative", "gaussian", "window",       "man",      "sman",     "dman",       "activation",
        "alibi",   "t5",       "rotary",   "sliding",      "sinks",    "soft_cap", "dot",        "adaptive_span",
        "general", "additive", "location", "scaled_dot",   "mean",     "laplace",  "gate",       "gaussian_location",
        "local_m", "local_p",  "grouped",  "fine_grained", "flexible", "linear",   "forgetting", "light_convolution"}) {
    const MethodEntry* entry = find_method(name);
    BOOST_REQUIRE_MESSAGE(entry, name);
    Alternatives alternatives;
    entry->configure(alternatives);
    alternatives.found.push_back("");
    for (const std::string& option : alternatives.found) {
      const std::string specification = option.empty() ? name : fmt::format("{}({})", name, option);
      if (std::find(without.begin(), without.end(), specification) == without.end())
        BOOST_TEST(has_fused_form(specification), specification);
    }
  }
}

// Two heads of width 4 in states of width 6, as in checkpoints whose heads are together wider than the model.
BOOST_AUTO_TEST_CASE(heads_may_be_together_wider_than_the_states) {
  int compared = 0;
  for_every_fused([&](const std::string& specification, Attention& usual, Place place) {
    if (!dynamic_cast<MultiHeadAttention*>(&usual)) return;
    const auto attention = random_attention(specification, place, 3, 4);
    Generator generator(12);
    Variable x(random_tensor({2, 5, 6}, generator), true), source(random_tensor({2, 7, 6}, generator), true);
    const Variable& keys = place == Place::cross ? source : x;
    const Tensor mask = mask_for(*attention, 5, keys.size(1)), cotangent = random_tensor({2, 5, 6}, generator);
    std::vector<Variable> inputs{x, keys};
    for (const NamedParameter& parameter : attention->parameters()) inputs.push_back(parameter.variable);
    auto results = [&](AttentionEngine engine) {
      AttentionEngineScope scope(engine);
      const Variable out =
          attention->forward({.query = x, .key = keys, .value = keys, .mask = mask, .causal = place == Place::decoder});
      std::vector<Tensor> all{out.value()};
      for (const Variable& gradient : grad(out, inputs, cotangent)) all.push_back(gradient.value());
      return all;
    };
    check_alike(results(AttentionEngine::fused), results(AttentionEngine::composed), 1e-10);
    ++compared;
  });
  BOOST_TEST(compared > 0);
}

BOOST_AUTO_TEST_CASE(every_specification_is_defined_somewhere) {
  AttentionEngineScope composed(AttentionEngine::composed);
  for (const std::string& specification : all_specifications()) {
    auto usable = [&](Place place) { return usable_attention(specification, place) != nullptr; };
    BOOST_TEST(std::any_of(all_places().begin(), all_places().end(), usable), specification);
  }
}

// Far from its pointers a multiplicative window is nearly 0. Dividing the weights by their sum there shows whether the
// small numbers are exact.
BOOST_AUTO_TEST_CASE(a_window_is_exact_where_it_is_nearly_0) {
  for (const char* options : {"", ",mask=exact", ",mask=prob_or", ",segment=5", ",forward_only=true"}) {
    auto attention =
        random_attention(fmt::format("window(renormalize=true,pointer_scale=40{})", options), Place::encoder);
    for (auto& parameter : attention->parameters())
      if (parameter.name == "query.weight") {
        Variable weight = parameter.variable;
        weight.value().copy_from((weight * 20.0).value());
      }
    auto run = [&](AttentionEngine engine) {
      AttentionEngineScope chosen(engine);
      return output_and_gradients(*attention, Place::encoder, {2, 90, 90, {90, 71}}, DType::f64);
    };
    BOOST_TEST_CONTEXT(options) { check_alike(run(AttentionEngine::fused), run(AttentionEngine::composed), 1e-11); }
  }
}

// The backward pass recomputes weights from the stored logarithm of their sum, whose rounding error grows with the
// logits.
BOOST_AUTO_TEST_CASE(the_backward_pass_recomputes_the_weights_of_large_logits_exactly) {
  auto attention = random_attention("gaussian_location(learned=true,normalize=true)", Place::cross);
  for (auto& parameter : attention->parameters())
    if (parameter.name == "gaussian_location.rho") Variable(parameter.variable).value().fill(3);
  auto run = [&](AttentionEngine engine) {
    AttentionEngineScope chosen(engine);
    return output_and_gradients(*attention, Place::cross, {2, 250, 70, {2, 40}}, DType::f64);
  };
  check_alike(run(AttentionEngine::fused), run(AttentionEngine::composed), 1e-12);
}

BOOST_AUTO_TEST_CASE(a_sink_beside_large_logits_has_its_gradient) {
  auto attention = random_attention("sinks(logit=true)", Place::encoder);
  for (auto& parameter : attention->parameters()) {
    Variable variable = parameter.variable;
    if (parameter.name == "query.weight") variable.value().fill(0);
    if (parameter.name == "query.bias") variable.value().fill(3e4);
    if (parameter.name == "key.weight") variable.value().fill(0);
    if (parameter.name == "key.bias") variable.value().fill(1);  // all logits are 3e4 sqrt(3)
    if (parameter.name == "sinks.logit") variable.value().fill(3e4 * std::sqrt(3.0) + 2);
  }
  auto of_sink = [&](AttentionEngine engine, DType dtype) {
    AttentionEngineScope chosen(engine);
    attention->to(dtype);
    const auto all = output_and_gradients(*attention, Place::encoder, {1, 70, 70, {70}}, dtype);
    return all.back().to(DType::f64).to_vector<double>();
  };
  const std::vector<double> exact = of_sink(AttentionEngine::composed, DType::f64),
                            fused = of_sink(AttentionEngine::fused, DType::f64);
  BOOST_REQUIRE(exact.size() == 2);  // sinks.logit is the last parameter
  for (int h : {0, 1}) BOOST_TEST(std::abs(fused[h] - exact[h]) < 1e-13 * std::abs(exact[h]));
}

/// Runs the attention in that precision, at lengths that are no multiple of a vector's.
std::vector<Tensor> rounded_or_not(Attention& attention, Place place, Precision precision) {
  AttentionEngineScope chosen(AttentionEngine::fused);
  set_matmul_precision(precision);
  std::vector<Tensor> results = output_and_gradients(attention, place, {2, 97, 131, {131, 70}}, DType::f32);
  set_matmul_precision(Precision::f32);
  return results;
}

double distance(const Tensor& x, const Tensor& y) {
  const std::vector<double> a = x.to_vector<double>(), b = y.to_vector<double>();
  return std::sqrt(std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                                      [](double x, double y) { return (x - y) * (x - y); }));
}
double norm(const Tensor& x) { return distance(x, Tensor::zeros(x.shape(), x.dtype())); }

// In bf16 every operand has a rounding error of 2^-9; where an activation has a kink, it changes gradients.
BOOST_AUTO_TEST_CASE(fused_in_bf16_is_near_f32) {
  int different = 0;
  for_every_fused([&](const std::string& specification, Attention& attention, Place place) {
    // the norm of differential attention enlarges the errors of a difference of two maps
    if (specification.find("differential") != specification.npos) return;
    attention.to(DType::f32);
    const std::vector<Tensor> rounded = rounded_or_not(attention, place, Precision::bf16),
                              exact = rounded_or_not(attention, place, Precision::f32);
    for (std::size_t k = 0; k < exact.size(); ++k) {
      const double difference = distance(rounded[k], exact[k]), size = norm(exact[k]);
      different += difference > 0;
      BOOST_TEST(difference <= 0.06 * size + 0.1, "tensor " << k << " differs by " << difference << " of " << size);
    }
    attention.to(DType::f64);
  });
  BOOST_TEST(different > 100);
}

// The error does not grow with the scale of the pointers' logits: those with a large scale are computed in f32, because
// the rounding errors would be multiplied.
BOOST_AUTO_TEST_CASE(fused_in_bf16_is_as_near_with_any_scale_of_the_pointers) {
  for (const char* scale :
       {"pointer_scale=1", "pointer_scale=200", "pointer_scale=-200", "pointer_scale_by_length=true"}) {
    auto attention = random_attention(fmt::format("window({})", scale), Place::encoder);
    attention->to(DType::f32);
    const std::vector<Tensor> rounded = rounded_or_not(*attention, Place::encoder, Precision::bf16),
                              exact = rounded_or_not(*attention, Place::encoder, Precision::f32);
    for (std::size_t k : {0, 1})
      BOOST_TEST(distance(rounded[k], exact[k]) < 0.01 * norm(exact[k]), scale << ": tensor " << k << " differs by "
                                                                               << distance(rounded[k], exact[k])
                                                                               << " of " << norm(exact[k]));
  }
}

// bf16 packs keys in pairs: the last key of a sentence forms a pair with padding.
BOOST_AUTO_TEST_CASE(padding_changes_nothing_in_bf16) {
  AttentionEngineScope fused(AttentionEngine::fused);
  set_matmul_precision(Precision::bf16);
  for (const char* specification :
       {"global", "window", "window(use=additive)", "gaussian", "additive", "sliding(left=9,right=2)"}) {
    auto attention = random_attention(specification, Place::cross);
    attention->to(DType::f32);
    auto run = [&](double padding) {
      Generator generator(8);
      auto random = [&](std::int64_t length) { return random_tensor({2, length, 6}, generator).to(DType::f32); };
      Variable query(random(97), true), key(random(131), true);
      key.value().slice(0, 1, 2).slice(1, 69, 131).fill(padding);
      Variable out = attention->forward({.query = query,
                                         .key = key,
                                         .value = key,
                                         .key_lengths = Tensor::from(std::vector<std::int32_t>{131, 69}, {2})});
      backward(out, random(97));
      return std::vector<Tensor>{out.value(), query.grad().value()};
    };
    const std::vector<Tensor> zeros = run(0), others = run(std::numeric_limits<double>::quiet_NaN());
    for (std::size_t k : {0, 1})
      BOOST_TEST((zeros[k].to_vector<double>() == others[k].to_vector<double>()), specification << ": tensor " << k);
  }
  set_matmul_precision(Precision::f32);
}

BOOST_AUTO_TEST_CASE(both_engines_draw_the_same_dropout) {
  for (const char* specification :
       {"global", "relative(clip=3)+gaussian", "window", "window(use=additive)", "additive", "laplace",
        "heads(gaussian_location*1, location(longest=40)*1)", "fine_grained(hidden=2)",
        "heads(fine_grained*1, general*1)", "general+flexible", "heads(gaussian+flexible(detach_focus=true)*1, dot*1)",
        "differential", "differential(heads=2)+relative(clip=2)"})
    for (const Sizes& sizes : all_sizes) {
      bool cross = std::string(specification).find("flexible") != std::string::npos;
      Place place = cross ? Place::cross : Place::encoder;
      AttentionShape shape{.model_dim = 6, .heads = 2, .layers = 2, .place = place, .dropout = 0.3};
      auto attention = attention_factory(specification)(shape);
      attention->initialise(5);
      attention->to(DType::f64);
      attention->train(true);
      auto run = [&](AttentionEngine engine) {
        AttentionEngineScope chosen(engine);
        RandomScope random({77});
        return output_and_gradients(*attention, place, sizes, DType::f64);
      };
      auto fused = run(AttentionEngine::fused);
      check_alike(fused, run(AttentionEngine::composed), 1e-11);
      attention->train(false);
      BOOST_TEST(fused[0].to_vector<double>() != run(AttentionEngine::fused)[0].to_vector<double>());
    }
}

// The index of weight (b, h, i, j) is ((b H + h) I + i) round_up(J, 128) + j.
BOOST_AUTO_TEST_CASE(a_weight_is_dropped_by_its_head_query_and_key) {
  constexpr std::int64_t B = 2, H = 3, I = 37;
  constexpr double probability = 0.4;
  for (std::int64_t J : {7, 128, 150, 300}) {
    AttentionContext in;
    in.query = Tensor::zeros({B, H, I, 4}, DType::f64);  // the weights are equal
    in.key = Tensor::zeros({B, H, J, 4}, DType::f64);
    Tensor unit = Tensor::zeros({J, J}, DType::f64);
    for (std::int64_t j = 0; j < J; ++j) unit.slice(0, j, j + 1).slice(1, j, j + 1).fill(1);
    in.value = unit.expand({B, H, J, J}).contiguous();  // the output is the weights
    const std::int64_t first = J / 5, end = J - J / 7;
    in.visible = {Tensor::full({1, 1, 1}, double(first), DType::i32), Tensor::full({1, 1, 1}, double(end), DType::i32)};
    for (AttentionEngine engine : {AttentionEngine::fused, AttentionEngine::blockwise, AttentionEngine::composed}) {
      AttentionEngineScope chosen(engine, 5);
      RandomScope random({.seed = 6, .update = 2});
      const DropoutMask mask(probability, RandomScope::next_call("test"));
      RandomScope again({.seed = 6, .update = 2});
      const std::vector<double> out = attend(in, {}, probability, nullptr).value().to_vector<double>();
      std::size_t wrong = 0;
      for (std::int64_t row = 0; row < B * H * I; ++row)
        for (std::int64_t j = first; j < end; ++j) {
          const std::int64_t index = row * ((J + 127) / 128 * 128) + j, in_group = index % 128;
          const bool keeps =
              mask.keeps(mask.words(index / 128, static_cast<int>(in_group % 16)), static_cast<int>(in_group / 16));
          const double expected = keeps ? mask.scale() / static_cast<double>(end - first) : 0;
          wrong += std::abs(out[static_cast<std::size_t>(row * J + j)] - expected) > 1e-12;
        }
      BOOST_TEST(wrong == 0u, "of " << J << " keys");
    }
  }
}

// Long rows, with dropout, in a short strip: a term that uses more of the thread's memory than it requested fails here.
BOOST_AUTO_TEST_CASE(long_rows_with_dropout_and_windows_that_see_nothing) {
  for (const char* specification :
       {"window(mask=exact)", "window(use=additive,mask=exact)+relative(clip=3)", "sliding(left=1,right=1)+window"}) {
    AttentionShape shape{.model_dim = 6, .heads = 2, .layers = 2, .dropout = 0.2};
    auto attention = attention_factory(specification)(shape);
    attention->initialise(6);
    attention->to(DType::f64);
    attention->train(true);
    auto run = [&](AttentionEngine engine) {
      AttentionEngineScope chosen(engine);
      RandomScope random({3});
      return output_and_gradients(*attention, Place::encoder, {2, 700, 700, {700, 3}}, DType::f64);
    };
    check_alike(run(AttentionEngine::fused), run(AttentionEngine::composed), 1e-10);
  }
}

BOOST_AUTO_TEST_CASE(windows_of_many_queries_may_lie_behind_the_last_key) {
  auto attention = random_attention("sliding(left=1,right=1)", Place::cross);
  auto run = [&](AttentionEngine engine) {
    AttentionEngineScope chosen(engine);
    return output_and_gradients(*attention, Place::cross, {1, 2000, 7, {5}}, DType::f64);
  };
  check_alike(run(AttentionEngine::fused), run(AttentionEngine::composed), 1e-11);
}

// Sizes and windows for which most strips have a gap between the sinks and the window, with parts that can process the
// intervals one by one (StripPart::by_interval) and parts that cannot.
BOOST_AUTO_TEST_CASE(keys_between_sinks_and_a_window_change_nothing) {
  const Sizes sizes{3, 150, 260, {260, 97, 0}};
  for (const char* specification :
       {"sliding(left=5,right=0)+sinks(tokens=3)", "sliding(left=5,right=2)+sinks(tokens=3,logit=true)+alibi+gaussian",
        "sliding(left=9,right=1)+sinks(tokens=17)+relative(clip=4)+dman", "sliding(left=3,heads=2)+sinks(tokens=1)",
        "sliding(left=3)+sinks(tokens=2,heads=1)", "sliding(left=3)+sinks(tokens=2)+sinks(tokens=5,heads=2)",
        "sliding(left=5,right=0)+sinks(tokens=3)+t5+soft_cap(cap=2)", "sliding(left=4)+sinks(tokens=3)+window",
        "sliding(left=4)+sinks(tokens=3)+additive", "sliding(left=4)+sinks(tokens=3)+man",
        "sliding(left=4)+sinks(tokens=3)+local_p", "sliding(left=4)+sinks(tokens=3)+laplace",
        "sliding(left=4)+sinks(tokens=3)+gaussian_location"})
    for (Place place : all_places()) BOOST_TEST_CONTEXT(specification << " in place " << static_cast<int>(place)) {
        if (!usable_attention(specification, place)) continue;
        auto run = [&](AttentionEngine engine, double dropout) {
          AttentionEngineScope chosen(engine);
          AttentionShape shape{.model_dim = 6, .heads = 2, .layers = 2, .place = place, .dropout = dropout};
          auto attention = attention_factory(specification)(shape);
          attention->initialise(8);
          attention->to(DType::f64);
          attention->train(dropout > 0);
          RandomScope random({41});
          AttentionTrace trace;
          auto all = output_and_gradients(*attention, place, sizes, DType::f64, &trace);
          all.push_back(trace.weights.value());
          return all;
        };
        for (double dropout : {0.0, 0.3}) {
          if (dropout > 0 && place != Place::decoder) continue;
          check_alike(run(AttentionEngine::fused, dropout), run(AttentionEngine::composed, dropout), 1e-11);
        }
      }
}

// Sizes for which threads process parts of a head, or whole sentences; in f32 and bf16.
BOOST_AUTO_TEST_CASE(keys_between_sinks_and_a_window_change_nothing_in_any_size_or_precision) {
  auto attention = random_attention("sliding(left=9,right=1)+sinks(tokens=17)+relative(clip=4)+dman", Place::encoder);
  auto run = [&](AttentionEngine engine, const Sizes& sizes, DType dtype) {
    AttentionEngineScope chosen(engine);
    attention->to(dtype);
    return output_and_gradients(*attention, Place::encoder, sizes, dtype);
  };
  for (const Sizes& sizes :
       std::vector<Sizes>{{1, 300, 300, {281}}, {33, 200, 200, std::vector<std::int32_t>(33, 199)}}) {
    const auto composed = run(AttentionEngine::composed, sizes, DType::f64);
    check_alike(run(AttentionEngine::fused, sizes, DType::f64), composed, 1e-11);
    check_alike(run(AttentionEngine::fused, sizes, DType::f32), composed, 1e-4);
    set_matmul_precision(Precision::bf16);
    check_alike(run(AttentionEngine::fused, sizes, DType::f32), composed, 0.05);
    set_matmul_precision(Precision::f32);
  }
}

/// The output and the gradient of the queries, for a few last queries of a decoder with this many positions.
std::vector<Tensor> last_queries(Attention& attention, const Tensor& states, std::int64_t queries) {
  const std::int64_t n = states.size(1);
  Variable query(states.slice(1, n - queries, n).clone(), true), key(states);
  Variable out =
      attention.forward({.query = query, .key = key, .value = key, .causal = true, .query_offset = n - queries});
  Generator generator(9);
  backward(out, random_tensor(out.shape(), generator));
  return {out.value(), query.grad().value()};
}

BOOST_AUTO_TEST_CASE(the_gap_behind_the_sinks_may_have_any_size_and_start) {
  Generator generator(6);
  for (const char* specification :
       {"sliding(left=5,right=0)+sinks(tokens=3,logit=true)", "sliding(left=5,right=0)+sinks(tokens=16)+alibi",
        "sliding(left=5,right=0)+sinks(tokens=9,heads=2)+sinks(tokens=2)"}) {
    auto attention = random_attention(specification, Place::decoder);
    for (std::int64_t n = 78; n < 112; ++n) {
      const Tensor states = random_tensor({1, n, 6}, generator);
      auto run = [&](AttentionEngine engine) {
        AttentionEngineScope chosen(engine);
        return last_queries(*attention, states, 7);
      };
      check_alike(run(AttentionEngine::fused), run(AttentionEngine::composed), 1e-12);
    }
  }
}

// Captures of every shape that broadcasts, over several strips and parts, and for threads that process whole sentences.
BOOST_AUTO_TEST_CASE(captures_of_any_shape_have_their_gradients) {
  struct Extent {
    std::int64_t sentences, queries, keys, query_offset;
  };
  for (const Extent& e : {Extent{2, 150, 141, 0}, Extent{3, 9, 21, 12}, Extent{33, 5, 7, 2}}) {
    const std::int64_t B = e.sentences, H = 3, I = e.queries, J = e.keys;
    Generator generator(37);
    auto random = [&](const Shape& shape) { return Variable(random_tensor(shape, generator), true); };
    AttentionContext in;
    in.query = random({B, H, I, 5});
    in.key = random({B, H, J, 5});
    in.value = random({B, H, J, 4});
    in.query_offset = e.query_offset;
    in.visible = {Tensor::full({1, 1, 1}, 1, DType::i32), Tensor::full({1, 1, 1}, double(J - 1), DType::i32)};
    in.query_positions = Tensor::arange(I, DType::f64, Device::cpu, e.query_offset);
    in.key_positions = Tensor::arange(J, DType::f64);
    auto check = [&](const auto& capture) {
      BOOST_TEST_CONTEXT("capture " << capture.value.value().describe() << " of " << I << " queries, " << J
                                    << " keys") {
        auto plan = std::make_shared<Plan>();
        plan->biases.push_back(pointwise(Scaled{}, capture));
        check_engines_alike(in, plan, {capture.value}, 1e-11);
      }
    };
    for (const Shape& shape : {Shape{B, H, I}, Shape{1, H, I}, Shape{B, 1, I}, Shape{I}, Shape{B, H, 1}, Shape{}})
      check(PerQuery{random(shape)});
    for (const Shape& shape : {Shape{B, H, J}, Shape{1, 1, J}, Shape{J}, Shape{B, H, 1}, Shape{}})
      check(PerKey{random(shape)});
    for (const Shape& shape : {Shape{B, H, I, J}, Shape{1, H, I, J}, Shape{B, 1, 1, J}, Shape{I, J}, Shape{}})
      check(PerPair{random(shape)});
    for (const Shape& shape : {Shape{H}, Shape{1}, Shape{}}) check(PerHead{random(shape)});
    for (std::int64_t clip : {std::int64_t{3}, I + J})
      for (const Shape& shape : {Shape{B, H, I, 2 * clip + 1}, Shape{H, 1, 2 * clip + 1}, Shape{2 * clip + 1}})
        check(PerOffset{random(shape), clip});
  }
}

// A visible pair may have the logit −inf, and a masked key may have captures that are not finite. Neither changes the
// results of other pairs.
BOOST_AUTO_TEST_CASE(infinities_stay_where_they_are) {
  constexpr std::int64_t B = 2, H = 2, I = 5, J = 7, visible = 5;
  for (bool masked : {false, true}) {
    Generator generator(12);
    auto random = [&](const Shape& shape) { return Variable(random_tensor(shape, generator, 0.5, 1.5), true); };
    AttentionContext in;
    in.query = random({B, H, I, 3});
    in.key = random({B, H, J, 3});
    in.value = random({B, H, J, 3});
    in.visible = {{}, Tensor::full({1, 1, 1}, double(visible), DType::i32)};
    in.query_positions = Tensor::arange(I, DType::f64);
    in.key_positions = Tensor::arange(J, DType::f64);
    Variable by = random({B, H, I, J});
    auto plan = std::make_shared<Plan>();
    if (masked) {
      by.value().slice(3, visible, J).fill(std::numeric_limits<double>::infinity());
      plan->biases.push_back(pointwise(SquareAdded{}, PerPair{by}));
    } else {
      by.value().slice(2, 1, 2).slice(3, 2, 3).fill(0);
      plan->biases.push_back(pointwise(LogAdded{}, PerPair{by}));
    }
    for (const Variable& out : {attend_fused(in, plan, {}, nullptr).out, attend_composed(in, *plan, {}, nullptr).out}) {
      std::vector<Tensor> results{out.value()};
      for (const Variable& gradient :
           grad(out, {in.query, in.key, in.value, by}, random_tensor(out.shape(), generator)))
        results.push_back(gradient.value());
      for (const Tensor& result : results)
        for (double x : result.to_vector<double>()) BOOST_TEST(std::isfinite(x), (masked ? "masked" : "visible"));
    }
    check_engines_alike(in, plan, {by}, 1e-11);
  }
}

// Among the registry's methods only sinks set Plan::always, at the first keys. A plan may set it anywhere.
BOOST_AUTO_TEST_CASE(keys_that_are_always_seen_may_lie_behind_the_window) {
  constexpr std::int64_t I = 70, J = 230;
  auto at = [&](std::int64_t query, std::int64_t after) { return std::clamp<std::int64_t>(2 * query + after, 0, J); };
  auto range = [&](std::int64_t after, std::int64_t keys) {
    std::vector<std::int64_t> first, end;
    for (std::int64_t i = 0; i < I; ++i) {
      first.push_back(at(i, after));
      end.push_back(at(i, after + keys));
    }
    return HeadKeys{{Tensor::from(first, {1, 1, I}).to(DType::i32), Tensor::from(end, {1, 1, I}).to(DType::i32)}};
  };
  for (const auto& places : {std::vector<std::int64_t>{40}, {-90}, {15, -60}, {30, 110}, {-20, 9}}) {
    Generator generator(35);
    auto random = [&](std::int64_t length) { return Variable(random_tensor({2, 2, length, 5}, generator), true); };
    AttentionContext in;
    in.query = random(I);
    in.key = random(J);
    in.value = random(J);
    in.visible = {{}, Tensor::full({1, 1, 1}, 226, DType::i32)};
    auto plan = std::make_shared<Plan>();
    plan->ranges.push_back(range(-3, 8));
    for (std::int64_t after : places) plan->always.push_back(range(after, 3));
    check_engines_alike(in, plan, {}, 1e-12);
  }
}

// Each block of queries starts with the focus that the block before it left. A call starts with
// FocusedSoftmax::previous and returns the focus after each query, which has a gradient. With `detach`, no gradient
// flows from the focus of one query to the next query, nor to `previous`.
BOOST_AUTO_TEST_CASE(a_focus_is_carried_between_blocks_and_calls) {
  constexpr std::int64_t I = 29, J = 31;
  for (double threshold : {std::numeric_limits<double>::infinity(), 0.7})
    for (bool detach : {false, true}) {
      Generator generator(12);
      auto random = [&](const Shape& shape, double low = -1) {
        return Variable(random_tensor(shape, generator, low), true);
      };
      AttentionContext in;
      in.query = random({2, 3, I, 5});
      in.key = random({2, 3, J, 5});
      in.value = random({2, 3, J, 5});
      in.visible = {{}, Tensor::from(std::vector<std::int32_t>{31, 24}, {2, 1, 1})};
      in.key_positions = Tensor::arange(J, DType::f64);
      auto plan = std::make_shared<Plan>();
      plan->focus = FocusedSoftmax{.sigma = 2,
                                   .threshold = threshold,
                                   .detach = detach,
                                   .gate = random({2, 2, I}, 0.05),
                                   .previous = random({2, 2}, 0),
                                   .heads = {1, 2}};
      const std::vector<Variable> inputs{in.query, in.key, in.value, plan->focus->gate, plan->focus->previous};
      const Tensor of_out = random_tensor({2, 3, I, 5}, generator), of_focus = random_tensor({2, 2, I}, generator);
      auto results = [&](const AttentionOutput& made) {
        std::vector<Tensor> all{made.out.value(), made.focus.value()};
        const Variable total = sum(made.out * Variable(of_out)) + sum(made.focus * Variable(of_focus));
        for (const Variable& gradient : grad(total, inputs)) all.push_back(gradient.value());
        return all;
      };
      const std::vector<Tensor> composed = results(attend_composed(in, *plan, {}, nullptr));
      check_alike(results(attend_fused(in, plan, {}, nullptr)), composed, 1e-11);
      AttentionEngineScope blocks(AttentionEngine::blockwise, 6);
      check_alike(results(attend_blockwise(in, plan, {}, nullptr)), composed, 1e-11);
    }
}

// The intervals are so far apart that a strip has a separate piece for each.
BOOST_AUTO_TEST_CASE(keys_that_are_always_seen_may_lie_in_several_intervals) {
  constexpr std::int64_t I = 37, J = 900;
  auto fixed = [](double first, double end) {
    return HeadKeys{{Tensor::full({1, 1, 1}, first, DType::i32), Tensor::full({1, 1, 1}, end, DType::i32)}};
  };
  for (bool with_sink : {false, true}) {
    Generator generator(37);
    auto random = [&](std::int64_t length) { return Variable(random_tensor({2, 2, length, 5}, generator), true); };
    AttentionContext in;
    in.query = random(I);
    in.key = random(J);
    in.value = random(J);
    in.visible = {{}, Tensor::full({1, 1, 1}, 890, DType::i32)};
    auto plan = std::make_shared<Plan>();
    plan->ranges.push_back({{Tensor::arange(I, DType::i32, Device::cpu, 420).reshape({1, 1, I}),
                             Tensor::arange(I, DType::i32, Device::cpu, 431).reshape({1, 1, I})}});
    plan->always = {fixed(700, 705), fixed(3, 9), fixed(200, 201), fixed(895, 899)};  // the last one lies in padding
    plan->always[2].heads = {1, 1};
    if (with_sink) plan->sink = Variable(random_tensor({2}, generator), true);
    const std::vector<Variable> read = with_sink ? std::vector{plan->sink} : std::vector<Variable>{};
    check_engines_alike(in, plan, read, 1e-12);
  }
}

// A query sees a part of the keys by two intervals and a mask; the window of a CustomTerm gives all keys weight.
BOOST_AUTO_TEST_CASE(a_window_that_adds_weight_adds_none_to_keys_that_a_query_does_not_see) {
  constexpr std::int64_t I = 37, J = 260;
  Generator generator(38);
  auto random = [&](std::int64_t length) { return Variable(random_tensor({2, 2, length, 5}, generator), true); };
  AttentionContext in;
  in.query = random(I), in.key = random(J), in.value = random(J);
  const Variable p(random_tensor({2}, generator), true);
  std::vector<std::uint8_t> pairs;
  for (double x : random_tensor({I * J}, generator, 0, 1).to_vector<double>()) pairs.push_back(x < 0.7);
  const HeadKeys first{{Tensor::full({1, 1, 1}, 2, DType::i32), Tensor::full({1, 1, 1}, 7, DType::i32)}},
      moving{{Tensor::arange(I, DType::i32, Device::cpu, 120).reshape({1, 1, I}),
              Tensor::arange(I, DType::i32, Device::cpu, 141).reshape({1, 1, I})}};
  for (const bool is_masked : {false, true})
    for (const bool has_ranges : {false, true}) {
      auto plan = std::make_shared<Plan>();
      plan->windows.push_back({std::make_shared<WeightAdded>(), {PerHead{p}}});
      if (is_masked) plan->masks.push_back({Tensor::from(pairs, {1, 1, I, J}), {1, 1}});
      if (has_ranges) plan->ranges.push_back(moving), plan->always.push_back(first);
      check_engines_alike(in, plan, {p}, 1e-12);
      const std::vector<double> weights = composed_weights(in, *plan).tokens.value().to_vector<double>();
      for (std::int64_t k = 0; k < std::ssize(weights); ++k) {
        const std::int64_t h = k / (I * J) % 2, i = k / J % I, j = k % J;
        const bool is_open = !has_ranges || (2 <= j && j < 7) || (120 + i <= j && j < 141 + i),
                   is_seen = is_open && (!is_masked || h == 0 || pairs[i * J + j]);
        BOOST_TEST_REQUIRE((weights[k] != 0) == is_seen, h << ' ' << i << ' ' << j);
      }
    }
}

// The other documents are NaN: 0 · NaN would show any product of a weight of 0 with one of their values.
BOOST_AUTO_TEST_CASE(keys_of_other_documents_are_not_read) {
  AttentionEngineScope fused(AttentionEngine::fused);
  const SeenPairs as_they_are(false);  // states are not replaced: the engine itself must not read them
  constexpr std::int64_t T = 230, first = 71, end = 160;  // the second of three documents
  std::vector<std::int64_t> ids;
  for (std::int64_t t = 0; t < T; ++t) ids.push_back(t < first ? 0 : t < end ? 1 : 2);
  for (const char* specification :
       {"global", "gaussian + alibi", "window", "sliding(left=5,right=5) + relative(clip=3)"}) {
    auto attention = random_attention(specification, Place::encoder);
    Generator generator(4);
    Tensor states = random_tensor({1, T, 6}, generator);
    auto others = [&] {
      const Variable x = states;
      const Tensor out =
          attention->forward({.query = x, .key = x, .value = x, .documents = Tensor::from(ids, {1, T})}).value();
      std::vector<double> numbers = out.slice(1, 0, first).to_vector<double>();
      for (double number : out.slice(1, end, T).to_vector<double>()) numbers.push_back(number);
      return numbers;
    };
    const std::vector<double> as_it_is = others();
    states.slice(1, first, end).fill(std::numeric_limits<double>::quiet_NaN());
    BOOST_TEST(others() == as_it_is, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(keys_between_sinks_and_a_window_are_not_read) {
  AttentionEngineScope fused(AttentionEngine::fused);
  const SeenPairs as_they_are(false);  // states are not replaced: the engine itself must not read them
  for (const char* specification : {"sliding(left=5,right=0)+sinks(tokens=3)",
                                    "sliding(left=5,right=0)+sinks(tokens=3,logit=true)+relative(clip=4)+alibi",
                                    "sliding(left=5,right=0)+sinks(tokens=2)+sinks(tokens=3,heads=2)"}) {
    auto attention = random_attention(specification, Place::decoder);
    Generator generator(4);
    Tensor states = random_tensor({1, 210, 6}, generator);
    const auto as_it_is = last_queries(*attention, states, 10);
    states.slice(1, 3, 180).fill(std::numeric_limits<double>::quiet_NaN());
    const auto with_nan = last_queries(*attention, states, 10);
    for (std::size_t k = 0; k < as_it_is.size(); ++k)
      BOOST_TEST(with_nan[k].to_vector<double>() == as_it_is[k].to_vector<double>(), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(without_queries_gradients_are_0_and_weights_are_empty) {
  for (const char* specification :
       {"global", "relative(clip=2)+gaussian", "soft_cap", "fine_grained(hidden=2)", "linear", "light_convolution",
        "relative(clip=2)+window(mask=discrete)", "flexible", "flexible(threshold=1)", "flexible(p_init=nopen)"}) {
    const Place place = specification[0] == 'r'   ? Place::encoder
                        : specification[0] == 'l' ? Place::decoder
                                                  : Place::cross;
    auto attention = random_attention(specification, place);
    for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fused}) {
      if (engine == AttentionEngine::fused && !has_fused_form(specification)) continue;
      AttentionEngineScope chosen(engine);
      const std::int64_t keys = place == Place::cross ? 7 : 0;
      Variable query(Tensor::zeros({2, 0, 6}, DType::f64), true), key(Tensor::full({2, keys, 6}, 1, DType::f64), true);
      AttentionTrace trace;
      const Variable out = attention->forward(
          {.query = query, .key = key, .value = key, .causal = place == Place::decoder, .trace = &trace});
      BOOST_TEST(out.shape() == Shape({2, 0, 6}));
      BOOST_TEST(trace.weights.size(3) == keys);
      std::vector<Variable> inputs{query, key};
      for (auto& parameter : attention->parameters()) inputs.push_back(parameter.variable);
      for (const Variable& gradient : grad(out, inputs, Tensor::zeros({2, 0, 6}, DType::f64)))
        for (double x : gradient.value().to_vector<double>())
          BOOST_TEST_REQUIRE(x == 0, specification << ", engine " << static_cast<int>(engine));
    }
  }
}

BOOST_AUTO_TEST_CASE(fused_equals_composed_without_keys_and_with_values_of_width_0) {
  struct Empty {
    std::int64_t keys, width_of_values;
  };
  for (const Empty& s : {Empty{7, 0}, Empty{0, 3}})
    for (DType dtype : {DType::f32, DType::f64}) {
      Generator generator(33);
      auto random = [&](std::int64_t length, std::int64_t width) {
        return Variable(random_tensor({2, 2, length, width}, generator).to(dtype), true);
      };
      AttentionContext in;
      in.query = random(5, 4);
      in.key = random(s.keys, 4);
      in.value = random(s.keys, s.width_of_values);
      in.visible = {{}, Tensor::full({1, 1, 1}, double(s.keys), DType::i32)};
      check_engines_alike(in, std::make_shared<const Plan>(), {}, 1e-6);
    }
}

BOOST_AUTO_TEST_CASE(heads_without_a_score_have_the_default_score) {
  Generator generator(4);
  auto random = [&](std::int64_t heads, std::int64_t length) {
    return random_tensor({1, heads, length, 3}, generator);
  };
  AttentionContext in;
  in.query = random(4, 5);
  in.key = random(4, 6);
  in.value = random(4, 6);
  auto with = [&](const std::vector<HeadRange>& ranges) {
    Plan plan;
    for (HeadRange heads : ranges)
      plan.scores.push_back({.queries = random(heads.count, 5), .keys = random(heads.count, 6), .heads = heads});
    return std::make_shared<const Plan>(std::move(plan));
  };
  const auto of_two_heads = with({{1, 2}});  // the other heads have the default score
  check_alike({attend_fused(in, of_two_heads, {}, nullptr).out.value()},
              {attend_composed(in, *of_two_heads, {}, nullptr).out.value()}, 1e-12);
}

// The engine computes the heads beside those of a mixer from a part of each tensor.
BOOST_AUTO_TEST_CASE(heads_beside_a_mixer_keep_their_weights_of_the_hidden_layer) {
  struct Zeros : PairlessMixer {
    Variable output(const AttentionContext& in, const Captured&) const override { return in.query * 0.0; }
    Variable weights(const AttentionContext&, const Captured&) const override { return {}; }
  };
  Generator generator(4);
  auto random = [&](const Shape& shape) { return Variable(random_tensor(shape, generator)); };
  AttentionContext in;
  in.query = random({1, 3, 5, 4}), in.key = random({1, 3, 6, 4}), in.value = random({1, 3, 6, 4});
  Score score{.queries = random({1, 3, 5, 2}), .keys = random({1, 3, 6, 2})};
  for (Score::Form form : {Score::Form::hidden, Score::Form::hidden_by_dimension}) {
    score.form = form;
    score.weight = form == Score::Form::hidden ? random({3, 2}) : random({3, 2, 4});
    for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fused}) {
      AttentionEngineScope chosen(engine);
      Plan plan;
      plan.scores = {score};
      const Variable all = attend(in, plan, 0, nullptr);
      plan.mixers.push_back({std::make_shared<const Zeros>(), {}, {0, 1}});
      check_alike({attend(in, plan, 0, nullptr).value().slice(1, 1, 3)}, {all.value().slice(1, 1, 3)}, 1e-12);
    }
  }
}

// One head has a window, so that the heads are in two blocks. Without keys these have no weights to drop.
BOOST_AUTO_TEST_CASE(blocks_without_keys_drop_nothing) {
  AttentionContext in;
  in.query = Tensor::zeros({1, 2, 3, 4}, DType::f64);
  in.key = in.value = Tensor::zeros({1, 2, 0, 4}, DType::f64);
  Plan plan;
  plan.ranges.push_back({{{}, Tensor::full({1}, 1, DType::i32)}, {0, 1}});
  AttentionEngineScope blocks(AttentionEngine::blockwise);
  RandomScope random({.seed = 6, .update = 2});
  for (double x : attend(in, plan, 0.5, nullptr).value().to_vector<double>()) BOOST_TEST(x == 0);
}

BOOST_AUTO_TEST_CASE(a_trace_changes_no_dropout_where_some_heads_have_no_pairs) {
  AttentionShape shape{.model_dim = 12, .heads = 3, .place = Place::encoder};
  shape.dropout = 0.4;
  const auto attention = attention_factory("heads(global*1, linear*1, gaussian*1)")(shape);
  attention->initialise(3);
  attention->to(DType::f64);
  attention->train(true);
  Generator generator(8);
  const Variable x(random_tensor({2, 7, 12}, generator), true);
  const auto output = [&](AttentionEngine engine, AttentionTrace* trace) {
    AttentionEngineScope chosen(engine, 3);
    RandomScope random({.seed = 5, .update = 2});
    const Variable out = attention->forward({.query = x, .key = x, .value = x, .trace = trace});
    std::vector<double> all = out.value().to_vector<double>();
    const std::vector<double> slope = grad(sum(square(out)), {x})[0].value().to_vector<double>();
    all.insert(all.end(), slope.begin(), slope.end());
    return all;
  };
  const std::vector<double> expected = output(AttentionEngine::composed, nullptr);
  for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fused})
    for (bool traces : {false, true}) {
      AttentionTrace trace;
      const std::vector<double> found = output(engine, traces ? &trace : nullptr);
      for (std::size_t k = 0; k < expected.size(); ++k)
        BOOST_TEST(std::abs(found[k] - expected[k]) < 1e-10, static_cast<int>(engine) << " " << traces << " " << k);
    }
}

BOOST_AUTO_TEST_CASE(masks_and_ranges_that_change_before_the_backward_pass_are_errors) {
  Generator generator(4);
  AttentionContext in;
  in.query = Variable(random_tensor({2, 3, 4, 5}, generator), true);
  in.key = random_tensor({2, 3, 6, 5}, generator);
  in.value = random_tensor({2, 3, 6, 5}, generator);
  in.query_positions = Tensor::arange(4, DType::f64), in.key_positions = Tensor::arange(6, DType::f64);
  for (const bool fused : {true, false})
    for (const std::string changed : {"nothing", "mask", "range of keys", "range of keys of the plan"}) {
      in.visible = {Tensor::zeros({1, 1, 1}, DType::i32), Tensor::full({1, 1, 1}, 6, DType::i32)};
      Tensor mask = Tensor::full({4, 6}, 1, DType::boolean), end = Tensor::full({4}, 5, DType::i32);
      auto plan = std::make_shared<Plan>();
      plan->masks.push_back({mask});
      plan->ranges.push_back({{{}, end}});
      const Variable out =
          fused ? attend_fused(in, plan, {}, nullptr).out : attend_blockwise(in, plan, {}, nullptr).out;
      Tensor& target = changed == "mask" ? mask : changed == "range of keys" ? in.visible.end : end;
      if (changed != "nothing") target.slice(-1, 0, 1).fill(0);
      std::string message;
      try {
        backward(sum(out));
      } catch (const Error& error) {
        message = error.what();
      }
      const std::string expected =
          changed == "nothing" ? ""
                               : fmt::format("{}_attention: its {}, {}, was saved for the backward pass and then ",
                                             fused ? "fused" : "blockwise", changed.substr(0, 13), target);
      BOOST_TEST((expected.empty() ? message.empty() : message.starts_with(expected)), message);
    }
}

// Seven heads of `linear` and one of plain attention need the matrix of pairs of one head.
BOOST_AUTO_TEST_CASE(the_heads_of_mixers_have_no_pairs) {
  AttentionEngineScope chosen(AttentionEngine::composed);
  constexpr std::int64_t n = 96, heads = 8;
  auto peak = [](const std::string& specification) {
    auto attention = attention_factory(specification)({.model_dim = 16, .heads = heads, .place = Place::encoder});
    attention->initialise(3);
    attention->to(DType::f64);
    Generator generator(8);
    const Variable states = random_tensor({1, n, 16}, generator);
    NoGrad off;
    reset_peak();
    const std::size_t before = allocator_statistics().bytes_in_use;
    attention->forward({.query = states, .key = states, .value = states});
    return static_cast<double>(allocator_statistics().peak_bytes - before);
  };
  constexpr double matrix = n * n * sizeof(double);
  const double linear = peak("linear"), one = peak("heads(linear*7, global*1)"), all = peak("global");
  BOOST_TEST(all > heads * matrix);
  BOOST_TEST(one - linear < 3 * matrix);
  BOOST_TEST(peak("heads(linear*3, global*1, linear*3, global*1)") - linear < 3 * matrix);
}

BOOST_AUTO_TEST_CASE(the_number_of_threads_changes_nothing) {
  int before = omp_get_max_threads();
  for_every_fused([](const std::string&, Attention& attention, Place place) {
    for (const Sizes& sizes : {all_sizes[2], all_sizes[3]}) {
      auto run = [&](int threads) {
        omp_set_num_threads(threads);
        AttentionEngineScope fused(AttentionEngine::fused);
        return output_and_gradients(attention, place, sizes, DType::f64);
      };
      check_alike(run(3), run(1), 0);
    }
  });
  omp_set_num_threads(before);
}

/// Whether the plan has a matrix of all pairs as a capture (PerPair).
bool has_matrix_of_pairs(const Plan& plan) {
  for (const auto* terms : {&plan.score_changes, &plan.biases, &plan.windows})
    for (const PairTerm& term : *terms)
      for (const Capture& capture : term.captures)
        if (capture.per == Per::pair && capture.value.size(-2) > 1) return true;
  return false;
}

BOOST_AUTO_TEST_CASE(the_memory_of_a_forward_pass_is_linear_in_the_number_of_positions) {
  const int before_test = omp_get_max_threads();
  omp_set_num_threads(1);  // with several threads, the number of strips in memory at one time varies from run to run
  for_every_fused([](const std::string&, Attention& attention, Place place) {
    attention.to(DType::f32);
    AttentionEngineScope fused(AttentionEngine::fused);
    Generator generator(7);
    const Variable x(random_tensor({1, 4, 6}, generator).to(DType::f32));
    const Variable mask = Tensor::full({1, 1, 1, 4}, 0.5, DType::f32);
    const AttentionInput input{.query = x, .key = x, .value = x, .mask = mask, .causal = place == Place::decoder};
    if (has_matrix_of_pairs(plan_of(attention, input))) return;
    auto peak_bytes = [&](std::int64_t positions) {
      Generator generator(8);
      auto states = [&] { return Variable(random_tensor({1, positions, 6}, generator).to(DType::f32), true); };
      Variable key = states(), query = place == Place::cross ? states() : key;
      Tensor mask = Tensor::full({1, 1, 1, positions}, 0.5, DType::f32);
      const std::size_t before = allocator_statistics().bytes_in_use;
      reset_peak();
      attention.forward({.query = query, .key = key, .value = key, .mask = mask, .causal = place == Place::decoder});
      return static_cast<double>(allocator_statistics().peak_bytes - before);
    };
    const double few = peak_bytes(500), many = peak_bytes(1500);  // a matrix of all pairs would be 9 times as large
    BOOST_TEST(many < 4 * few, fmt::format("{} bytes for 500 positions, {} for 1500", few, many));
  });
  omp_set_num_threads(before_test);
}

BOOST_AUTO_TEST_CASE(the_fused_engine_traces_the_weights_of_the_composed_one) {
  for_every_fused([](const std::string&, Attention& attention, Place place) {
    auto run = [&](AttentionEngine engine) {
      AttentionEngineScope chosen(engine);
      AttentionTrace trace;
      output_and_gradients(attention, place, all_sizes[1], DType::f64, &trace);
      std::vector<Tensor> all{trace.weights.value()};
      for (const TracedQuantity& quantity : trace.quantities) all.push_back(quantity.value.value());
      return all;
    };
    check_alike(run(AttentionEngine::fused), run(AttentionEngine::composed), 1e-12);
  });
}

// In step-by-step decoding the focus passes from call to call, and its gradient passes back.
BOOST_AUTO_TEST_CASE(the_focus_has_a_gradient_of_its_own) {
  for (const char* specification : {"flexible", "general+flexible(detach_focus=true)",
                                    "heads(global*1, flexible(p_init=nopen)*1)", "flexible(threshold=0.5,sigma=1)"}) {
    auto attention = random_attention(specification, Place::cross);
    auto run = [&](AttentionEngine engine, bool second_order) {
      AttentionEngineScope chosen(engine);
      Generator generator(10);
      Variable x(random_tensor({2, 9, 6}, generator), true), y(random_tensor({2, 11, 6}, generator), true);
      Variable previous(random_tensor({2, 2}, generator, 1, 6), true);
      AttentionTrace trace;
      Variable out = attention->forward({.query = x,
                                         .key = y,
                                         .value = y,
                                         .key_lengths = Tensor::from(std::vector<std::int32_t>{11, 7}, {2}),
                                         .trace = &trace,
                                         .previous_focus = previous});
      Variable loss = sum(square(out));
      for (const TracedQuantity& quantity : trace.quantities)
        if (quantity.name == "focus")
          loss = loss + sum(quantity.value * random_tensor(quantity.value.shape(), generator));
      std::vector<Variable> inputs{x, y, previous};
      std::vector<Variable> slopes = grad(loss, inputs, {}, {.create_graph = second_order});
      if (second_order) slopes = grad(sum(square(slopes[0])) + sum(square(slopes[1])), {x, y});
      std::vector<Tensor> all;
      for (const Variable& slope : slopes)
        all.push_back(slope.defined() ? slope.value() : Tensor::zeros({1}, DType::f64));
      return all;
    };
    for (bool second_order : {false, true}) BOOST_TEST_CONTEXT(specification << (second_order ? ", twice" : "")) {
        check_alike(run(AttentionEngine::fused, second_order), run(AttentionEngine::composed, second_order), 1e-11);
      }
  }
}

BOOST_AUTO_TEST_SUITE_END()
