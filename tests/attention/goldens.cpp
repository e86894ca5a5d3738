// Worked examples of the papers' equations: three tokens of width two, one head. An independent program printed the
// expected numbers to six digits.
#include "tests/goldens.h"

#include <cmath>
#include <map>

#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "tensor/reduce.h"
#include "tests/attention/attentions.h"

using namespace fovea;
using namespace fovea::test;

namespace {

using Values = std::vector<double>;

/// X = ((1, 0), (0, 1), (1, 1)); W^Q, W^K, W^V as below, no biases, no output projection.
class Toy {
 public:
  explicit Toy(const std::string& specification, Place place = Place::encoder, std::map<std::string, Values> own = {}) {
    attention_ =
        attention_factory(specification)({.model_dim = 2, .heads = 1, .layer = 0, .layers = 1, .place = place});
    attention_->to(DType::f64);
    own.insert({{"query.weight", {1, 0, 0, 0.5}},
                {"key.weight", {0.5, 0.5, 0, 1}},
                {"value.weight", {1, 0, 1, 1}},
                {"output.weight", {1, 0, 0, 1}}});
    for (auto& parameter : attention_->parameters()) {
      Tensor value = parameter.variable.value();
      auto given = own.find(parameter.name);
      if (given == own.end()) {
        value.fill(0);
        continue;
      }
      value.copy_from(Tensor::from(given->second, value.shape()));
      own.erase(given);
    }
    BOOST_REQUIRE_MESSAGE(own.empty(), "no parameter " << own.begin()->first);
    attention_->train(false);
  }

  Toy& causal() { return causal_ = true, *this; }
  Toy& length(std::int32_t length) { return length_ = length, *this; }
  Toy& mask(Values values) { return mask_ = values, *this; }
  Toy& queries(Values values) { return queries_ = values, *this; }

  const Toy& run() {
    Tensor x = Tensor::of({1, 0, 0, 1, 1, 1}, {1, 3, 2});
    Tensor query =
        queries_.empty() ? x : Tensor::from(queries_, {1, static_cast<std::int64_t>(queries_.size() / 2), 2});
    AttentionInput input{.query = query, .key = x, .value = x, .causal = causal_, .trace = &trace_};
    if (length_) input.key_lengths = Tensor::from(std::vector<std::int32_t>{length_}, {1});
    if (!mask_.empty()) input.mask = Tensor::from(mask_, {1, 1, 3, 3});
    output_ = attention_->forward(input);
    return *this;
  }

  Values output() const { return output_.value().to_vector<double>(); }
  Values weights() const { return trace_.weights.value().to_vector<double>(); }
  Values quantity(const std::string& name) const {
    for (const TracedQuantity& quantity : trace_.quantities)
      if (quantity.name == name) return quantity.value.value().to_vector<double>();
    BOOST_FAIL("no quantity " << name);
    return {};
  }
  Values row_sums() const { return sum(trace_.weights.value(), {-1}).to_vector<double>(); }

 private:
  std::shared_ptr<Attention> attention_;
  bool causal_ = false;
  std::int32_t length_ = 0;
  Values queries_, mask_;
  AttentionTrace trace_;
  Variable output_;
};

/// Checks that the numbers are equal to the printed digits.
void check(const Values& computed, const Values& printed) {
  BOOST_REQUIRE(computed.size() >= printed.size());
  for (std::size_t k = 0; k < printed.size(); ++k)
    BOOST_TEST(std::abs(computed[k] - printed[k]) < 1e-6,
               "entry " << k << ": " << computed[k] << ", printed " << printed[k]);
}

const std::map<std::string, Values> gaussian_weights{{"gaussian.hidden.weight", {0.5, 0, 0, -0.5}},
                                                     {"gaussian.center.weight", {1, 1}}};

std::map<std::string, Values> gaussian_with(std::map<std::string, Values> more) {
  more.insert(gaussian_weights.begin(), gaussian_weights.end());
  return more;
}

std::map<std::string, Values> window_with(std::map<std::string, Values> more) {
  more.insert({{"window.left_query.weight", {0.5, 0, 0.5, 0.5}},
               {"window.left_key.weight", {1, 0, 0, 1}},
               {"window.right_query.weight", {0, 0.5, 0.5, 0}},
               {"window.right_key.weight", {1, 0.5, 0, 1}}});
  return more;
}

/// W, P and U of DMAN: P_{t−s} = −1, 0.5, 0, 1, −2 for t − s = −2, ..., 2.
const std::map<std::string, Values> dynamic_mask{
    {"dman.weight", {0.5, -1}}, {"dman.left", {1, -2}}, {"dman.right", {0.5, -1}}, {"dman.head", {0.2}}};

const std::map<std::string, Values> local_weights{{"window.local_query.weight", {0.3, 0, 0, 0.3}},
                                                  {"window.local_key.weight", {0.2, 0.1, 0.1, 0.2}}};

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_goldens)

BOOST_AUTO_TEST_CASE(mechanisms_with_projections_of_their_own) {
  for (const nlohmann::json& c : golden_cases("mechanisms.json")) BOOST_TEST_CONTEXT(c.at("name")) {
      const bool causal = c.at("causal");
      AttentionShape shape{.model_dim = 4, .heads = c.at("heads"), .place = causal ? Place::decoder : Place::encoder};
      auto attention = attention_factory(c.at("name"))(shape);
      attention->to(DType::f64);
      attention->to(test_device());
      attention->train(false);
      BOOST_TEST(attention->parameters().size() == c.at("parameters").size());
      for (auto& parameter : attention->parameters()) {
        Tensor value = parameter.variable.value(), given = golden_tensor(c.at("parameters").at(parameter.name));
        BOOST_REQUIRE(value.shape() == given.shape());
        value.copy_from(given);
      }
      Tensor x = golden_tensor(c.at("x")), sentence = x.reshape({1, x.size(0), x.size(1)});
      AttentionTrace trace;
      AttentionInput input{.query = sentence, .key = sentence, .value = sentence, .causal = causal, .trace = &trace};
      input.key_lengths = Tensor::from(std::vector<std::int32_t>{c.at("length").get<std::int32_t>()}, {1});
      for (auto engine : {AttentionEngine::composed, AttentionEngine::fused}) {
        AttentionEngineScope chosen(engine);
        Variable output = attention->forward(input);
        auto differs_from = [&](const char* name, const Values& computed) {
          Values expected = golden_tensor(c.at(name)).to_vector<double>();
          BOOST_REQUIRE(computed.size() == expected.size());
          double largest = 0;
          for (std::size_t k = 0; k < computed.size(); ++k)
            largest = std::max(largest, std::abs(computed[k] - expected[k]));
          return largest;
        };
        BOOST_TEST(differs_from("output", output.value().to_vector<double>()) < 1e-10);
        BOOST_TEST(differs_from("weights", trace.weights.value().to_vector<double>()) < 1e-10);
      }
    }
}

BOOST_AUTO_TEST_CASE(plain_self_attention) {
  Toy plain = Toy("global").run();
  check(plain.weights(), {0.37007, 0.259859, 0.37007, 0.276435, 0.329888, 0.393677, 0.306552, 0.256881, 0.436567});
  check(plain.output(), {1.37007, 0.62993, 1.393677, 0.723565, 1.436567, 0.693448});
  Toy causal = Toy("global", Place::decoder).causal().run();
  check(causal.weights(), {1, 0, 0, 0.455921, 0.544079, 0, 0.306552, 0.256881, 0.436567});
  check(causal.output(), {1, 0, 1, 0.544079, 1.436567, 0.693448});
  check(Toy("global").length(2).run().weights(), {0.587479, 0.412521, 0, 0.455921, 0.544079, 0, 0.544079, 0.455921, 0});
}

BOOST_AUTO_TEST_CASE(shaw_relative_positions) {
  Toy toy =
      Toy("relative(clip=1)", Place::encoder,
          {{"relative.key_table", {0.1, -0.2, 0, 0, 0.3, 0.2}}, {"relative.value_table", {-0.5, 0, 0, 0, 0.25, 0.5}}})
          .run();
  check(toy.weights(), {0.32212, 0.27964, 0.39824, 0.25502, 0.326631, 0.418349, 0.306552, 0.256881, 0.436567});
  check(toy.output(), {1.56771, 1.01682, 1.395427, 0.954155, 1.15485, 0.693448});
}

BOOST_AUTO_TEST_CASE(yang_gaussian_bias) {
  Toy fixed = Toy("gaussian(window=fixed)", Place::encoder, gaussian_weights).run();
  check(fixed.quantity("center"), {1.227033, 0.878149, 1.108174});
  check(fixed.weights(), {0.364799, 0.263716, 0.371485, 0.276101, 0.334511, 0.389387, 0.303481, 0.260569, 0.43595});

  Toy query = Toy("gaussian", Place::encoder, gaussian_with({{"gaussian.width.weight", {-1, 0.5}}})).run();
  check(query.quantity("width"), {1.259451, 1.50827, 1.173641});
  check(query.weights(), {0.117169, 0.514625, 0.368206, 0.235401, 0.546197, 0.218401, 0.116689, 0.571832, 0.311479});
  check(query.output(), {1.368206, 0.882831, 1.218401, 0.764599, 1.311479, 0.883311});

  Toy layer = Toy("gaussian(window=layer)", Place::encoder,
                  gaussian_with({{"gaussian.width_hidden.weight", {1, 0, 0, 1}}, {"gaussian.width.weight", {-1, 0.5}}}))
                  .run();
  BOOST_TEST(std::abs(layer.quantity("width")[0] - 1.64445) < 1e-5);
  check(layer.weights(), {0.199374, 0.410361, 0.390265});

  Toy head = Toy("gaussian(window=head)", Place::encoder, gaussian_weights).run();
  check(head.quantity("width"), {25.1});
  check(head.weights(), {0.369232, 0.26047, 0.370298});

  Toy paper = Toy("gaussian(center_scale=paper,epsilon=0)", Place::encoder,
                  gaussian_with({{"gaussian.width.weight", {-1, 0.5}}}))
                  .run();
  check(paper.quantity("center"), {0.840549, 0.317224, 0.662261});
  check(paper.quantity("width"), {1.159451, 1.40827, 1.073641});

  // u_i = (0.5, 0), (0, -0.25), (0.5, -0.25); P_i = 3 sigmoid(u_i (1, 1)) - 1
  Toy nguyen =
      Toy("gaussian(window=fixed,width=5,center_scale=paper,linear=true)", Place::encoder, gaussian_weights).run();
  check(nguyen.quantity("center"), {0.867378, 0.31347, 0.68653});
}

BOOST_AUTO_TEST_CASE(nguyen_windows) {
  const Values mask{0.646506, 0.837736, 0.763747, 0.662116, 0.813898, 0.785979, 0.626418, 0.760773, 0.892094};
  Toy mw = Toy("window", Place::encoder, window_with({})).run();
  check(mw.quantity("left_pointer"),
        {0.37007, 0.259859, 0.37007, 0.292046, 0.292046, 0.415908, 0.319866, 0.224606, 0.455527});
  check(mw.quantity("right_pointer"),
        {0.276435, 0.329888, 0.393677, 0.37007, 0.259859, 0.37007, 0.306552, 0.256881, 0.436567});
  check(mw.quantity("window"), mask);
  check(mw.row_sums(), {0.739586, 0.760949, 0.776917});
  check(mw.output(), {1.022226, 0.500334, 1.07037, 0.577917, 1.166376, 0.584887});

  Toy causal = Toy("window", Place::decoder, window_with({})).causal().run();
  check(causal.quantity("window"), {2, 0, 0, 1.087479, 0.912521, 0, 0.626418, 0.760773, 0.892094});
  check(causal.output(), {2, 0, 0.992288, 0.496484, 1.166376, 0.584887});

  Toy aw = Toy("window(use=additive)", Place::encoder, window_with(local_weights)).run();
  check(aw.weights(), {0.368075, 0.255974, 0.375952, 0.270684, 0.32971, 0.399606, 0.296018, 0.250183, 0.453799});
  check(aw.output(), {1.375952, 0.631925, 1.399606, 0.729316, 1.453799, 0.703982});

  Toy cross =
      Toy("window(use=additive,segment=2)", Place::cross, window_with(local_weights)).queries({0, 1, 1, -1}).run();
  check(cross.quantity("window"), {1.214021, 1.214021, 0.785979, 1.362597, 1.362597, 0.637403});
  check(cross.output(), {1.396107, 0.728526, 1.30488, 0.553081});
}

BOOST_AUTO_TEST_CASE(fan_mask_attention) {
  const Values mask{0.668188, 0.768525, 0.425557, 0.549834, 0.310026, 0.425557, 0.091123, 0.668188, 0.425557};
  const Values weights{0.409079, 0.330385, 0.260536, 0.360346, 0.24247, 0.397184, 0.072487, 0.44541, 0.482102};
  Toy dman = Toy("dman(clip=2)", Place::encoder, dynamic_mask).run();
  check(dman.quantity("mask"), mask);
  check(dman.weights(), weights);
  check(dman.output(), {1.260536, 0.590921, 1.397184, 0.639654, 1.482102, 0.927513});
  Toy causal = Toy("dman(clip=2)", Place::decoder, dynamic_mask).causal().run();
  check(causal.weights(), {1, 0, 0, 0.597771, 0.402229, 0});
  check(Toy("man").mask(dman.quantity("mask")).run().weights(), weights);

  const Values near{0.587479, 0.412521, 0, 0.276435, 0.329888, 0.393677, 0, 0.37044, 0.62956};
  Toy sman = Toy("sman(width=fixed,distance=1)").run();
  check(sman.weights(), near);
  check(sman.quantity("mask"), {1, 1, 0, 1, 1, 1, 0, 1, 1});
  check(sman.quantity("range"), {0, 1, 0, 2, 1, 2});
  check(Toy("man").mask({1, 1, 0, 1, 1, 1, 0, 1, 1}).run().weights(), near);
}

BOOST_AUTO_TEST_CASE(mask_attention_of_the_identity_is_a_feed_forward_block) {
  Toy block = Toy("man+activation(function=relu,width=3)", Place::encoder,
                  {{"value.weight", {1, -1, 0.5, 0, 2, -1}}, {"output.weight", {1, 0, 0, 1, 0.5, 0.5}}})
                  .mask({1, 0, 0, 0, 1, 0, 0, 0, 1})
                  .run();
  check(block.output(), {1.25, 0.25, 0, 2, 1, 1});
}

BOOST_AUTO_TEST_CASE(the_exact_window_is_the_expected_discrete_mask) {
  // E over (l, r) of [l ≤ k ≤ r or r ≤ k ≤ l], by brute force over all pairs of segments.
  for (std::int64_t segment : {1, 2}) {
    std::string options = "(mask=exact,segment=" + std::to_string(segment) + ")";
    Toy toy = Toy("window" + options, Place::encoder, window_with({})).run();
    Values left = toy.quantity("left_pointer"), right = toy.quantity("right_pointer"), mask = toy.quantity("window");
    for (int i = 0; i < 3; ++i)
      for (int k = 0; k < 3; ++k) {
        double expected = 0;
        for (int l = 0; l < 3; ++l)
          for (int r = 0; r < 3; ++r) {
            std::int64_t a = std::min(l, r) / segment, b = std::max(l, r) / segment, at = k / segment;
            if (a <= at && at <= b) expected += left[i * 3 + l] * right[i * 3 + r];
          }
        BOOST_TEST(std::abs(mask[i * 3 + k] - expected) < 1e-12);
      }
  }
}

BOOST_AUTO_TEST_SUITE_END()
