/// Saving and loading a model's parameters by name.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "nn/module.h"

namespace fovea {

using NamedTensors = std::map<std::string, Tensor>;

/// The values of all parameters under their full names. The tensors share the parameters' memory: the next update
/// changes them, so write or clone them before.
NamedTensors state(const Module& module);

/// Copies `values` into the tensors of `destination` with the same names, casting between types. Throws Error, and
/// changes nothing, unless both have the same names and shapes. The message begins with `source`, such as a file's
/// name, and counts the names that are missing, unexpected or of another shape.
void load_tensors(NamedTensors& destination, const NamedTensors& values, std::string_view source);

/// load_tensors() into the module's parameters.
void load_state(Module& module, const NamedTensors& values, std::string_view source);

/// load_tensors() from a .safetensors file into the module's parameters. Throws Error also if the file cannot be read
/// or is not in that format.
void load_state(Module& module, const std::filesystem::path& file);

}  // namespace fovea
