#include "attention/methods/activation.h"

namespace fovea {

void HeadActivation::visit(OptionVisitor& visitor, Options& options) {
  visitor.choice("function", options.function, {"none", "relu", "gelu"}, "F, applied to the concatenated heads");
  visitor.integer("width", options.width, 0, 65536,
                  "d_f, the width of the values of all heads together; 0: the width of the model");
}

HeadActivation::HeadActivation(const MethodShape& shape, const Options& options) : options_(options) {
  require(shape.heads == shape.all_heads,
          "activation: it acts on all heads, so heads= and heads(...) cannot be used with it");
}

void HeadActivation::change(Surroundings& surroundings) const {
  require(!surroundings.activation || options_.function == Function::none,
          "activation: two methods set the function of the heads; an attention has one");
  if (options_.width > 0) surroundings.value_dim = options_.width;
  switch (options_.function) {
    case Function::none:
      break;
    case Function::relu:
      surroundings.activation = relu;
      break;
    case Function::gelu:
      surroundings.activation = gelu;
      break;
  }
}

}  // namespace fovea
