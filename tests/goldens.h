/// Values of other programs, read from tests/goldens. A tensor is {"shape": [...], "values": [...]}; it is read
/// as f64, and lies on the tested device.
#pragma once
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/device.h"

namespace fovea::test {

inline nlohmann::json golden(const std::string& file) {
  std::string path = "tests/goldens/" + file;  // tests run in the root
  std::ifstream in(path);
  require(in.good(), "{}: cannot be opened", path);
  return nlohmann::json::parse(in);
}

inline nlohmann::json golden_cases(const std::string& file) { return golden(file).at("cases"); }

inline Tensor golden_tensor(const nlohmann::json& json) {
  auto sizes = json.at("shape").get<std::vector<std::int64_t>>();
  return here(Tensor::from(json.at("values").get<std::vector<double>>(), Shape(std::span<const std::int64_t>(sizes))));
}

}  // namespace fovea::test
