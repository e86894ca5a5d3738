#include "nn/checkpoint.h"

#include "tensor/format/safetensors.h"

namespace fovea {

NamedTensors state(const Module& module) {
  NamedTensors out;
  for (const NamedParameter& p : module.parameters()) out[p.name] = p.variable.value();
  return out;
}

namespace {

/// The tensors that differ in one way (missing, unexpected or of another shape): their number, and the name and shape
/// of the first.
struct Differences {
  int count = 0;
  std::string first;

  void add(const std::string& name, const std::string& shape) {
    if (count++ == 0) first = fmt::format("'{}' {}", name, shape);
  }
  std::string str(const char* what) const { return count ? fmt::format("; {} {}: {}", count, what, first) : ""; }
};

}  // namespace

void load_tensors(NamedTensors& destination, const NamedTensors& values, std::string_view source) {
  Differences missing, unexpected, reshaped;
  for (const auto& [name, mine] : destination) {
    auto found = values.find(name);
    if (found == values.end())
      missing.add(name, mine.shape().str());
    else if (found->second.shape() != mine.shape())
      reshaped.add(name, fmt::format("{}, expected {}", found->second.shape().str(), mine.shape().str()));
  }
  for (const auto& [name, theirs] : values)
    if (!destination.count(name)) unexpected.add(name, theirs.shape().str());
  require(missing.count + unexpected.count + reshaped.count == 0,
          "{}: the tensors are not those of the model{}{}{} (the first of each kind is named)", source,
          missing.str("missing"), unexpected.str("unexpected"), reshaped.str("of another shape"));
  for (auto& [name, mine] : destination) mine.copy_from(values.at(name));
}

void load_state(Module& module, const NamedTensors& values, std::string_view source) {
  NamedTensors destination = state(module);
  load_tensors(destination, values, source);
}

void load_state(Module& module, const std::filesystem::path& file) {
  NamedTensors values;
  for (auto& [name, tensor] : read_safetensors(file).tensors) values[name] = tensor;
  load_state(module, values, file.string());
}

}  // namespace fovea
