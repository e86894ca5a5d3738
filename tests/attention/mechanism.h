/// One call of an attention without projections: its parameters by name, its inputs as numbers.
#pragma once
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "attention/registry.h"
#include "tensor/reduce.h"
#include "tests/attention/attentions.h"

namespace fovea::test {

using Values = std::vector<double>;

class Mechanism {
 public:
  Mechanism(const std::string& specification, const AttentionShape& shape, std::map<std::string, Values> own = {})
      : attention_(attention_factory(specification)(shape)) {
    attention_->to(DType::f64);
    for (auto& parameter : attention_->parameters()) {
      BOOST_REQUIRE_MESSAGE(own.count(parameter.name),
                            "no value for " << parameter.name << " " << parameter.variable.describe());
      Tensor value = parameter.variable.value();
      value.copy_from(Tensor::from(own[parameter.name], value.shape()));
      own.erase(parameter.name);
    }
    BOOST_REQUIRE_MESSAGE(own.empty(), "no parameter " << own.begin()->first);
    attention_->train(false);
  }

  /// One tensor is both keys and values, as in an encoder-decoder.
  Mechanism& run(const Tensor& query, const Tensor& key, AttentionInput input = {}) {
    trace_ = {};
    input.query = query;
    input.key = input.value = key;
    input.trace = &trace_;
    output_ = attention_->forward(input);
    return *this;
  }

  Attention& attention() { return *attention_; }
  Values output() const { return output_.value().to_vector<double>(); }
  Variable output_variable() const { return output_; }
  Variable weights_variable() const { return trace_.weights; }
  Values weights() const { return trace_.weights.value().to_vector<double>(); }
  Variable quantity_variable(const std::string& name) const {
    for (const TracedQuantity& quantity : trace_.quantities)
      if (quantity.name == name) return quantity.value;
    BOOST_FAIL("no quantity " << name);
    return {};
  }
  Values quantity(const std::string& name) const { return quantity_variable(name).value().to_vector<double>(); }

 private:
  std::shared_ptr<Attention> attention_;
  AttentionTrace trace_;
  Variable output_;
};

/// Checks that the numbers are equal to the printed digits.
inline void check_printed(const Values& computed, const Values& printed) {
  BOOST_REQUIRE(computed.size() >= printed.size());
  for (std::size_t k = 0; k < printed.size(); ++k)
    BOOST_TEST(std::abs(computed[k] - printed[k]) < 1e-6,
               "entry " << k << ": " << computed[k] << ", printed " << printed[k]);
}

inline void check_equal(const Values& a, const Values& b, double tolerance = 1e-12) {
  BOOST_REQUIRE(a.size() == b.size());
  for (std::size_t k = 0; k < a.size(); ++k)
    BOOST_TEST(std::abs(a[k] - b[k]) <= tolerance, "entry " << k << ": " << a[k] << " and " << b[k]);
}

inline Values row_sums(const Variable& weights) { return sum(weights.value(), {-1}).to_vector<double>(); }

inline Tensor key_lengths(std::vector<std::int32_t> lengths) {
  return Tensor::from(lengths, {static_cast<std::int64_t>(lengths.size())});
}

}  // namespace fovea::test
