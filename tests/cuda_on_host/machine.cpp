#include "tests/cuda_on_host/machine.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "tensor/error.h"
#include "tensor/support/suggestion.h"

namespace fovea::cuda_on_host {

namespace {

/// Reads the whole number `value` of `name` into `number`. Throws Error unless it is at least 0 and fits.
template <class Number>
void read(const std::string& name, const std::string& value, Number& number) {
  Number found = 0;
  const char* end = value.data() + value.size();
  const auto [stopped, error] = std::from_chars(value.data(), end, found);
  require(error == std::errc() && stopped == end && found >= 0,
          "FOVEA_CUDA_ON_HOST: {}='{}': expected a whole number from 0 to {}", name, value,
          std::numeric_limits<Number>::max());
  number = found;
}

Machine parse_machine(const std::string& text) {
  Machine machine;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    require(equals != std::string::npos, "FOVEA_CUDA_ON_HOST: '{}' is not of the form name=value", word);
    const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
    if (name == "devices") {
      read(name, value, machine.devices);
    } else if (name == "driver") {
      read(name, value, machine.driver);
    } else if (name == "architecture") {
      read(name, value, machine.architecture);
    } else if (name == "memory") {
      read(name, value, machine.memory);
    } else if (name == "fault") {
      require(!value.empty(), "FOVEA_CUDA_ON_HOST: fault='': expected the name of a kernel, such as softmax");
      machine.fault = value;
    } else {
      fail("FOVEA_CUDA_ON_HOST: there is no '{}'{}; there are devices, driver, architecture, memory and fault", name,
           did_you_mean(name, {"devices", "driver", "architecture", "memory", "fault"}));
    }
  }
  return machine;
}

}  // namespace

const Machine& machine() {
  static const Machine described = [] {
    const char* text = std::getenv("FOVEA_CUDA_ON_HOST");
    return parse_machine(text ? text : "");
  }();
  return described;
}

}  // namespace fovea::cuda_on_host
