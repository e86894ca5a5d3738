#include "tests/cuda_on_host/machine.h"

#include <cstdlib>
#include <sstream>

#include "tensor/error.h"

namespace fovea::cuda_on_host {

namespace {

Machine parse_machine(const std::string& text) {
  Machine machine;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    require(equals != std::string::npos, "FOVEA_CUDA_ON_HOST: '{}' is not of the form name=value", word);
    const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
    if (name == "devices")
      machine.devices = std::stoi(value);
    else if (name == "driver")
      machine.driver = std::stoi(value);
    else if (name == "architecture")
      machine.architecture = std::stoi(value);
    else if (name == "memory")
      machine.memory = std::stoul(value);
    else if (name == "fault")
      machine.fault = value;
    else
      fail("FOVEA_CUDA_ON_HOST: there is no '{}'", name);
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
