/// The linear layer y = x W + b.
#pragma once
#include "nn/module.h"

namespace fovea {

class Linear : public Module {
 public:
  struct Options {
    bool bias = true;
    Initializer initializer = Initializer::xavier_uniform();  ///< initial values of W; b starts at 0
    double rate = 1;                                          ///< NamedParameter::rate of W and b
  };
  Linear(std::int64_t in, std::int64_t out) : Linear(in, out, Options()) {}
  Linear(std::int64_t in, std::int64_t out, const Options& options);

  /// x [..., in] → [..., out]
  Variable forward(const Variable& x) const;

  const Variable& weight() const { return weight_; }  ///< W [in, out]
  const Variable& bias() const { return bias_; }      ///< b [out]; undefined if the layer has no bias

 private:
  Variable weight_, bias_;
};

}  // namespace fovea
