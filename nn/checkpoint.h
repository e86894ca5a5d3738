/// Saving and loading a model's parameters by name.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "nn/module.h"

namespace fovea {

using NamedTensors = std::map<std::string, Tensor>;

/// Returns the values of all parameters under their full names. The tensors share memory with the parameters, which
/// the next update changes, so write or clone the tensors before the update.
NamedTensors state(const Module& module);

/// Copies `values` into the tensors of `destination` with the same names, casting between types. Throws Error, and
/// changes nothing, unless `values` and `destination` have the same names with the same shapes. The error message
/// begins with `source`, such as the name of a file, and counts the tensors that are missing, unexpected or of another
/// shape.
void load_tensors(NamedTensors& destination, const NamedTensors& values, std::string_view source);

/// Copies `values` into the module's parameters by load_tensors().
void load_state(Module& module, const NamedTensors& values, std::string_view source);

/// Copies the tensors of a .safetensors file into the module's parameters by load_tensors(). Throws Error also if the
/// file cannot be read or does not have that format.
void load_state(Module& module, const std::filesystem::path& file);

}  // namespace fovea
