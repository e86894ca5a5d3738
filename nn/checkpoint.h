/// A model's parameters by name, to be written to a file and read from one.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "nn/module.h"

namespace fovea {

using NamedTensors = std::map<std::string, Tensor>;

/// The values of all parameters, under their full names. The tensors are the parameters' own: write or clone them
/// before the next update.
NamedTensors state(const Module& module);

/// Copies values into `destination`, tensor by tensor, casting where types differ. The names must be the same and each
/// tensor of the same shape: otherwise throws Error, one line with `source` (a file), the first name and the number of
/// those missing, unexpected and of another shape, and changes nothing.
void load_tensors(NamedTensors& destination, const NamedTensors& values, std::string_view source);

/// load_tensors into the module's parameters.
void load_state(Module& module, const NamedTensors& values, std::string_view source);

/// The same, of all tensors of a .safetensors file. Throws Error for a file that is none, too.
void load_state(Module& module, const std::filesystem::path& file);

}  // namespace fovea
